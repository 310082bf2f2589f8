"""Tests that a container image is sent in pieces to the hosts that lack it, and to no other host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schedbed.cluster.machines import make
from schedbed.cluster.machines.machine import MachineImage, MachineKind
from schedbed.deploy.live.ray_cluster import send_image


class Call:
    """A fake method of a Ray actor, called by `remote`."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


class FakeKeeper:
    """A fake of the actor that receives images on a host, which `lacks` the image or has it."""

    def __init__(self, *, lacks: bool) -> None:
        self.got: list[bytes] = []
        self.whole = False
        self.lacks_image = Call(lambda machines: lacks)
        self.take_image_piece = Call(lambda machines, piece: self.got.append(piece))
        self.end_image = Call(lambda: setattr(self, "whole", True))


def wait(calls: list[Any]) -> list[Any]:
    return calls


def refuse(*_: object) -> Any:
    raise AssertionError("not asked for on this host")


def test_only_hosts_that_lack_the_image_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b"one", b"two")

    kind = MachineKind(
        about="", make=refuse, image=MachineImage(is_missing=refuse, pieces=pieces, load=refuse)
    )
    monkeypatch.setitem(make.KINDS, "boxes", lambda: kind)  # pyright: ignore[reportArgumentType]
    keepers = {name: FakeKeeper(lacks=name != "has") for name in ("left", "has", "right")}
    assert send_image("boxes", keepers, wait) == ["left", "right"]
    assert [keeper.got for keeper in keepers.values()] == [[b"one", b"two"], [], [b"one", b"two"]]
    assert [keeper.whole for keeper in keepers.values()] == [True, False, True]


def test_machines_without_an_image_ask_nobody() -> None:
    assert send_image("process", {"left": object()}, wait) == []

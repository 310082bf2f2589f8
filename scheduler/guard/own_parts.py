"""Wrappers of a user's admission and speculation, which shipped code and the core call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedbed.scheduler.guard.own_order import MakeHook, method_of
from schedbed.scheduler.policy import Proposal


class GuardedAdmission:
    """A wrapper of a user's admission, called by the shipped speculation."""

    def __init__(self, own: Any, hook: MakeHook) -> None:
        self.room = hook("room", method_of(own, "room"))
        self.refuses = hook("refuses", method_of(own, "refuses"))


class GuardedSpeculation:
    """A wrapper of a user's speculation, called by the core. Absent hooks do nothing."""

    def __init__(self, own: Any, hook: MakeHook, copy: Callable[..., Proposal | None]) -> None:
        self.copy = copy  # See `Speculation.copy`.
        for name in ("tick", "ended", "finished"):
            setattr(self, name, hook(name, getattr(own, name, _nothing)))


def _nothing(*_: Any) -> None:
    """Do nothing, in place of an absent hook."""

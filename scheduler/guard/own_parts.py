"""Wrappers of a user's admission and speculation, which pass read-only proxies to the user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedbed.scheduler.guard.own_order import MakeHook, method_of
from schedbed.scheduler.policy import Proposal


class GuardedAdmission:
    """A wrapper of a user's admission, which passes read-only proxies to the user's code.

    The core's own (shipped) speculation calls the admission to check whether a node has room for a copy.
    """

    def __init__(self, own: Any, hook: MakeHook) -> None:
        self.room = hook("room", method_of(own, "room"))
        self.refuses = hook("refuses", method_of(own, "refuses"))


class GuardedSpeculation:
    """A wrapper of a user's speculation, which the core calls. A hook that the user left out does nothing."""

    def __init__(self, own: Any, hook: MakeHook, copy: Callable[..., Proposal | None]) -> None:
        self.copy = copy  # See `Speculation.copy`.
        for name in ("tick", "ended", "finished"):
            setattr(self, name, hook(name, getattr(own, name, _nothing)))


def _nothing(*_: Any) -> None:
    """Do nothing. This function replaces a hook that a user's speculation lacks."""

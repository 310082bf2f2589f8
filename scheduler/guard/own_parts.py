"""A user's admission and speculation as shipped parts and the core call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedbed.scheduler.guard.own_order import MakeHook, method_of
from schedbed.scheduler.policy import Proposal


class GuardedAdmission:
    """A user's admission as called by the shipped speculation."""

    def __init__(self, own: Any, hook: MakeHook) -> None:
        self.room = hook("room", method_of(own, "room"))
        self.refuses = hook("refuses", method_of(own, "refuses"))


class GuardedSpeculation:
    """A wrapper of a user's speculation."""

    def __init__(self, own: Any, hook: MakeHook, copy: Callable[..., Proposal | None]) -> None:
        self.copy = copy  # as in `Speculation`
        for name in ("tick", "ended", "finished"):
            setattr(self, name, hook(name, getattr(own, name, _nothing)))


def _nothing(*_: Any) -> None:
    """Do nothing."""

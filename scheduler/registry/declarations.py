"""What a file of scheduler/order, locality, admission or policies declares, so that a SPEC can name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.parameters import PolicyParameter

LAST = 1000
"""The rank of what does not say where it stands in lists: behind all that do, by name."""


class Needs(NamedTuple):
    """A module that not everybody has, and the extra of schedbed that installs the module."""

    module: str
    extra: str

    @property
    def met(self) -> bool:
        """Return whether the module can be imported, without importing it."""
        return find_spec(self.module) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a list shows: the name in a SPEC, what it does, who published it, its parameters, and its place.

    What `needs` a module that is not installed is not listed, and refused with the extra that installs it.
    """

    name: str
    summary: str
    paper: str
    parameters: tuple[PolicyParameter, ...] = ()
    rank: int = LAST
    needs: Needs | None = None

    @property
    def lacks(self) -> Needs | None:
        """Return what has to be installed for this; None when nothing has."""
        return None if self.needs is None or self.needs.met else self.needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis(Declared):
    """One implementation of an axis (order, locality or admission), declared as `AXIS` in its file.

    `factory` takes the parameters' arguments. `check(order, locality, admission)`, called with the made objects of a
    composition, may join them; it raises ValueError when they do not go together. `compose` makes the policy of the
    three where the plain composition is not enough; the admission's comes before the locality's.
    """

    axis: str
    factory: Callable[..., Any]
    check: Callable[[Any, Any, Any], None] | None = None
    compose: Callable[[Any, Any, Any], Policy] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Declared):
    """A published policy as a choice on each axis, declared as `POLICY`; the registry fills in its axes' parameters."""

    order: str
    locality: str = "greedy"
    admission: str = "slots"

    @property
    def axes(self) -> dict[str, str]:
        """Return the implementation by axis."""
        return {"order": self.order, "locality": self.locality, "admission": self.admission}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Declared):
    """A published policy that decides on all three axes at once, and so cannot be composed; declared as `POLICY`."""

    factory: Callable[..., Policy]

    @property
    def axes(self) -> dict[str, str]:
        """Return nothing: the policy has no axes of its own."""
        return {}

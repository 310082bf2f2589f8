"""Declarations with which a file of scheduler/order, locality, admission or policies makes itself available to
SPECs."""

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
    """A module that is not always installed, and the extra of schedbed that installs it."""

    module: str
    extra: str

    @property
    def met(self) -> bool:
        """Return whether the module can be imported, without importing it."""
        return find_spec(self.module) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An entry of the lists of policies and axes: name in a SPEC, summary, paper, parameters and position.

    An entry whose `needs` is not installed is not listed; using it is refused with the extra that installs it.
    """

    name: str
    summary: str
    paper: str
    parameters: tuple[PolicyParameter, ...] = ()
    rank: int = LAST
    needs: Needs | None = None

    @property
    def lacks(self) -> Needs | None:
        """Return the missing module; None if nothing is missing."""
        return None if self.needs is None or self.needs.met else self.needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis(Declared):
    """An implementation of an axis (order, locality or admission), declared as `AXIS` in its file.

    `factory` takes the parameters' arguments. `check(order, locality, admission)` is called with the objects of a
    composition; it may connect them, and raises ValueError if they do not fit together. `compose` makes the policy of
    the three if `Composed` is not enough; the admission's takes precedence over the locality's.
    """

    axis: str
    factory: Callable[..., Any]
    check: Callable[[Any, Any, Any], None] | None = None
    compose: Callable[[Any, Any, Any], Policy] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Declared):
    """A published policy that is a choice on each axis, declared as `POLICY`. The registry adds the parameters of its
    axes."""

    order: str
    locality: str = "greedy"
    admission: str = "slots"

    @property
    def axes(self) -> dict[str, str]:
        """Return the chosen implementation by axis."""
        return {"order": self.order, "locality": self.locality, "admission": self.admission}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Declared):
    """A published policy that is not composed of axes, declared as `POLICY`."""

    factory: Callable[..., Policy]

    @property
    def axes(self) -> dict[str, str]:
        """Return an empty mapping, since the policy has no axes."""
        return {}

"""Classes with which files in order, locality, admission and policies declare themselves for the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.parameters import PolicyParameter

LAST = 1000
"""The default rank: the position in lists after all declarations with a rank, sorted by name."""


class Needs(NamedTuple):
    """An optional dependency: a module, and the extra with which pip installs it, as in `schedbed[extra]`."""

    module: str
    extra: str

    @property
    def met(self) -> bool:
        """Return whether the module is installed, without importing it."""
        return find_spec(self.module) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A declared policy or axis implementation, with the name under which the registry lists it.

    `rank` is the position in the registry's lists. If the optional dependency `needs` is not installed, the
    policy or axis is not listed, and its use raises an error with the pip extra to install. `rigid`: all maps
    of a job start together, each in a slot, so a job that has more maps than the cluster slots never starts.
    `defaults` replaces default values, by parameter, as text: so a preset of a real system has that system's defaults.
    """

    name: str
    summary: str
    paper: str
    parameters: tuple[PolicyParameter, ...] = ()
    rank: int = LAST
    needs: Needs | None = None
    rigid: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def lacks(self) -> Needs | None:
        """Return `needs` if it is not installed."""
        return None if self.needs is None or self.needs.met else self.needs


@dataclass(frozen=True, slots=True)
class FileLoader:
    """The loader of users' policies, declared as `LOADER` in a file of scheduler/guard.

    `load` receives `path/to/file.py:ClassName`, the parameters and the scenario's `scale`. It raises BadInput.
    """

    load: Callable[[str, Mapping[str, Any], float], Policy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis(Declared):
    """An implementation of an axis (order, locality or admission), declared as `AXIS` in its file.

    `factory` makes the implementation from the parameters' values. `check(order, locality, admission)`
    receives the three objects of a composed policy. It may connect them, and raises ValueError if they cannot
    be combined. `compose` makes the policy from the three objects, or returns None if `Composed` is sufficient. If
    several axes have `compose`, the admission's is asked first, then the locality's, then the order's. Beside an
    order, `admission` applies unless the composition, or `named`, names another.
    """

    axis: str
    factory: Callable[..., Any]
    check: Callable[[Any, Any, Any], None] | None = None
    compose: Callable[[Any, Any, Any], Policy | None] | None = None
    admission: str = "slots"

    def named(self, summary: str, rank: int, **others: str) -> Named:
        """Return the policy of the axis's name, from the same paper, with `others` as its other axes."""
        axes: dict[str, Any] = {"admission": self.admission, self.axis: self.name, **others}
        return Named(name=self.name, summary=summary, paper=self.paper, needs=self.needs, rank=rank, **axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Declared):
    """A policy from a paper that consists of one implementation of each axis, declared as `POLICY`.

    Its parameters are those of the three implementations, which the registry adds.
    """

    order: str
    locality: str = "greedy"
    admission: str = "slots"

    @property
    def axes(self) -> dict[str, str]:
        return {"order": self.order, "locality": self.locality, "admission": self.admission}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Declared):
    """A policy from a paper that is implemented as one class instead of three axes, declared as `POLICY`."""

    factory: Callable[..., Policy]

    @property
    def axes(self) -> dict[str, str]:
        """Return nothing: the policy has no axes."""
        return {}

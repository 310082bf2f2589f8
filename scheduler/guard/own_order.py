"""A policy composed of a shipped locality and admission, and an order that a user may have written.

A user's order gets read-only proxies, shipped axes the core's objects. Tests check that a run's tables do not
depend on this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from schedbed.scheduler.core.entities import Job, Node
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.states import JOB_RUNNING
from schedbed.scheduler.guard.guarded_calls import Guard
from schedbed.scheduler.guard.proxies import JOB_PROXIES, Proxies
from schedbed.scheduler.guard.read_only import raw_of
from schedbed.scheduler.hooks import Quiet
from schedbed.scheduler.hooks import hook as member
from schedbed.scheduler.hooks import own as own_member
from schedbed.scheduler.policy import Composed
from schedbed.tasks.specs import TaskKind

AXES = tuple(f"schedbed.scheduler.{axis}." for axis in ("order", "locality", "admission"))
HOOKS = ("submitted", "finished", "ended", "beat", "changed", "tick")
IN_ANY_CLASS = ("__annotations__", "__doc__", "__firstlineno__", "__module__", "__static_attributes__")
MORE = 100
"""The number of jobs that an order may return in addition to the number of jobs, for example duplicates."""

MakeHook = Callable[[str, Callable[..., Any]], Callable[..., Any]]


def method_of(own: Any, name: str) -> Callable[..., Any]:
    """Return a method of `own`. Raises AttributeError or TypeError."""
    method = getattr(own, name)
    if not callable(method):
        raise TypeError(f"{name} is a {type(method).__name__}, expected a method")
    return method


def is_shipped(axis: Any) -> bool:
    """Return whether the axis is an instance of a shipped class, and no method of it was replaced."""
    kind = type(axis)
    ours = kind.__module__.startswith(AXES) and getattr(
        sys.modules.get(kind.__module__), kind.__qualname__, None
    )
    return ours is kind and not any(
        _is_foreign(axis, each) for each in getattr(axis, "__dict__", {}).values()
    )


def _is_foreign(axis: Any, value: Any) -> bool:
    return callable(value) and getattr(value, "__self__", None) is not axis


def takes_core(own: Any) -> bool:
    """Return whether the policy may be given the core's objects instead of proxies.

    It may if it adds nothing to its axes, locality and admission are shipped, and a user's order has no
    `preempt`.
    """
    if not isinstance(own, Composed) or not (is_shipped(own.locality) and is_shipped(own.admission)):
        return False
    return _adds_nothing(own) and (is_shipped(own.order) or member(own.order, "preempt") is None)


def _adds_nothing(own: Composed) -> bool:
    """Return whether the policy does what `Composed` does with its axes.

    A subclass may define `__init__`, and names that neither `Composed` nor the core uses.
    """
    plain, kind = Composed(own.order, own.locality, own.admission), type(own)
    used = {*dir(plain), *HOOKS, "preempt", "stage_ready"}
    defined = {name for each in kind.__mro__[: kind.__mro__.index(Composed)] for name in vars(each)}
    defined.difference_update(IN_ANY_CLASS, ["__init__"])
    if defined & used or any(name.startswith("__") for name in defined):
        return False
    return all(_is_same(value, vars(plain).get(name)) for name, value in vars(own).items() if name in used)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, partial) and isinstance(other, partial):
        return (one.func, one.args) == (other.func, other.args)
    return one == other


def hears_each_heartbeat(own: Any) -> bool:
    """Return whether the policy may depend on heartbeats that report no change.

    What promises to be `quiet` does not. Without this, a shipped axis may, a user's policy or axis if it has
    the hook `beat`; that of a `Composed` policy only calls those of its axes. `scheduler.guard.proxies`
    detects other reads of values that heartbeats change.
    """
    if not _is_its_axes(own):
        return _hears(own, sees_core=False)
    return any(_hears(axis, sees_core=takes_core(own) and is_shipped(axis)) for axis in own.axes)


def _is_its_axes(own: Any) -> bool:
    """Return whether only the policy's axes can make it depend on heartbeats."""
    if type(own) is Composed:
        return True
    return isinstance(own, Composed) and not hasattr(type(own), "beat") and promise_of(own) is None


def _hears(part: Any, *, sees_core: bool) -> bool:
    said = promise_of(part)
    if said is None:
        return sees_core or member(part, "beat") is not None
    return said.counts


def promise_of(part: Any) -> Quiet | None:
    """Return the policy's or axis's own promise. Raises TypeError for anything but a `Quiet`."""
    said = own_member(part, "quiet")
    if said is not None and not isinstance(said, Quiet):
        raise TypeError(f"quiet is a {type(said).__name__}, expected a Quiet")
    return said


class OwnOrder:
    """Wraps a user's order for a `Composed` policy, with the hooks that it has."""

    def __init__(self, own: Any, guard: Guard, hook: MakeHook, met: Callable[[Ledger], Proxies]) -> None:
        self._met = met
        self._ask = guard.wrap("jobs", method_of(own, "jobs"))
        self._take = guard.wrap("jobs", lambda answer, most: list(islice(answer, most)))
        self._failed = guard.failed
        for name in HOOKS:
            if member(own, name) is not None:
                setattr(self, name, hook(name, method_of(own, name)))

    def jobs(self, view: Ledger, node: Node, kind: TaskKind) -> Iterator[Job]:
        """Implement `Order.jobs`: yield the core's jobs. Raises PolicyFailed for anything but running jobs."""
        proxies = self._met(view)
        answer = self._ask(proxies[view], proxies[node], kind)
        if type(answer) is not list and type(answer) is not tuple:
            answer = self._take(answer, len(view.jobs) + MORE)
        for proxy in answer:
            job = raw_of(proxy) if type(proxy) in JOB_PROXIES else None
            if job is None or proxies.get(job) is not proxy or job.state is not JOB_RUNNING:
                raise self._failed(f"jobs gives a {type(proxy).__name__} that is not a running job", "jobs")
            yield job


def composed(own: Composed, guard: Guard, hook: MakeHook, met: Callable[[Ledger], Proxies]) -> Composed:
    """Return a policy with the axes of `own`, a user's order wrapped. `takes_core(own)` must be true.

    `hook` wraps the order's hooks, and `met` makes the proxies for a ledger.
    """
    order: Any = own.order if is_shipped(own.order) else OwnOrder(own.order, guard, hook, met)
    return Composed(order, own.locality, own.admission)

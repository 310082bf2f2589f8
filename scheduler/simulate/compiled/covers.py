"""The conditions under which the compiled loop can run a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Limits, hook, quiet_of
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.locality.split import SplitLocality
from schedbed.scheduler.order.capacity import Capacity
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policies.easy import TimedEasy
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.simulate.setup import Setup

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.simulation import Simulation

KNOWN = (
    "cluster",
    "jobs",
    "policy",
    "costs",
    "files",
    "seed",
    "contention",
    "latencies",
    "timing",
    "stragglers",
)
OF_NO_ACCOUNT = ("heartbeat_rows", "skip_rows", "sizes")
"""Fields of a Setup that any value of is supported.

`sizes` limits which costs a policy reads. The compiled policies read none, and the core applies it to others.
"""
FORMS: Mapping[type, Callable[[Any], str | None]] = {
    Fifo: lambda order: "fifo",
    Fair: lambda order: "fair" if order.is_plain else None,
    Capacity: lambda order: "capacity" if order.is_plain else None,
    Greedy: lambda locality: "greedy",
    Delay: lambda locality: "delay",
    Slots: lambda admission: "slots",
}
"""The compiled version of each axis, by class; a subclass has none. Not every object of a class has one."""


def why_not(simulation: Simulation) -> str | None:
    """Return why the compiled loop cannot run the simulation, or None, by setup and policy.

    `tables_of` and `make_state` check tasks' costs and inputs later.
    """
    setup = simulation.setup
    why = why_not_setup(setup)
    if why is not None:
        return why
    if not simulation.nodes or len(simulation.node_by_name) < len(simulation.nodes):
        return "the nodes"
    if len({job.job for job in simulation.jobs}) < len(simulation.jobs):
        return "a job's id is used twice"
    if simulation.faults.touch_heartbeats:
        return "NICs delay or lose messages"
    if simulation.faults.slow_nodes:
        return "nodes have a foreground load"
    if setup.latencies.launch_later_s:
        return "launches take different times"
    if setup.timing.begin_s >= simulation.interval_s:
        return "jobs may be there before the nodes"
    if setup.cluster.blocks.replication > len(simulation.nodes):
        return "blocks have more replicas than there are nodes"
    if simulation.copies is not None:
        return "copies of fetched blocks are kept"
    if setup.cluster.blocks.replicas is not None:
        return "replicas are made by epochs"
    storage = simulation.storage
    if storage.has_orders() or storage.has_replica_changes():
        return "the NameNode has orders"
    return why_not_policy(simulation.master.policy, contention=setup.contention)


def why_not_setup(setup: Setup) -> str | None:
    """Return which field of the setup is not supported, or None. The policy is not checked."""
    if any(job.after is not None for job in setup.jobs):
        return "a job waits for another job"
    for field in fields(Setup):
        if field.name not in KNOWN and field.name not in OF_NO_ACCOUNT:
            default = field.default if field.default is not MISSING else None
            if field.default_factory is not MISSING:
                default = field.default_factory()
            if getattr(setup, field.name) != default and getattr(setup, field.name) not in ((), []):
                return f"{field.name} is set"
    return None


class Forms(NamedTuple):
    """The names of the axes' compiled versions, None without one."""

    order: str | None
    locality: str | None
    admission: str | None


def forms_of(policy: Policy) -> Forms | None:
    """Return the compiled versions of the policy's axes, or None if it has other code."""
    if type(policy) not in (Composed, Explained):
        return None
    assert isinstance(policy, Composed)
    return Forms(*map(_form_of, policy.axes))


def _form_of(axis: Any) -> str | None:
    form = FORMS.get(type(axis))
    return None if form is None else form(axis)


def why_not_policy(policy: Policy, *, contention: bool) -> str | None:
    """Return why the loop can neither run the policy nor ask it at each offer, or None."""
    return None if is_compiled(policy) else _why_not_asked(policy, contention=contention)


def is_compiled(policy: Policy) -> bool:
    """Return whether all axes of the policy have a compiled version, and the policy has no other code."""
    forms = forms_of(policy)
    if forms is None or hook(policy, "speculation") is not None:
        return False
    return None not in forms


def compiled_axis(policy: Policy, form: str) -> Any:
    """Return the axis whose compiled version is `form`, or None."""
    axes: tuple[Any, ...] = getattr(policy, "axes", ()) if is_compiled(policy) else ()
    return next((axis for axis in axes if _form_of(axis) == form), None)


def _why_not_asked(policy: Policy, *, contention: bool) -> str | None:
    """Return why the loop cannot ask the policy, or None; it gives up at a proposal that is impossible."""
    if quiet_of(policy) is None:
        return "the policy may read the progress of attempts"
    if isinstance(policy, TimedEasy) and hook(policy, "preempt"):
        return "the policy may end jobs"
    if contention and splits(policy):
        return "the policy splits tasks, and attempts contend"
    if contention and not counts_slots(policy):
        return "the policy does not count slots, and attempts contend"
    return None


def splits(policy: Policy) -> bool:
    """Return whether the policy may start parts of maps, which the compiled loop does not simulate."""
    return isinstance(policy, Composed) and isinstance(policy.locality, SplitLocality)


def counts_slots(policy: Policy) -> bool:
    """Return whether each task occupies a slot."""
    limits: Limits = hook(policy, "limits") or Limits()
    return limits.slots

"""The conditions under which the compiled loop can run a simulation."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from schedbed.scheduler.policy import Composed, Limits, Policy, says
from schedbed.scheduler.simulate.elision import reads_progress
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
ORDERS, LOCALITIES, ADMISSIONS = ("fifo", "fair", "capacity"), ("greedy", "delay"), ("slots",)
"""The compiled versions of each axis, by the names in the attribute `compiled_as` of axes."""


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
    if says(policy, "compiled_as") != "composed":
        return None
    assert isinstance(policy, Composed)
    return Forms(*(says(axis, "compiled_as") for axis in policy.axes))


def why_not_policy(policy: Policy, *, contention: bool) -> str | None:
    """Return why the loop can neither run the policy nor ask it at each offer, or None."""
    return None if is_compiled(policy) else _why_not_asked(policy, contention=contention)


def is_compiled(policy: Policy) -> bool:
    """Return whether all axes of the policy have a compiled version, and the policy has no other code."""
    forms = forms_of(policy)
    if forms is None or getattr(policy, "speculation", None) is not None:
        return False
    return forms.order in ORDERS and forms.locality in LOCALITIES and forms.admission in ADMISSIONS


def compiled_axis(policy: Policy, form: str) -> Any:
    """Return the axis whose compiled version is `form`, or None."""
    axes: tuple[Any, ...] = getattr(policy, "axes", ()) if is_compiled(policy) else ()
    return next((axis for axis in axes if says(axis, "compiled_as") == form), None)


def _why_not_asked(policy: Policy, *, contention: bool) -> str | None:
    """Return why the loop cannot ask the policy, or None; it gives up at a proposal that is impossible."""
    if reads_progress(policy):
        return "the policy may read the progress of attempts"
    if getattr(policy, "ends_jobs", False):
        return "the policy may end jobs"
    if contention and splits(policy):
        return "the policy splits tasks, and attempts contend"
    if contention and not counts_slots(policy):
        return "the policy does not count slots, and attempts contend"
    return None


def splits(policy: Policy) -> bool:
    return any(says(axis, "splits") for axis in getattr(policy, "axes", ()))


def counts_slots(policy: Policy) -> bool:
    """Return whether each task occupies a slot."""
    limits: Limits = getattr(policy, "limits", Limits())
    return limits.slots

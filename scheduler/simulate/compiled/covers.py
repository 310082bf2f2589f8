"""Which simulations the compiled loop plays."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.simulate.setup import Setup

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.simulation import Simulation

KNOWN = ("cluster", "jobs", "policy", "costs", "files", "seed", "contention", "latencies", "timing")
OF_NO_ACCOUNT = ("heartbeat_rows", "skip_rows")


def why_not(simulation: Simulation) -> str | None:
    """Why the compiled loop cannot play a simulation that has not begun; None when it may be tried."""
    setup = simulation.setup
    for field in fields(Setup):
        if field.name not in KNOWN and field.name not in OF_NO_ACCOUNT:
            default = field.default if field.default is not MISSING else None
            if field.default_factory is not MISSING:
                default = field.default_factory()
            if getattr(setup, field.name) != default and getattr(setup, field.name) not in ((), []):
                return f"{field.name} is set"
    if not simulation.nodes or len(simulation.node_by_name) < len(simulation.nodes):
        return "the nodes"
    if len({job.job for job in simulation.jobs}) < len(simulation.jobs):
        return "a job's id is used twice"
    if simulation.faults.touch_heartbeats:
        return "NICs delay or lose messages"
    if setup.timing.begin_s >= simulation.interval_s:
        return "jobs may be there before the nodes"
    if setup.cluster.blocks.replication > len(simulation.nodes):
        return "blocks have more replicas than there are nodes"
    if simulation.copies is not None:
        return "copies of fetched blocks are kept"
    names = simulation.storage.names
    if names.has_orders() or names.has_replica_changes():
        return "the NameNode has orders"
    return _policy(simulation.master.policy)


def _policy(policy: Policy) -> str | None:
    if type(policy) is not Composed or getattr(policy, "speculation", None) is not None:
        return "the policy"
    plain = (
        type(policy.order) in (Fifo, Fair)
        and type(policy.locality) in (Greedy, Delay)
        and type(policy.admission) is Slots
        and not getattr(policy.order, "preempts", False)
    )
    return None if plain else "an axis of the policy"

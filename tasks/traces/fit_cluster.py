"""A proposed cluster for running a trace: the recorded one if it is known, or enough slots for the load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.tasks.specs import Cost
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.workloads.drawn import task_seconds
from schedbed.tasks.workloads.from_trace import SyntheticJob

LOAD = 0.7  # Wanted mean share of busy slots, from the first submission to the last end.
LEAST_SLOTS = 2  # Least map slots of a node: Hadoop's default.
SLOTS_A_NODE = 4  # Map slots of a node if the trace does not show them.


@dataclass(slots=True)
class TraceLoad:
    """The total load that the jobs of a trace put on a cluster. Jobs are added one by one."""

    io_rate: float
    map_s: float = 0.0
    reduce_s: float = 0.0
    widest: int = 1  # Largest number of maps of a job.
    first_s: float = math.inf
    end_s: float = 0.0

    def add(self, job: SyntheticJob, lasted_s: float | None = None) -> None:
        """Add a job that ended `lasted_s` seconds after its submission, as far as the trace says.

        Otherwise, the end is estimated: after the longest map and then reduce, without waiting for slots.
        """
        maps, reduces = task_seconds(job, self.io_rate)
        self.map_s += sum(maps)
        self.reduce_s += sum(reduces)
        self.widest = max(self.widest, len(maps))
        self.first_s = min(self.first_s, job.submit_s)
        if lasted_s is None:
            lasted_s = max(maps, default=0.0) + max(reduces, default=0.0)
        self.end_s = max(self.end_s, job.submit_s + lasted_s)

    @property
    def span_s(self) -> float:
        """Return the seconds from the first submission to the last recorded or estimated end."""
        return max(1e-9, self.end_s - self.first_s)


@dataclass(frozen=True, slots=True)
class Fit:
    """A proposed cluster: nodes, racks, slots per node, and the reason for the proposal."""

    nodes: int
    racks: int
    map_slots: int
    reduce_slots: int
    why: str
    heartbeat_s: float = 3.0

    def values(self) -> dict[str, Any]:
        """Return the proposed cluster as values of the key `cluster` in a scenario."""
        node = {
            "cores": self.map_slots + self.reduce_slots,
            "core_speed": 1.0,
            "memory": f"{self.map_slots + self.reduce_slots}GiB",
            "map_slots": self.map_slots,
            "reduce_slots": self.reduce_slots,
        }
        return {"nodes": self.nodes, "racks": self.racks, "node": node, "heartbeat": f"{self.heartbeat_s:g}s"}


def demands(jobs: Iterable[SyntheticJob], lasted_s: Iterable[float | None], io_rate: float) -> TraceLoad:
    """Return the total load of the jobs, which lasted `lasted_s`. `io_rate` (bytes/s) converts bytes to time."""
    total = TraceLoad(io_rate)
    for job, seconds in zip(jobs, lasted_s, strict=True):
        total.add(job, seconds)
    return total


def fit_cluster(trace: Trace, asked: TraceLoad) -> Fit:
    """Return the recorded machine, or a cluster with the slots that the load `asked` needs."""
    racks = max(1, len({rack for rack, _ in trace.hosts}))
    heartbeat_s, recorded = 3.0, trace.recording
    wanted, each = _slots(asked.map_s, asked.span_s), None
    if recorded is not None:  # Of systems without heartbeats of nodes: a replay has short ones.
        nodes, map_slots, each = len(recorded.hosts), recorded.map_slots, recorded.reduce_slots
        why = recorded.why[0] if trace.machine is None else trace.machine.why
        heartbeat_s = recorded.heartbeat_s
    elif trace.machine is not None:
        nodes, map_slots = trace.machine.nodes, math.ceil(trace.machine.processors / trace.machine.nodes)
        why, heartbeat_s = trace.machine.why, trace.machine.heartbeat_s
    else:
        nodes = len(trace.hosts) or max(1, math.ceil(wanted / SLOTS_A_NODE))
        map_slots = max(LEAST_SLOTS, math.ceil(wanted / nodes))
        why = f"{len(trace.hosts)} hosts in the trace" if trace.hosts else f"slots busy to {LOAD:.0%}"
    if each is None:
        each = math.ceil(_slots(asked.reduce_s, asked.span_s) / nodes)
    load = asked.map_s / asked.span_s / (nodes * map_slots)
    busy = f"{load:.0%} of the map slots are busy"
    if load > 1:  # Jobs whose waits are not recorded.
        busy = f"all map slots are busy, {load:.1f} times as long as jobs would last without waits"
    return Fit(nodes, min(racks, nodes), map_slots, each, f"{why}; {busy}", heartbeat_s)


def _slots(task_s: float, span_s: float) -> int:
    return math.ceil(task_s / span_s / LOAD)


def mean_and_variation(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return the mean CPU seconds, and the variation of durations if all are known, or of CPU times."""
    lasted = [cost.duration_s for cost in costs if cost.duration_s is not None]
    cpu_s = [cost.cpu_s for cost in costs]
    return sum(cpu_s) / len(cpu_s), _variation(lasted if len(lasted) == len(costs) else cpu_s)


def _variation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    if not mean:
        return 0.0
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean

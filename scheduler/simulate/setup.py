"""The setup of a simulation: cluster, jobs, policy, costs, faults, and latencies of messages in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Protocol, TypeVar

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import ClusterSpec
from schedbed.cluster.virtual.fluid.max_min import Solved
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import Emulation, Store, TaskCost
from schedbed.scheduler.core.rows import Sink
from schedbed.scheduler.driver import PolicyChange
from schedbed.scheduler.framework import NONE, Framework
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.specs import JobSpec, TaskKind, are_one
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of JobTracker, NameNode and messages to them, as in live runs. Heartbeats do not queue."""

    request_s: float = 0.004  # from a node's timer, or from an attempt's end, to the service of the heartbeat
    decision_s: float = 0.0005  # the JobTracker's service of one heartbeat
    reply_s: float = 0.002  # from the end of the service to the node
    commit_s: float = 0.008  # from an attempt's report until its output is in place
    resend_s: float = 0.1  # until a lost heartbeat is sent again
    boot_s: float = 1.0  # from a node's restart to its registration
    begin_s: float = 0.0  # from the run's start, with the nodes up, until they find the JobTracker at work


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """Each attempt is slow with probability `share`: `factor` times the CPU time or recorded duration."""

    share: float = 0.0
    factor: float = 5.0


CpuFactors = Mapping[tuple[str, TaskKind], Sequence[Sequence[float]]]
"""Factors of a task's CPU time, or of its duration where that is known, by job and kind, for each recorded run.

Repeats take the recorded runs in turn; each attempt draws one factor of that run by seed.
"""


class CostModel(Protocol):
    """The interface of a source of task costs. Repeated calls must return the same costs."""

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Return the cost of the job's map number `index`."""
        ...

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Return the cost of the job's reduce number `index`."""
        ...


CostRuns = list[tuple[TaskCost, int]]
"""The costs of tasks, in order. Each stands for a number of tasks, one after the other, that share the object."""


def stage_costs(model: CostModel, job: JobSpec, kind: TaskKind) -> CostRuns:
    """Return the costs of maps or reduces. With `is_as_declared`, one question serves the same object."""
    one, count, declared = model.map_cost, job.maps, job.map_costs
    if kind is TaskKind.REDUCE:
        one, count, declared = model.reduce_cost, job.reduces, job.reduce_costs
    if not declared or not getattr(model, "is_as_declared", False):
        return _runs([one(job, index) for index in range(count)])
    if len(declared) < count:
        raise ValueError(f"{job.job}: {len(declared)} costs for {count} tasks")
    runs = _runs(declared[:count])
    firsts = accumulate((times for _, times in runs), initial=0)
    return [(one(job, first), times) for first, (_, times) in zip(firsts, runs, strict=False)]


def _runs(items: Sequence[T]) -> list[tuple[T, int]]:
    """Return each item and how often the same object follows."""
    if are_one(items):
        return [(items[0], len(items))]
    groups = (list(group) for _, group in groupby(items, key=id))
    return [(group[0], len(group)) for group in groups]


class Rows(Sink, Protocol):
    """A receiver of all rows in the order of events; `Sink` has those of the core."""

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Receive the row of a heartbeat."""

    def block(self, row: tuple[object, ...]) -> None:
        """Receive the row of a replica that was removed, or that exists at the end of the run."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Receive the row of a fault that has begun."""


MakeEmulation = Callable[["Setup", Store], Emulation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All inputs of a simulation. Equal setups produce equal rows.

    `policy` returns a new policy at each call. `jobs`: a JobSpec already contains the locations of its
    splits; the input of a PlannedJob is one of `files`, which the NameNode places as in a live run. `repeat`:
    number of the run among runs with the same seed. Like live repeats, these runs differ only in timing: the
    times of the nodes' heartbeats, start latencies, and the factors chosen from `cpu_factors`. `contention`:
    attempts share the resources of their nodes; if false, each attempt takes the time that it would take
    alone. `cpu_factors`: factors by which the CPU times of tasks are multiplied, for some jobs and kinds of
    tasks (maps, reduces). `process_all_heartbeats`: simulate also heartbeats that have no effect.
    `skip_rows`: write a decision row also for each job that was offered a slot and did not take it. Under
    delay scheduling, most rows are of this kind. `sizes`: whether policies can read true, estimated or no
    costs of tasks. `changes`: new values of the policy's parameters. `framework`: costs that a framework adds to
    tasks. `snapshot_every`: number of events between snapshots of the JobTracker, if a fault stops the JobTracker.
    """

    cluster: ClusterSpec
    jobs: Sequence[PlannedJob | JobSpec]
    policy: Callable[[], Policy]
    costs: CostModel
    files: Sequence[InputFile] = ()
    seed: int = 0
    repeat: int = 0
    faults: Sequence[PlannedFault] = ()
    changes: Sequence[PolicyChange] = ()
    contention: bool = True
    latencies: Latencies = field(default_factory=Latencies)
    timing: Timing = field(default_factory=Timing)
    stragglers: Stragglers = field(default_factory=Stragglers)
    cpu_factors: CpuFactors = field(default_factory=dict)
    process_all_heartbeats: bool = False
    heartbeat_rows: bool = True
    skip_rows: bool = True
    sizes: Sizes = TRUE_SIZES
    framework: Framework = NONE
    emulation: MakeEmulation | None = None
    snapshot_every: int | None = None


@dataclass(slots=True)
class Statistics:
    """Counters of a simulation. `events` are as in SimMR (Verma et al., 2011).

    They are arrivals and departures of jobs and tasks, and the ends of map stages.
    """

    events: int = 0
    jobs: int = 0  # ended jobs
    launches: int = 0
    ends: int = 0  # reported ends of attempts
    heartbeats: int = 0  # simulated heartbeats
    heartbeats_elided: int = 0
    steps: int = 0  # events of the driver's queue and of the emulation's queue
    solved: Solved = field(default_factory=Solved)  # statistics of the rates of attempts under contention


class Stuck(Exception):
    """Raised when a simulation cannot end: jobs wait, but no event is left, or all nodes are down and none
    will return."""


class NotCovered(Exception):
    """Raised for a simulation that the compiled loop does not support. The message contains the reason."""

"""What a simulation plays: cluster, jobs, policy, costs, faults, and what messages cost in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import ClusterSpec
from schedbed.cluster.virtual.fluid.max_min import Solved
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import Emulation, Store, TaskCost
from schedbed.scheduler.core.records import Sink
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.framework import NONE, Framework
from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.specs import JobSpec, TaskKind
from schedbed.tasks.workloads.planned import InputFile, PlannedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What the masters and their messages cost, in seconds; what attempts cost is in `Latencies`.

    To be calibrated against live runs. Heartbeats do not queue at the JobTracker.
    """

    request_s: float = 0.004  # from a node's timer, or from an attempt's end, to the service of the heartbeat
    decision_s: float = 0.0005  # the service of one heartbeat
    reply_s: float = 0.002  # from there to the node
    commit_s: float = 0.008  # from an attempt's report to its output in place
    resend_s: float = 0.1  # until a lost heartbeat is sent again
    boot_s: float = 1.0  # from a node's restart to its registration
    begin_s: float = 0.0  # from the run's start, with the nodes up, until they find the JobTracker at work


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """A share of all attempts takes `factor` times its CPU (or its whole duration, when that is known)."""

    share: float = 0.0
    factor: float = 5.0


CpuFactors = Mapping[tuple[str, TaskKind], Sequence[Sequence[float]]]
"""Factors of a task's CPU time, or of its duration where that is known, by job and kind, for each recorded run.

Plays take the runs in turn; each attempt draws one factor of the play's run by seed.
"""


class CostModel(Protocol):
    """What tasks do; the same answer each time it is asked."""

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Of a map."""
        ...

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Of a reduce."""
        ...


class Rows(Sink, Protocol):
    """Where all rows go, in the order of events: the core's, and those that the driver of a live run makes."""

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """A heartbeat was served."""

    def block(self, row: tuple[object, ...]) -> None:
        """A replica's life has ended, or the run has."""

    def fault(self, row: tuple[object, ...]) -> None:
        """A fault began."""


MakeEmulation = Callable[["Setup", Store], Emulation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that decides a simulation: the same values give the same rows.

    `policy` makes a fresh one at each call. A JobSpec among the jobs has its splits placed already, a PlannedJob
    is placed by the NameNode with `files`, as a live run does. `contention`: attempts share their nodes (fluid),
    else each takes its own time. `play_all_beats` plays the heartbeats that change nothing, too. Without
    `skip_rows` decisions hold no row for each job that was offered a node and did not take it: under delay
    scheduling these are most rows. `play` tells apart plays of the same seed that differ only in when each node's
    heartbeats fall, as live runs do. `sizes` is what a user's policy may know of costs, and
    `framework` what a framework adds to the work of tasks. Tasks of a job and kind without `cpu_factors` take the CPU
    time of their cost. `snapshot_every`: events from one snapshot of the
    JobTracker to the next, where a fault stops the JobTracker.
    """

    cluster: ClusterSpec
    jobs: Sequence[PlannedJob | JobSpec]
    policy: Callable[[], Policy]
    costs: CostModel
    files: Sequence[InputFile] = ()
    seed: int = 0
    play: int = 0
    faults: Sequence[PlannedFault] = ()
    contention: bool = True
    latencies: Latencies = field(default_factory=Latencies)
    timing: Timing = field(default_factory=Timing)
    stragglers: Stragglers = field(default_factory=Stragglers)
    cpu_factors: CpuFactors = field(default_factory=dict)
    play_all_beats: bool = False
    heartbeat_rows: bool = True
    skip_rows: bool = True
    sizes: Sizes = TRUE_SIZES
    framework: Framework = NONE
    emulation: MakeEmulation | None = None
    snapshot_every: int | None = None


@dataclass(slots=True)
class Statistics:
    """Counts of what was played. `events` are counted as SimMR does: arrivals and departures of jobs and tasks, and
    the ends of map stages (Verma et al., 2011)."""

    events: int = 0
    jobs: int = 0  # ended
    launches: int = 0
    ends: int = 0  # of attempts, as far as they were reported
    beats: int = 0  # heartbeats played
    beats_elided: int = 0
    steps: int = 0  # of the driver's own queue and of the emulation's
    solved: Solved = field(default_factory=Solved)  # rates of attempts that contend


class Stuck(Exception):
    """Nothing is left to happen, or no node will ever come back, while jobs wait."""

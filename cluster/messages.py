"""The messages between TaskTrackers and the JobTracker, the same in live and simulated runs.

A repeated heartbeat (node, incarnation, sequence number) gets the same reply. A node whose incarnation is
unknown must register again (Hadoop MRv1, JobTracker.heartbeat).
"""

from __future__ import annotations

from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Counters, NodeId, TaskKind, value


@value
class AttemptStatus:
    """A running attempt's status. `phase` is start, map, shuffle, sort or reduce."""

    attempt: str
    progress: float  # 0 to 1
    phase: str
    started_s: float | None = None  # first line of task code; None until it has run


@value
class AttemptReport:
    """An ended attempt: succeeded, failed or killed for `reason`. `partitions` are a map's bytes for each reduce."""

    attempt: str
    state: str
    start_s: float
    end_s: float
    reason: str = ""
    counters: Counters = NO_COUNTERS
    partitions: tuple[int, ...] = ()


@value
class FetchFailure:
    """The report that a reduce could not fetch the output of a map from the node that ran the map."""

    reduce_attempt: str
    map_attempt: str


@value
class Usage:
    """Usage since the last heartbeat, in fractions of declared rates; above 1 exceeds a limit."""

    cpu_util: float = 0.0
    disk_util: float = 0.0
    net_util: float = 0.0
    memory_bytes: int = 0


NO_USAGE = Usage()


@value
class Heartbeat:
    """A TaskTracker's report. A repeated `sequence` marks one sent again. `disk_full`: writes fail now."""

    node: NodeId
    incarnation: int
    sequence: int
    running: tuple[AttemptStatus, ...] = ()
    finished: tuple[AttemptReport, ...] = ()
    fetch_failures: tuple[FetchFailure, ...] = ()
    usage: Usage = NO_USAGE
    disk_full: bool = False


@value
class Launch:
    """Action: start an attempt, on only `part` of its split if set. Live runs send its specification too."""

    attempt: str
    job: str
    kind: TaskKind
    index: int
    part: Part | None = None


@value
class KillAttempt:
    """Action: kill this attempt if it is running."""

    attempt: str
    reason: str


@value
class MapOutput:
    """The location of a map's output. A later message for the same `index` replaces an earlier one.

    `lost`: reduces must wait for another attempt's output. `after` is the map whose records come directly
    before in the input; None means the previous index.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None


@value
class MapOutputs:
    """Action: tell a node's reduces of map outputs. `all_done` can become false again if a node is lost."""

    job: str
    outputs: tuple[MapOutput, ...]
    all_done: bool


@value
class ForgetJob:
    """Action: delete the job's map outputs on the node, because the job has ended."""

    job: str


@value
class Reregister:
    """Action: stop all attempts and register again, since the JobTracker does not know this incarnation."""


Action = Launch | KillAttempt | MapOutputs | ForgetJob | Reregister


@value
class Reply:
    """The JobTracker's answer to the heartbeat with number `sequence`: the actions that the node must take."""

    sequence: int
    actions: tuple[Action, ...] = ()

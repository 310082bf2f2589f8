"""The messages between TaskTrackers and the JobTracker as values, the same in live and simulated runs.

A heartbeat carries a node, an incarnation and a sequence number. A repeated heartbeat gets the same reply. A
node with an unknown incarnation must register again (Hadoop MRv1, JobTracker.heartbeat).
"""

from __future__ import annotations

from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Counters, NodeId, TaskKind
from schedbed.tasks.values import value


@value
class AttemptStatus:
    """The status of a running attempt as reported by its node. `phase` is map, shuffle, sort or reduce."""

    attempt: str
    progress: float  # 0 to 1
    phase: str
    started_s: float | None = None  # first line of task code; None until it has run


@value
class AttemptReport:
    """The report of an ended attempt. `state` is succeeded, failed or killed.

    `reason` says why unless the attempt succeeded. `partitions` are the sizes in bytes of the parts of a
    map's output, one part for each reduce.
    """

    attempt: str
    state: str
    start_s: float
    end_s: float
    reason: str = ""
    counters: Counters = NO_COUNTERS
    partitions: tuple[int, ...] = ()


@value
class FetchFailure:
    """The report that a reduce could not fetch a map's output from the node that ran the map."""

    reduce_attempt: str
    map_attempt: str


@value
class Usage:
    """A node's resource usage since its last heartbeat, as fractions of its declared rates.

    A fraction above 1 means that a limit was exceeded.
    """

    cpu_util: float = 0.0
    disk_util: float = 0.0
    net_util: float = 0.0
    memory_bytes: int = 0


NO_USAGE = Usage()


@value
class Heartbeat:
    """A TaskTracker's periodic report to the JobTracker.

    `sequence` increases by one with each new heartbeat; an equal number marks a resend. `disk_full` means
    that attempts that write on the node currently fail.
    """

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
    """Action: start an attempt of a whole task, or of one part of its split.

    In live runs the JobTracker also sends the AttemptSpec.
    """

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
    """The location of a map's output. A later message for the same index replaces an earlier message.

    `lost`: the output of `attempt` is gone; do not fetch it, and wait for another output. `after` is the
    index of the map whose records precede the records of this map in the input, if that is not the previous
    map.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None


@value
class MapOutputs:
    """Action: tell the node's reduces about new outputs of a job's maps.

    `all_done` means that no more outputs will follow. It may become false again if a node with finished maps
    is lost.
    """

    job: str
    outputs: tuple[MapOutput, ...]
    all_done: bool


@value
class ForgetJob:
    """Action: the job has ended, so its map outputs on this node can be deleted."""

    job: str


@value
class Reregister:
    """Action: the JobTracker does not know this incarnation; stop all attempts and register again."""


Action = Launch | KillAttempt | MapOutputs | ForgetJob | Reregister


@value
class Reply:
    """The JobTracker's answer to one heartbeat."""

    sequence: int
    actions: tuple[Action, ...] = ()
    next_s: float = 0.5

"""The messages between TaskTrackers and the JobTracker as dataclasses, the same in live and simulated runs.

A heartbeat contains a node, an incarnation (the number of the node's current life) and a sequence number. The
reply to a repeated heartbeat is the same as before. A node whose incarnation the JobTracker does not know
must register again (Hadoop MRv1, JobTracker.heartbeat).
"""

from __future__ import annotations

from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Counters, NodeId, TaskKind, value


@value
class AttemptStatus:
    """The status of a running attempt as reported by its node.

    `progress` is from 0 to 1. `phase` is start, map, shuffle, sort or reduce. `started_s` is the start time.
    """

    attempt: str
    progress: float  # 0 to 1
    phase: str
    started_s: float | None = None  # first line of task code; None until it has run


@value
class AttemptReport:
    """The report of an ended attempt. `state` is succeeded, failed or killed.

    `reason` is the cause of a failure or kill, and empty if the attempt succeeded. `partitions` are the sizes
    in bytes of the partitions of a map's output, one for each reduce.
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
    """The report that a reduce could not fetch the output of a map from the node that ran the map."""

    reduce_attempt: str
    map_attempt: str


@value
class Usage:
    """A node's resource usage since its last heartbeat.

    CPU, disk and network usage are fractions of the declared rates. A fraction above 1 means that the node
    exceeded a limit.
    """

    cpu_util: float = 0.0
    disk_util: float = 0.0
    net_util: float = 0.0
    memory_bytes: int = 0


NO_USAGE = Usage()


@value
class Heartbeat:
    """A TaskTracker's periodic report to the JobTracker.

    `sequence` increases by one with each new heartbeat; a repeated number marks a heartbeat that is sent
    again. `disk_full` means that attempts on the node currently fail when they write to the disk.
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
    """Action: start an attempt of a task. If `part` is set, the attempt reads only this part of the split.

    In live runs, the JobTracker also sends the specification of the attempt.
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
    """The location of a map's output. A later message for the same `index` replaces an earlier message.

    `lost` means that the output of `attempt` no longer exists: reduces must wait for another attempt's
    output. `after` is the index of the map whose records come directly before this map's records in the
    input; None means the map with the previous index.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None


@value
class MapOutputs:
    """Action: inform the node's reduces of new outputs of a job's maps.

    `all_done` means that all maps of the job have finished. A later message can set it to false again, if a
    node with finished maps is lost.
    """

    job: str
    outputs: tuple[MapOutput, ...]
    all_done: bool


@value
class ForgetJob:
    """Action: delete the job's map outputs on the node, because the job has ended."""

    job: str


@value
class Reregister:
    """Action: stop all attempts and register again, since the JobTracker does not know the incarnation.

    An incarnation is the number of the node's current life, from its start to its loss.
    """


Action = Launch | KillAttempt | MapOutputs | ForgetJob | Reregister


@value
class Reply:
    """The JobTracker's answer to the heartbeat with number `sequence`: the actions that the node must take."""

    sequence: int
    actions: tuple[Action, ...] = ()

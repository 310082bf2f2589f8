"""The messages between TaskTrackers and the JobTracker as values, the same live and simulated.

A heartbeat carries node, incarnation and sequence: a repeated one gets the same reply, an unknown incarnation is told
to register (Hadoop MRv1, JobTracker.heartbeat).
"""

from __future__ import annotations

from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Counters, NodeId, TaskKind
from schedbed.tasks.values import value


@value
class AttemptStatus:
    """A running attempt as reported by its node. `phase` is map, shuffle, sort or reduce."""

    attempt: str
    progress: float  # 0 to 1
    phase: str
    started_s: float | None = None  # first line of task code; None until it has run


@value
class AttemptReport:
    """An ended attempt. `state` is succeeded, failed or killed; `reason` says why unless it succeeded.

    `partitions` are the bytes of each reduce's part of a map's output.
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
    """A reduce could not fetch a map's output from the node that ran it."""

    reduce_attempt: str
    map_attempt: str


@value
class Usage:
    """A node's use of resources since its last heartbeat, as shares of its declared rates; above 1 if a limit was
    exceeded."""

    cpu_util: float = 0.0
    disk_util: float = 0.0
    net_util: float = 0.0
    memory_bytes: int = 0


NO_USAGE = Usage()


@value
class Heartbeat:
    """A TaskTracker's report. `sequence` grows by one; an equal sequence is a resend.

    `disk_full`: attempts that write on the node currently fail.
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
    """Action: start this attempt of a whole task or of one part. The live JobTracker also sends the AttemptSpec."""

    attempt: str
    job: str
    kind: TaskKind
    index: int
    part: Part | None = None


@value
class KillAttempt:
    """Action: kill this attempt if it runs."""

    attempt: str
    reason: str


@value
class MapOutput:
    """The location of a map's output. A later one for the same index replaces it.

    `lost`: the output of `attempt` is gone; do not fetch it, and wait for another. `after` is the index of the map
    whose records precede this one's in the input, if that is not the previous map.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None


@value
class MapOutputs:
    """Action: tell the node's reduces about new outputs of a job's maps. `all_done`: no more will follow.

    `all_done` may become false again if a node with finished maps is lost.
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

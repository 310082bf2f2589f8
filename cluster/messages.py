"""The messages between TaskTrackers and the JobTracker: values, the same live and simulated.

A heartbeat carries node, incarnation and sequence: a repeat gets the same reply again, an unknown
incarnation is told to register (Hadoop MRv1, JobTracker.heartbeat).
"""

from __future__ import annotations

from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Counters, NodeId, TaskKind
from schedbed.tasks.values import value


@value
class AttemptStatus:
    """A running attempt as its node sees it. `phase` is map, shuffle, sort or reduce."""

    attempt: str
    progress: float  # 0 to 1
    phase: str
    started_s: float | None = None  # first line of task code; None until it has run


@value
class AttemptReport:
    """A finished attempt. `state` is succeeded, failed or killed; `reason` says why when it did not succeed.

    `partitions` are the bytes of each reduce's share of a map's output.
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
    """What a node used since its last heartbeat: shares of its declared rates, above 1 where a limit did not hold."""

    cpu_util: float = 0.0
    disk_util: float = 0.0
    net_util: float = 0.0
    memory_bytes: int = 0


NO_USAGE = Usage()


@value
class Heartbeat:
    """A TaskTracker's report; `sequence` goes up by one, a repeat is a resend.

    `disk_full`: attempts that write on the node fail for now.
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
    """Start this attempt, of a whole task or of one part of it. The live JobTracker sends the AttemptSpec beside it."""

    attempt: str
    job: str
    kind: TaskKind
    index: int
    part: Part | None = None


@value
class KillAttempt:
    """Kill this attempt, if it still runs."""

    attempt: str
    reason: str


@value
class MapOutput:
    """Where a finished map's output can be fetched. A later one for the same index replaces it.

    `lost` says that the output of `attempt` is gone: fetch nothing from it, wait for another. `after` is the index of
    the map behind which this one's records come in the input, when it is not the one before.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None


@value
class MapOutputs:
    """What is new among a job's map outputs, for the reduces that run on a node; `all_done` ends the wait.

    `all_done` may become false again when a node with finished maps is lost.
    """

    job: str
    outputs: tuple[MapOutput, ...]
    all_done: bool


@value
class ForgetJob:
    """The job has ended: its map outputs on this node can go."""

    job: str


@value
class Reregister:
    """The JobTracker does not know this life of the node: drop what runs and register again."""


Action = Launch | KillAttempt | MapOutputs | ForgetJob | Reregister


@value
class Reply:
    """The JobTracker's answer to one heartbeat."""

    sequence: int
    actions: tuple[Action, ...] = ()
    next_s: float = 0.5

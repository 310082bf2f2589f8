"""The content of a trace in a form that all formats share: jobs and tasks as recorded, before scaling and
assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from schedbed.tasks.specs import Priority, value

Host = tuple[str, str]
"""A traced host: its rack and its name."""


@value
class TraceTask:
    """A recorded task, with None for unknown values. `work_s` is that of a reduce after its shuffle.

    `shuffle_s` is the duration of a reduce's shuffle after all maps had ended.
    """

    _: KW_ONLY
    input_bytes: int | None = None
    output_bytes: int | None = None
    duration_s: float | None = None
    work_s: float | None = None
    shuffle_s: float | None = None
    cpu_s: float | None = None
    hosts: tuple[Host, ...] = ()  # Hosts that held the input.
    failed_attempts: int = 0


@value
class TraceJob:
    """A recorded job. In formats such as SWIM's, only totals of bytes are known, and `maps` is empty."""

    _: KW_ONLY
    name: str
    submit_s: float  # On the trace's clock; `select` makes times relative.
    user: str | None = None
    queue: str | None = None
    priority: Priority = Priority.NORMAL
    duration_s: float | None = None  # From submission to end.
    succeeded: bool = True
    deadline_s: float | None = None  # Relative to the submission.
    input_bytes: int = 0
    shuffle_bytes: int = 0
    output_bytes: int = 0
    maps: tuple[TraceTask, ...] = ()
    reduces: tuple[TraceTask, ...] = ()
    input_path: str | None = None  # Jobs with the same path read the same file.
    output_path: str | None = None
    requested_s: float | None = None  # Run time that the user requested.
    number: int | None = None  # Unique in the trace, if jobs of the format can wait for others.
    after: int | None = None  # Number of the job whose end comes before the submission.
    think_s: float = 0.0  # From that end to the submission.
    uber: bool = False  # The tasks ran inside the ApplicationMaster.


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The hosts of a traced cluster with their racks."""

    hosts: tuple[Host, ...]

    @property
    def racks(self) -> tuple[str, ...]:
        return tuple(sorted({rack for rack, _ in self.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMachine:
    """The size of a traced cluster: the number of nodes, and the number of processors in all nodes together."""

    nodes: int
    processors: int
    why: str  # Source of the numbers.
    heartbeat_s: float = 3.0  # Hadoop 1's least.


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The cluster on which a trace was recorded. `why` has a line for each value derived from the trace.

    `policy` is the policy's SPEC if the trace tells it. `replicas` is the most places that a map's data have.
    """

    hosts: tuple[Host, ...]
    map_slots: int  # Map slots of each host.
    reduce_slots: int
    heartbeat_s: float
    out_of_band: bool | None = None
    scheduler: str | None = None  # Name of the scheduler's Java class.
    policy: str | None = None
    replicas: int = 3
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a trace file. `warnings` are texts about data that the trace does not contain."""

    format: str  # Name of a module in `formats`.
    jobs: tuple[TraceJob, ...] = ()
    topology: Topology | None = None
    machine: TracedMachine | None = None
    recording: Recording | None = None
    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        tasks = (task for job in self.jobs for task in job.maps)
        return tuple(sorted({host for task in tasks for host in task.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A trace format, declared as `FORMAT` by a module of `formats`, whose name is the format's.

    `looks_like` judges a file's first 20,000 characters. A `last_resort` is tried after all others, since
    their files may look like it.
    """

    read: Callable[[Path], Trace]
    looks_like: Callable[[str], bool]
    last_resort: bool = False


def priority_of(name: object) -> Priority:
    """Return Hadoop's priority of this name, in any case, or the normal one."""
    return Priority(str(name).lower()) if str(name).lower() in list(Priority) else Priority.NORMAL


# The number of bytes that a traced job shuffled, computed from its reduces. The counters of maps do not
# contain it.


def fetched_bytes(reduces: Sequence[TraceTask]) -> int | None:
    """Return all reduces' fetched bytes, unknown ones at the mean of the others, or None if all are."""
    known = [task.input_bytes for task in reduces if task.input_bytes is not None]
    return round(sum(known) / len(known) * len(reduces)) if known else None


def sharing(maps: Sequence[TraceTask], fetched: int) -> tuple[TraceTask, ...]:
    """Return the maps with outputs scaled to the sum `fetched`; unknown ones count as the mean.

    Recorded outputs exceed the shuffle: they are counted before combiner and compression (Hadoop's map output
    bytes), or with each spill and index (bytes written to local files).
    """
    known = [task.output_bytes for task in maps if task.output_bytes is not None]
    whole = sum(known) / len(known) * len(maps) if known else 0.0
    factor = fetched / whole if whole else 0.0
    even = fetched / max(1, len(maps))
    return tuple(
        replace(task, output_bytes=round(even if not whole else (task.output_bytes or 0) * factor))
        if task.output_bytes is not None or not whole
        else task
        for task in maps
    )


# Rigid jobs, as recorded by parallel machines: a job on n processors becomes n maps with the job's run
# time.

ASSUMED = (
    "assumed: a job on n processors is n maps of its run time, which start one by one unless the policy is easy or "
    "has admission=gang"
)


def most_at_once(jobs: Iterable[TraceJob]) -> int:
    """Return the most processors in use at the same time.

    A job's recorded duration includes its wait in the queue; the run is assumed to be at its end.
    """
    changes: list[tuple[float, int]] = []
    for job in jobs:
        run_s = job.maps[0].duration_s or 0.0
        end_s = job.submit_s + (job.duration_s or run_s)
        changes += [(end_s - run_s, len(job.maps)), (end_s, -len(job.maps))]
    busy = most = 0
    for _, change in sorted(changes):  # At equal times, ends come first, since they are negative.
        busy += change
        most = max(most, busy)
    return most

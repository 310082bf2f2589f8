"""A trace in neutral form: jobs and tasks as recorded on some cluster, before scaling and assumptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schedbed.tasks.specs import Priority

Host = tuple[str, str]
"""A traced machine: its rack and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """A task; None for what the trace does not show.

    `work_s` is the time of the task's own work: of a reduce, what follows its shuffle. `shuffle_s` is the part of a
    reduce's shuffle after all maps of the job had ended.
    """

    input_bytes: int | None = None
    output_bytes: int | None = None
    duration_s: float | None = None
    work_s: float | None = None
    shuffle_s: float | None = None
    cpu_s: float | None = None
    hosts: tuple[Host, ...] = ()  # that held its input
    failed_attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job. Without tasks (`maps` empty) only three totals are known, as in SWIM's format."""

    name: str
    submit_s: float  # since the trace's first job, after `sorted_jobs`; else on the trace's own clock
    user: str | None = None
    queue: str | None = None
    priority: Priority = Priority.NORMAL
    duration_s: float | None = None  # submit to finish
    succeeded: bool = True
    deadline_s: float | None = None  # after the submission
    input_bytes: int = 0
    shuffle_bytes: int = 0
    output_bytes: int = 0
    maps: tuple[TraceTask, ...] = ()
    reduces: tuple[TraceTask, ...] = ()
    input_path: str | None = None  # jobs that read one path read one file
    output_path: str | None = None
    requested_s: float | None = None  # run time that the user said beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The racks of a traced cluster with their hosts."""

    hosts: tuple[Host, ...]

    @property
    def racks(self) -> tuple[str, ...]:
        """Return the names of the racks, sorted."""
        return tuple(sorted({rack for rack, _ in self.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMachine:
    """The traced cluster as far as it is known: number of nodes, and of processors in all of them."""

    nodes: int
    processors: int
    why: str  # what says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a trace file. `warnings` say what the trace lacks; the workload says what is assumed instead."""

    format: str  # the name of a module of `formats`
    jobs: tuple[TraceJob, ...] = ()
    topology: Topology | None = None
    machine: TracedMachine | None = None
    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return all machines that held input, sorted."""
        tasks = (task for job in self.jobs for task in job.maps)
        return tuple(sorted({host for task in tasks for host in task.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A trace format, declared as `FORMAT` by a module of `formats`; the module's name is the format's.

    `looks_like` judges the first 20,000 characters of a file. A format with `last_resort` is tried after all others,
    since files of other formats look similar.
    """

    read: Callable[[Path], Trace]
    looks_like: Callable[[str], bool]
    last_resort: bool = False

"""A trace in neutral form: jobs and tasks as some cluster once ran them, before anything is scaled or assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schedbed.tasks.specs import Priority

Host = tuple[str, str]
"""A traced machine: its rack and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """One task; None where the trace does not say.

    `work_s` is the time the task worked by itself: of a reduce, what follows its shuffle. `shuffle_s` is the part of a
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
    """One job. Without tasks (`maps` empty) only the three totals are known, as in SWIM's format."""

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
        """Return the racks' names, sorted."""
        return tuple(sorted({rack for rack, _ in self.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMachine:
    """The traced cluster, as far as the trace says: nodes, and processors of all of them."""

    nodes: int
    processors: int
    why: str  # what says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a file holds. `warnings` say what the trace lacks; what is assumed instead, the workload says."""

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
    """One way to write traces, declared as `FORMAT` by a module of `formats`; the module's name is the format's.

    `looks_like` judges the first 20,000 characters of a file. With `last_resort` the format is asked after all others,
    since files of other formats look so as well.
    """

    read: Callable[[Path], Trace]
    looks_like: Callable[[str], bool]
    last_resort: bool = False

"""The content of a trace in a form that all formats share: jobs and tasks as recorded, before scaling and
assumptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from schedbed.tasks.specs import Priority
from schedbed.tasks.values import value

Host = tuple[str, str]
"""A traced host: its rack and its name."""


@value
class TraceTask:
    """A recorded task. Values that the trace does not contain are None.

    `work_s` is the duration of the task's own work (for a reduce, the time after its shuffle). `shuffle_s` is
    the duration of a reduce's shuffle after all maps of the job had ended.
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
    """A recorded job.

    In some formats, such as SWIM's, only the totals of input, shuffled and output bytes are known, and `maps`
    is empty.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The hosts of a traced cluster with their racks."""

    hosts: tuple[Host, ...]

    @property
    def racks(self) -> tuple[str, ...]:
        """Return the sorted names of the racks."""
        return tuple(sorted({rack for rack, _ in self.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMachine:
    """The size of a traced cluster: the number of nodes, and the number of processors in all nodes
    together.
    """

    nodes: int
    processors: int
    why: str  # Source of the numbers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a trace file. `warnings` are texts about data that the trace does not contain."""

    format: str  # Name of a module in `formats`.
    jobs: tuple[TraceJob, ...] = ()
    topology: Topology | None = None
    machine: TracedMachine | None = None
    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the sorted hosts that held the input of any map."""
        tasks = (task for job in self.jobs for task in job.maps)
        return tuple(sorted({host for task in tasks for host in task.hosts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A trace format. Each module of the package `formats` declares one as `FORMAT`.

    The name of the module is the name of the format. `read` reads a file. `looks_like` returns whether a file
    has the format, given its first 20,000 characters. Formats with `last_resort` are tried after all others,
    since files of other formats may look like them.
    """

    read: Callable[[Path], Trace]
    looks_like: Callable[[str], bool]
    last_resort: bool = False

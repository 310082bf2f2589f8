"""What the core hands out: rows of the tables (columns as in the contract, without policy and repeat) and effects."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from schedbed.tasks.specs import NodeId
from schedbed.tasks.values import value


class DecisionRow(NamedTuple):
    """An offer and its answer (launch, split, skip, kill); `task` is empty when a whole job was skipped."""

    t: float
    node: NodeId
    job: str
    task: str
    kind: str
    answer: str
    reason: str


class AttemptRow(NamedTuple):
    """An ended attempt; written once. `start` is the first line of task code, None when it never ran.

    `locality` of a reduce and of a map without input is `off`. `split_of` is the task that was split, in the rows of
    both of its parts: its own id for the first, which keeps it.
    """

    job: str
    task: str
    attempt: str
    kind: str
    split_of: str
    node: NodeId
    rack: str
    locality: str
    speculative: bool
    assigned: float
    start: float | None
    end: float
    state: str
    reason: str
    offset: int
    length: int
    cpu_s: float
    read_local_bytes: int
    read_remote_bytes: int
    shuffle_bytes: int
    spill_bytes: int
    output_bytes: int
    shuffle_end: float | None
    sort_end: float | None


class JobRow(NamedTuple):
    """An ended job; `start` is its first launch, None when it never had one; `maps` counts both parts of a map that
    was split."""

    job: str
    name: str
    user: str
    queue: str
    app: str
    submit: float
    start: float | None
    finish: float
    deadline: float | None
    maps: int
    reduces: int
    input_bytes: int
    output_bytes: int
    state: str


class Sink(Protocol):
    """Where rows go, in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """An offer was answered."""

    def attempt(self, row: AttemptRow) -> None:
        """An attempt ended."""

    def job(self, row: JobRow) -> None:
        """A job ended."""


class NoSink:
    """Forgets everything: for replaying a journal whose rows are written already."""

    def decision(self, row: DecisionRow) -> None:
        """Nothing."""

    def attempt(self, row: AttemptRow) -> None:
        """Nothing."""

    def job(self, row: JobRow) -> None:
        """Nothing."""


@value
class Commit:
    """Put this attempt's output into place, then call `Core.committed` or `Core.commit_failed`."""

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """What this attempt wrote aside is not wanted; there may be nothing."""

    job: str
    attempt: str


@value
class NodeLost:
    """The node fell silent or was declared lost."""

    node: NodeId


@value
class JobEnded:
    """The job is over: `state` is succeeded, failed or killed."""

    job: str
    state: str
    reason: str


Effect = Commit | Discard | NodeLost | JobEnded

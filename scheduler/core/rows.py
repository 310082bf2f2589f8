"""The rows of the tables of jobs, attempts and decisions, and functions that make them.

`scheduler.history` takes columns and types from the classes, and adds `policy` and `repeat` before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from schedbed.scheduler.core.entities import Attempt, Job, Task
from schedbed.tasks.specs import NodeId, value

make_row: Callable[..., Any] = vars(tuple)["__new__"]
"""Return a named tuple of a class from all its values, in a third of the time of calling the class."""


class AttemptRow(NamedTuple):
    """An ended attempt. `start` is when its code began to run, or None.

    `locality` is `off` for a reduce and a map without input, and `none` for a map whose input has no location,
    as in a trace that does not say it. For parts of a split task, `split_of` is the
    original's id, which the first part keeps as its own.
    """

    job: str  # id of the job, such as `job_0001`
    task: str  # id of the task, such as `job_0001_m_000003`
    attempt: str  # id of the attempt, such as `job_0001_m_000003_0`
    kind: str  # `map` or `reduce`
    split_of: str  # the task that was split, for both of its parts; empty for a whole task
    node: NodeId  # node that ran the attempt
    rack: str  # rack of that node
    locality: str  # where the input was: `node`, `rack`, `off` or `none`; `off` for reduces and without input
    speculative: bool  # a copy of a task that ran elsewhere
    assigned: float  # when the JobTracker launched the attempt
    start: float | None  # first line of task code; missing when it never ran
    end: float  # when the attempt ended, as reported by its node
    state: str  # `succeeded`, `failed`, `killed` or `lost`
    reason: str  # why it failed or was killed; empty otherwise
    offset: int  # first byte of the map's input in its file
    length: int  # length of the map's input in bytes
    cpu_s: float  # CPU time in core-seconds of the host
    read_local_bytes: int  # bytes of input read from the node's own disk
    read_remote_bytes: int  # bytes of input read from other nodes
    shuffle_bytes: int  # bytes of map output fetched by a reduce
    spill_bytes: int  # bytes of sorted output written to the node's disk
    output_bytes: int  # bytes that the attempt wrote as its output
    shuffle_end: float | None  # when a reduce had fetched all map outputs; missing for maps
    sort_end: float | None  # when a reduce had merged all map outputs; missing for maps


def attempt_row(attempt: Attempt) -> AttemptRow:
    """Return the row of an attempt that has just ended."""
    task, node, counters = attempt.task, attempt.node, attempt.counters
    stage, split = task.stage, task.split
    values = (
        stage.job.job,
        task.task,
        attempt.attempt,
        stage.label,
        "" if task.part is None else task.split_of,
        node.node,
        node.rack,
        attempt.locality if split.hosts or not split.length else "none",
        attempt.speculative,
        attempt.assigned_s,
        attempt.started_s,
        attempt.end_s,
        attempt.state._value_,
        attempt.reason,
        split.offset,
        split.length,
        counters.cpu_s,
        counters.read_local_bytes,
        counters.read_remote_bytes,
        counters.shuffle_bytes,
        counters.spill_bytes,
        counters.output_bytes,
        counters.shuffle_end,
        counters.sort_end,
    )
    return make_row(AttemptRow, values)


class DecisionRow(NamedTuple):
    """An offered slot and the answer: launch, split, skip, reject or kill. `task` may be empty for a skip."""

    t: float  # when the slot was offered
    node: NodeId  # node whose slot was offered
    job: str  # id of the job
    task: str  # id of the task; empty when a whole job was skipped
    kind: str  # `map` or `reduce`, or `am` for an ApplicationMaster
    answer: str  # `launch`, `split`, `skip`, `reject` or `kill`
    reason: str  # reason given by the policy or the core, as text


def decision_row(now_s: float, node: NodeId, task: Task, answer: str, reason: str) -> DecisionRow:
    """Return the row for an answer, such as `launch`, about a task on a node."""
    stage = task.stage
    return make_row(DecisionRow, (now_s, node, stage.job.job, task.task, stage.label, answer, reason))


class JobRow(NamedTuple):
    """An ended job. `start` is its first launch, or None. In `maps`, one that was split counts as two."""

    job: str  # id of the job, such as `job_0001`
    name: str  # name given in the scenario
    user: str  # user who submitted the job
    queue: str  # queue that the job was submitted to
    app: str  # name of the application
    submit: float  # when the job was submitted
    start: float | None  # first launch of a task; missing when there was none
    finish: float  # when the job ended
    deadline: float | None  # when the job should have ended; missing without a deadline
    maps: int  # number of maps, both parts of a split map included
    reduces: int  # number of reduces
    input_bytes: int  # size of the input in bytes
    output_bytes: int  # size of the committed output in bytes
    state: str  # `succeeded`, `failed`, `killed` or `timeout` (by a policy, after the requested run time)


def job_row(job: Job) -> JobRow:
    """Return the row of a job that has just ended."""
    spec = job.spec
    assert job.finish_s is not None
    return JobRow(
        spec.job,
        spec.name,
        spec.user,
        spec.queue,
        spec.app,
        job.submit_s,
        job.start_s,
        job.finish_s,
        job.deadline_s,
        job.maps.total,
        spec.reduces,
        spec.input_bytes,
        job.output_bytes,
        job.state.value,
    )


# The output of the core: rows of the result tables, and effects, which are actions for the driver.


class Sink(Protocol):
    """The protocol of a receiver of table rows from the core. Rows arrive in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """Receive a row of the decisions table, which records an offered slot and the answer to the offer."""

    def attempt(self, row: AttemptRow) -> None:
        """Receive the row of an attempt that ended."""

    def job(self, row: JobRow) -> None:
        """Receive the row of a job that ended."""


class NoSink:
    """A sink that drops all rows. It is used to replay a journal whose rows were written before."""

    def decision(self, row: DecisionRow) -> None:
        """Drop the row of a decision."""

    def attempt(self, row: AttemptRow) -> None:
        """Drop the row of an attempt."""

    def job(self, row: JobRow) -> None:
        """Drop the row of a job."""


@value
class Commit:
    """The driver must move the output to its final path; `Core.committed` or `Core.commit_failed` follows."""

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """An effect: the driver must delete the files that the attempt wrote before a commit, if any."""

    job: str
    attempt: str


@value
class NodeLost:
    """An effect: the driver must tell the NameNode that the node is lost."""

    node: NodeId


@value
class JobEnded:
    """The driver must delete an ended job's uncommitted files. `reason` is empty after success."""

    job: str
    state: str
    reason: str


@value
class MasterStarts:
    """The driver must let the ApplicationMaster of a job begin, whose container was granted in this attempt."""

    job: str
    attempt: str


Effect = Commit | Discard | NodeLost | JobEnded | MasterStarts

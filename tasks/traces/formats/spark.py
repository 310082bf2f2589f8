"""Spark's event logs: one JSON object per line, each with a field `Event`. Each Spark job becomes a job.

Stages without predecessors become maps, later ones are merged into reduces. Stages that Spark skipped have no
tasks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.text import Fields
from schedbed.tasks.traces.trace import Host, Trace, TraceFormat, TraceJob, TraceTask

DEFAULT_RACK = "default-rack"
Place = tuple[int, int]
"""The key of a task: its stage, and its index in the stage."""


@dataclass(slots=True)
class _LoggedJob:
    """The state of a Spark job according to the events read so far."""

    number: int
    submit_s: float
    parents: dict[int, tuple[int, ...]]  # Parent stages, by stage.
    end_s: float | None = None
    failed: bool = False
    pool: str | None = None
    name: str | None = None
    tasks: dict[Place, TraceTask] = field(default_factory=dict)
    failures: Counter[Place] = field(default_factory=Counter)
    last_failed: dict[Place, TraceTask] = field(default_factory=dict)


class _Log:
    """The state of all jobs of a Spark event log according to the events read so far."""

    def __init__(self) -> None:
        self.jobs: dict[int, _LoggedJob] = {}
        self.job_by_stage: dict[int, _LoggedJob] = {}
        self.application = "spark"
        self.user: str | None = None
        self.lost = 0  # Number of ended tasks whose job is unknown.

    def take(self, event: Fields) -> None:
        """Process an event. Only application, job and task events have an effect."""
        kind = event.text("Event", "").rpartition(".")[2]
        if kind == "SparkListenerApplicationStart":
            self.application = event.text("App Name", "spark")
            self.user = event.text("User", "") or None
        elif kind == "SparkListenerJobStart":
            self._job_started(event)
        elif kind == "SparkListenerJobEnd":
            job = self.jobs.get(event.whole("Job ID", 0, 10**9))
            if job is not None:
                job.end_s = event.number("Completion Time", 0.0) / 1000
                result = event.raw.get("Job Result")
                job.failed = isinstance(result, dict) and result.get("Result") != "JobSucceeded"
        elif kind == "SparkListenerTaskEnd":
            self._task_ended(event)

    def _job_started(self, event: Fields) -> None:
        stages = {
            stage.whole("Stage ID", 0, 10**9): tuple(
                parent for parent in stage.raw.get("Parent IDs") or () if isinstance(parent, int)
            )
            for stage in event.objects("Stage Infos")
        }
        number = event.whole("Job ID", 0, 10**9)
        job = self.jobs[number] = _LoggedJob(number, event.number("Submission Time") / 1000, stages)
        properties = _inner(event, "Properties")
        job.pool = properties.text("spark.scheduler.pool", "") or None
        job.name = properties.text("spark.job.description", "") or None
        self.job_by_stage |= dict.fromkeys(stages, job)

    def _task_ended(self, event: Fields) -> None:
        stage = event.whole("Stage ID", 0, 10**9)
        job, info = self.job_by_stage.get(stage), _inner(event, "Task Info")
        if job is None:
            self.lost += 1
            return
        place = (stage, info.whole("Index", 0, 10**9))
        reason = event.raw.get("Task End Reason")
        if not isinstance(reason, dict) or reason.get("Reason") != "Success":
            job.failures[place] += 1
            job.last_failed[place] = _task(info, _inner(event, "Task Metrics"))
        elif place not in job.tasks:
            job.tasks[place] = _task(info, _inner(event, "Task Metrics"))


def read_spark(path: Path) -> Trace:
    """Return the jobs of a log in order of submission. Raises BadInput for a malformed event."""
    log = _Log()
    for number, raw in objects(path):
        event = Fields(raw, f"{path}: event {number}")
        if "Event" not in event:
            raise event.fail("no Event, expected a line of a Spark event log")
        log.take(event)
    notes: Counter[str] = Counter()
    jobs = [job for known in log.jobs.values() if (job := _job(known, log, notes)) is not None]
    if not jobs:
        raise BadInput(f"{path}: no job with tasks that ended in it, expected a Spark event log")
    jobs.sort(key=lambda job: job.submit_s)
    notes["# ends of tasks belong to no job of the log"] += log.lost
    warnings = (
        "no racks or deadlines in a Spark event log; where input was is known of tasks that ran there only",
        *(() if any(job.queue for job in jobs) else ("no job of the log was submitted to a pool",)),
        "assumed: stages that wait for none are maps, all later ones reduces, after all maps",
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
    )
    return Trace(format="spark", jobs=tuple(jobs), warnings=warnings)


def _job(job: _LoggedJob, log: _Log, notes: Counter[str]) -> TraceJob | None:
    never = {place: task for place, task in job.last_failed.items() if place not in job.tasks}
    notes["# tasks never succeeded; they run as long as their last attempt did"] += len(never)
    job.tasks |= never
    notes["# jobs without tasks that ended are left out"] += not job.tasks
    if not job.tasks:
        return None
    ran = {stage for stage, _ in job.tasks}
    later = {stage for stage in ran if any(parent in ran for parent in job.parents.get(stage, ()))}
    maps = tuple(_counted(job, place) for place in sorted(job.tasks) if place[0] not in later)
    reduces = tuple(_counted(job, place) for place in sorted(job.tasks) if place[0] in later)
    notes["# jobs have more than two stages; all but the first are taken as one"] += len(later) > 1
    notes["# jobs did not succeed in the trace and are taken as if they had"] += (
        job.failed or job.end_s is None
    )
    notes["# attempts failed or were killed; they cost nothing here"] += job.failures.total()
    return TraceJob(
        name=(job.name or f"{log.application}-{job.number}")[:200],
        submit_s=job.submit_s,
        user=log.user,
        queue=job.pool,
        duration_s=None if job.end_s is None or job.end_s < job.submit_s else job.end_s - job.submit_s,
        input_bytes=sum(task.input_bytes or 0 for task in maps),
        shuffle_bytes=sum(task.output_bytes or 0 for task in maps) if reduces else 0,
        output_bytes=sum(task.output_bytes or 0 for task in reduces or maps),
        maps=maps,
        reduces=reduces,
    )


def _counted(job: _LoggedJob, place: Place) -> TraceTask:
    task, failed = job.tasks[place], job.failures[place]
    if not failed:
        return task
    return TraceTask(
        input_bytes=task.input_bytes,
        output_bytes=task.output_bytes,
        duration_s=task.duration_s,
        work_s=task.work_s,
        cpu_s=task.cpu_s,
        hosts=task.hosts,
        failed_attempts=failed,
    )


def _task(info: Fields, metrics: Fields) -> TraceTask:
    """Return a task with its duration, CPU time, and bytes of files and shuffles."""
    launched, finished = info.number("Launch Time", 0.0), info.number("Finish Time", 0.0)
    duration_s = (finished - launched) / 1000 if finished > launched else None
    shuffled, fetched = _inner(metrics, "Shuffle Write Metrics"), _inner(metrics, "Shuffle Read Metrics")
    input_bytes = _inner(metrics, "Input Metrics").number("Bytes Read", 0.0)
    read = input_bytes + fetched.number("Remote Bytes Read", 0.0) + fetched.number("Local Bytes Read", 0.0)
    written = shuffled.number("Shuffle Bytes Written", 0.0)
    written += _inner(metrics, "Output Metrics").number("Bytes Written", 0.0)
    cpu_s = metrics.number("Executor CPU Time", 0.0) / 1e9
    return TraceTask(
        input_bytes=round(read) if metrics.raw else None,
        output_bytes=round(written) if metrics.raw else None,
        duration_s=duration_s,
        work_s=duration_s,
        cpu_s=cpu_s or None,
        hosts=_hosts(info, input_bytes),
    )


def _hosts(info: Fields, read_bytes: float) -> tuple[Host, ...]:
    """Return the host as the place of the task's data, if its data were there.

    Spark calls a task without preferred hosts PROCESS_LOCAL as well, so that says something only of a task that
    read input, from the executor's cache.
    """
    host, locality = info.text("Host", ""), info.text("Locality", "ANY")
    is_there = locality == "NODE_LOCAL" or (locality == "PROCESS_LOCAL" and read_bytes > 0)
    return ((DEFAULT_RACK, host),) if host and is_there else ()


def _inner(fields: Fields, key: str) -> Fields:
    value = fields.raw.get(key)
    if value is not None and not isinstance(value, dict):
        raise fields.fail(f"{key} is not an object")
    return Fields(value or {}, f"{fields.where}: {key}")


def _looks_like(start: str) -> bool:
    return start.lstrip().startswith("{") and '"Event":"SparkListener' in start.replace('": "', '":"')


FORMAT = TraceFormat(read=read_spark, looks_like=_looks_like)

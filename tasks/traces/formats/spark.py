"""Spark's event logs: one JSON object per line, each with a field `Event`. Each Spark job becomes a job.

Stages without predecessors become maps, later ones reduces; see `lanes` for stages after the second. A stage that
Spark skipped has no tasks in a job: the job that ran the stage comes before.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.lanes import lanes
from schedbed.tasks.traces.recording import most_held
from schedbed.tasks.traces.text import Fields
from schedbed.tasks.traces.trace import Host, Recording, Trace, TraceFormat, TraceJob, TraceTask

DEFAULT_RACK = "default-rack"
_NUMBERS = 10**9  # More than any number of a job, stage or RDD in an application.
Place = tuple[int, int]
"""The key of a task: its stage, and its index in the stage."""


@dataclass(slots=True)
class _LoggedJob:
    """The state of a Spark job according to the events read so far."""

    number: int
    application: str
    user: str | None
    submit_s: float
    parents: dict[int, tuple[int, ...]]  # Parent stages, by stage.
    datasets: dict[int, tuple[int, ...]]  # Ids of the RDDs that a stage computes, by stage.
    end_s: float | None = None
    failed: bool = False
    pool: str | None = None
    name: str | None = None
    tasks: dict[Place, TraceTask] = field(default_factory=dict)
    failures: Counter[Place] = field(default_factory=Counter)
    last_failed: dict[Place, TraceTask] = field(default_factory=dict)
    launch_s: float = math.inf  # Launch of the first task.
    away: set[Place] = field(default_factory=set)  # Tasks that ran elsewhere than where their data were.


class _Log:
    """The state of all jobs of a Spark event log according to the events read so far."""

    def __init__(self) -> None:
        self.jobs: dict[int, _LoggedJob] = {}
        self.jobs_by_stage: dict[int, list[_LoggedJob]] = {}
        self.application = "spark"
        self.first = 0  # What is added to an application's numbers, which begin at 0 in each.
        self.user: str | None = None
        self.lost = 0  # Number of ended tasks whose job is unknown.
        self.executors: dict[str, tuple[str, int]] = {}  # Host and cores of those that are there.
        self.cores: dict[str, int] = {}  # By host, the most at a time.
        # Begin and end of each attempt, and 1, by host.
        self.spans: dict[str, list[tuple[float, float, float]]] = {}
        self.settings: dict[str, str] | None = None  # Spark's properties, if the log has its environment.

    def take(self, event: Fields) -> None:
        """Process an event. Only application, job and task events have an effect."""
        kind = event.text("Event", "").rpartition(".")[2]
        if kind == "SparkListenerApplicationStart":
            self.application = event.text("App Name", "spark")
            self.first += _NUMBERS if self.jobs else 0
            self.executors.clear()
            self.user = event.text("User", "") or None
        elif kind == "SparkListenerJobStart":
            self._job_started(event)
        elif kind == "SparkListenerJobEnd":
            job = self.jobs.get(self._number(event, "Job ID"))
            if job is not None:
                job.end_s = event.number("Completion Time", 0.0) / 1000
                result = event.raw.get("Job Result")
                job.failed = isinstance(result, dict) and result.get("Result") != "JobSucceeded"
        elif kind == "SparkListenerTaskEnd":
            self._task_ended(event)
        elif kind == "SparkListenerExecutorAdded":
            info = _inner(event, "Executor Info")
            host = info.text("Host", "?")
            self.executors[event.text("Executor ID", "")] = (host, info.whole("Total Cores", 0, 100_000))
            there = sum(cores for place, cores in self.executors.values() if place == host)
            self.cores[host] = max(self.cores.get(host, 0), there)
        elif kind == "SparkListenerExecutorRemoved":
            self.executors.pop(event.text("Executor ID", ""), None)
        elif kind == "SparkListenerEnvironmentUpdate":
            told = event.raw.get("Spark Properties")
            pairs = told.items() if isinstance(told, dict) else told if isinstance(told, list) else ()
            self.settings = {str(pair[0]): str(pair[1]) for pair in map(tuple, pairs) if len(pair) == 2}

    def _number(self, event: Fields, key: str) -> int:
        return self.first + event.whole(key, 0, _NUMBERS)

    def _job_started(self, event: Fields) -> None:
        stages: dict[int, tuple[int, ...]] = {}
        datasets: dict[int, tuple[int, ...]] = {}
        for info in event.objects("Stage Infos"):
            stage, parents = self._number(info, "Stage ID"), info.raw.get("Parent IDs") or ()
            stages[stage] = tuple(each + self.first for each in parents if isinstance(each, int))
            known = [self._number(data, "RDD ID") for data in info.objects("RDD Info") if "RDD ID" in data]
            datasets[stage] = tuple(sorted(known))
        number = self._number(event, "Job ID")
        submit_s = event.number("Submission Time") / 1000
        job = self.jobs[number] = _LoggedJob(number, self.application, self.user, submit_s, stages, datasets)
        properties = _inner(event, "Properties")
        job.pool = properties.text("spark.scheduler.pool", "") or None
        job.name = properties.text("spark.job.description", "") or None
        for stage in stages:
            self.jobs_by_stage.setdefault(stage, []).append(job)

    def _task_ended(self, event: Fields) -> None:
        stage = self._number(event, "Stage ID")
        jobs, info = self.jobs_by_stage.get(stage, ()), _inner(event, "Task Info")
        if not jobs:
            self.lost += 1
            return
        # The first job that has not ended runs a stage for all.
        job = next((job for job in jobs if job.end_s is None), jobs[-1])
        launch_s, host = info.number("Launch Time", 0.0) / 1000, info.text("Host", "")
        job.launch_s = min(job.launch_s, launch_s)
        if host:
            finish_s = info.number("Finish Time", 0.0) / 1000
            self.spans.setdefault(host, []).append((launch_s, max(launch_s, finish_s), 1))
        place = (stage, info.whole("Index", 0, 10**9))
        if info.text("Locality", "") in ("RACK_LOCAL", "ANY"):
            job.away.add(place)
        reason = event.raw.get("Task End Reason")
        if not isinstance(reason, dict) or reason.get("Reason") != "Success":
            job.failures[place] += 1
            job.last_failed[place] = _task(info, _inner(event, "Task Metrics"))
        elif place not in job.tasks:
            job.tasks[place] = _task(info, _inner(event, "Task Metrics"))

    def jobs_that_ran(self) -> Mapping[object, list[_LoggedJob]]:
        """Return the jobs that ran a stage, by the number of the stage and by the ids of its RDDs."""
        found: dict[object, list[_LoggedJob]] = {}
        for job in self.jobs.values():
            for stage in dict.fromkeys(stage for stage, _ in job.tasks):
                for key in {stage, job.datasets.get(stage) or stage}:
                    found.setdefault(key, []).append(job)
        return found


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
    ran = log.jobs_that_ran()
    jobs = [_linked(job, log.jobs[job.number or 0], ran, notes) for job in jobs]
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
    return Trace(format="spark", jobs=tuple(jobs), recording=_recording(log, jobs), warnings=warnings)


# The cluster and the settings with which a log was recorded, for its replay.

HEARTBEAT_S = 0.2


def _recording(log: _Log, jobs: list[TraceJob]) -> Recording | None:
    """Return the hosts that ran tasks or executors, with the slots of an executor's cores, and the settings."""
    names = sorted({*log.cores, *log.spans})
    if not names:
        return None
    cores = list(log.cores.values())
    settings = log.settings or {}
    each = settings.get("spark.task.cpus", "1")
    divisor = int(each) if each.isdecimal() and int(each) else 1
    busiest = max([1, *(round(most_held(spans)) for spans in log.spans.values())])
    slots = max(cores) // divisor if cores and max(cores) >= divisor else busiest
    said = "cores of the executors" if cores and max(cores) >= divisor else "most tasks at a time on a host"
    why = [f"{len(names)} hosts of {slots} slots: {said}"]
    if len(set(cores)) > 1:
        why.append("hosts have different numbers of cores, of which the largest counts for all")
    if has_reduces := any(job.reduces for job in jobs):
        why.append(
            "later stages have slots of their own, as many again, where Spark shares them with first stages"
        )
    if settings.get("spark.speculation", "").lower() == "true":
        why.append("a task lasts as long as its attempt that won, and is not copied again")
    policy = None if log.settings is None else _policy(settings, why)
    return Recording(
        hosts=tuple((DEFAULT_RACK, name) for name in names),
        map_slots=slots,
        reduce_slots=slots if has_reduces else 0,
        heartbeat_s=HEARTBEAT_S,
        policy=policy,
        replicas=max([1, *(len(task.hosts) for job in jobs for task in job.maps)]),
        why=tuple(why),
    )


def _policy(settings: Mapping[str, str], why: list[str]) -> str:
    """Return the policy that the settings name, and add to `why` what they do not tell."""
    mode = settings.get("spark.scheduler.mode", "FIFO").upper()
    parameters: list[str] = []
    for key, name in (("spark.locality.wait", "wait"), ("spark.scheduler.revive.interval", "revive")):
        if key in settings:
            parameters.append(f"{name}={_seconds(settings[key]):g}s")
    rack = settings.get("spark.locality.wait.rack")
    parameters += [] if rack is None else [f"rack_wait={_seconds(rack):g}s"]
    if settings.get("spark.locality.wait.legacyResetOnTaskLaunch", "").lower() == "true":
        parameters.append("reset=launch")
    spec = f"spark-{'fair' if mode == 'FAIR' else 'fifo'}" + (
        f":{','.join(parameters)}" if parameters else ""
    )
    why.append(f"policy {spec}, by the environment in the log")
    if mode == "FAIR":
        why.append(
            "all pools are equal and FIFO inside: a log does not contain spark.scheduler.allocation.file"
        )
    return spec


_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|d)?\s*")
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str) -> float:
    """Return a duration in Spark's form, where a number without a unit is in milliseconds. Raises BadInput."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BadInput(f"{text[:40]!r} in the log's environment is not a duration such as 3s")
    return float(found[1]) * _UNITS_S[found[2] or "ms"]


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
    reduces = _reduces(job, later, notes)
    notes["# tasks ran away from their data, of which the log does not say where; they prefer no node"] += (
        len(job.away.intersection(job.tasks))
    )
    notes["# jobs did not succeed in the trace and are taken as if they had"] += (
        job.failed or job.end_s is None
    )
    notes["# attempts failed or were killed; they cost nothing here"] += job.failures.total()
    return TraceJob(
        name=(job.name or f"{job.application}-{job.number % _NUMBERS}")[:200],
        submit_s=job.submit_s,
        user=job.user,
        queue=job.pool,
        duration_s=None if job.end_s is None or job.end_s < job.submit_s else job.end_s - job.submit_s,
        input_bytes=sum(task.input_bytes or 0 for task in maps),
        shuffle_bytes=sum(task.output_bytes or 0 for task in maps) if reduces else 0,
        output_bytes=sum(task.output_bytes or 0 for task in reduces or maps),
        number=job.number,
        maps=maps,
        reduces=reduces,
    )


def _reduces(job: _LoggedJob, later: set[int], notes: Counter[str]) -> tuple[TraceTask, ...]:
    """Return the tasks of the stages `later`. A stage that waits for another of them continues in its reduces."""
    places = [place for place in sorted(job.tasks) if place[0] in later]
    tasks = [_counted(job, place) for place in places]
    before = {stage: [parent for parent in job.parents.get(stage, ()) if parent in later] for stage in later}
    if not any(before.values()):
        return tuple(tasks)
    works_s = [task.duration_s or 0.0 for task in tasks]
    longest_s = dict.fromkeys(later, 0.0)
    for (stage, _), work_s in zip(places, works_s, strict=True):
        longest_s[stage] = max(longest_s[stage], work_s)
    begin_s: dict[int, float] = {}
    for stage in sorted(later):  # Spark numbers a stage after those that it waits for.
        begin_s[stage] = max(
            [0.0, *(begin_s[each] + longest_s[each] for each in before[stage] if each in begin_s)]
        )
    packed = lanes([begin_s[stage] for stage, _ in places], works_s, [1] * len(places))
    notes[
        "# jobs have more than two stages: the later ones run after each other in the same reduces, and what these "
        "shuffle between them costs its recorded time only"
    ] += 1
    return tuple(_chained([tasks[place] for place in lane.tasks], lane.lasts_s) for lane in packed)


def _chained(tasks: list[TraceTask], lasts_s: float) -> TraceTask:
    """Return one task that does the work of all, and writes what the last one did."""
    cpu_s = [task.cpu_s for task in tasks if task.cpu_s is not None]
    return replace(
        tasks[-1],
        input_bytes=tasks[0].input_bytes,
        duration_s=lasts_s or None,
        work_s=lasts_s or None,
        cpu_s=sum(cpu_s) if len(cpu_s) == len(tasks) else None,
        failed_attempts=sum(task.failed_attempts for task in tasks),
    )


def _linked(
    made: TraceJob, job: _LoggedJob, ran_by: Mapping[object, list[_LoggedJob]], notes: Counter[str]
) -> TraceJob:
    """Return the job with the job that it waits for, if it has skipped stages of one that ended before its tasks."""
    skipped = set(job.parents) - {stage for stage, _ in job.tasks}
    if not skipped:
        return made
    ran = [other for stage in skipped for other in _ran(stage, job, ran_by)]
    before = [other for other in ran if other.end_s is not None and other.end_s <= job.launch_s]
    notes["# jobs skipped stages that no job of the log ran; they wait for none"] += not ran
    notes["# jobs skipped stages of a job that still ran; they do not wait for it"] += (
        bool(ran) and not before
    )
    if not before:
        return made
    last = max(before, key=lambda other: (other.end_s or 0.0, other.number))
    return replace(made, after=last.number, think_s=max(0.0, job.submit_s - (last.end_s or 0.0)))


def _ran(stage: int, job: _LoggedJob, ran: Mapping[object, list[_LoggedJob]]) -> list[_LoggedJob]:
    """Return the other jobs that ran the stage, or else earlier ones that ran a stage of the same RDDs.

    Spark gives a stage that is computed again a new number.
    """
    same = [other for other in ran.get(stage, ()) if other is not job]
    data = job.datasets.get(stage)
    return same or [other for other in ran.get(data or None, ()) if other.number < job.number]


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

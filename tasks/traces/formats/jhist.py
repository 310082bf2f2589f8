"""Job history files of YARN's MapReduce (`.jhist`, Avro as JSON or binary), with one event per line of JSON.

The first two lines are `Avro-Json` and the schema. Concatenated files, and folders, have several jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.avro_events import MARK, json_lines
from schedbed.tasks.traces.recording import most_held
from schedbed.tasks.traces.rumen_notes import Notes
from schedbed.tasks.traces.text import AS_TEXT, is_amount, lines
from schedbed.tasks.traces.trace import (
    Host,
    Trace,
    TracedMachine,
    TraceFormat,
    TraceJob,
    TraceTask,
    fetched_bytes,
    priority_of,
    sharing,
)

AS_TEXT[MARK] = json_lines
HEADER = "Avro-Json"
DEFAULT_RACK = "default-rack"
_KINDS = {"MAP": "map", "REDUCE": "reduce"}  # Other tasks (setup, cleanup) belong to the framework.


@dataclass(slots=True)
class _Task:
    """The state of a task according to the events read so far. Times are in milliseconds."""

    kind: str
    locations: str = ""
    started: dict[str, int] = field(default_factory=dict)  # Start time in ms, by attempt.
    done: Mapping[str, Any] | None = None  # The end event of the successful attempt.
    failed: dict[str, int] = field(default_factory=dict)  # Finish time in ms, by attempt.
    killed: dict[str, int] = field(default_factory=dict)  # The same of attempts that ran and were stopped.


@dataclass(slots=True)
class _History:
    """The state of a job according to the events read so far."""

    values: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, _Task] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)  # Racks by host, for hosts that ran attempts.
    # Host, begin and end in ms of each container; the ApplicationMaster's ends with the job.
    containers: list[tuple[str, Any, Any]] = field(default_factory=list)
    ended: str | None = None


def read_jhist(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not an event."""
    histories: list[_History] = []
    for kind, event, where in _events(path):
        if not histories or (kind == "JOB_SUBMITTED" and "submitTime" in histories[-1].values):
            histories.append(_History())
        _take(histories[-1], kind, event, where)
    notes, counts = Notes(), Counter[str]()
    jobs = [job for history in histories if (job := _job(history, path, notes, counts)) is not None]
    if not jobs:
        raise BadInput(f"{path}: no job with map tasks in it, expected the events of a job history")
    jobs.sort(key=lambda job: job.submit_s)
    warnings = (
        "no racks of input hosts in a job history but those of hosts that ran attempts",
        *(what.replace("#", str(count)) for what, count in sorted(counts.items()) if count),
        *(
            each.replace("they cost nothing here", "the time that they held counts as work")
            for each in notes.warnings()
        ),
    )
    return Trace(format="jhist", jobs=tuple(jobs), machine=_machine(histories, jobs), warnings=warnings)


HEARTBEAT_S = 1.0  # YARN's default, for NodeManagers and ApplicationMasters.


def _machine(histories: Sequence[_History], jobs: Sequence[TraceJob]) -> TracedMachine | None:
    """Return the hosts that held containers or inputs, with the most containers at a time on one of them."""
    spans: dict[str, list[tuple[float, float, float]]] = {}
    for history in histories:
        for host, begin, end in history.containers:
            lasted_s = _span_s(begin, history.values.get("finishTime") if end is None else end)
            held = spans.setdefault(host, [])
            held += [] if lasted_s is None else [(begin / 1000, begin / 1000 + lasted_s, 1)]
    names = {*spans, *(name for job in jobs for task in job.maps for _, name in task.hosts)}
    if not any(spans.values()):
        return None
    slots = max(1, *(round(most_held(each)) for each in spans.values()))
    why = f"{len(names)} hosts in the history, with at most {slots} containers at a time on one"
    return TracedMachine(nodes=len(names), processors=slots * len(names), why=why, heartbeat_s=HEARTBEAT_S)


def _events(path: Path) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    for number, line in lines(path):
        text = line.strip()
        if not text or text == HEADER:
            continue
        where = f"{path}:{number}"
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{where}: no event of a job history: {str(error)[:80]}") from None
        if isinstance(raw, dict) and raw.get("type") == "record":
            continue  # This line is the schema.
        event = raw.get("event") if isinstance(raw, dict) else None
        if not isinstance(event, dict) or len(event) != 1 or not isinstance(raw.get("type"), str):
            raise BadInput(f"{where}: no event of a job history, expected {{type, event}}")
        fields = next(iter(event.values()))
        if not isinstance(fields, dict):
            raise BadInput(f"{where}: the event {raw['type']} has no fields")
        yield raw["type"], {key: _plain(value) for key, value in fields.items()}, where


def _plain(value: Any) -> Any:
    """Return the value inside an Avro union, which newer versions write as {type: value}."""
    if isinstance(value, dict) and len(value) == 1:
        ((key, inner),) = value.items()
        if key in ("string", "long", "int", "boolean", "map", "array") or str(key).startswith("org.apache."):
            return inner
    return value


def _take(job: _History, kind: str, event: Mapping[str, Any], where: str) -> None:
    if kind.startswith("JOB_"):
        job.values |= {key: value for key, value in event.items() if value is not None}
        if kind in ("JOB_FINISHED", "JOB_FAILED", "JOB_KILLED", "JOB_ERROR"):
            job.ended = kind
        return
    if kind == "AM_STARTED" and isinstance(event.get("nodeManagerHost"), str):
        job.containers.append((event["nodeManagerHost"], event.get("startTime"), None))
    name, task_kind = event.get("taskid"), _KINDS.get(str(event.get("taskType")))
    if not isinstance(name, str) or task_kind is None:
        return
    task = job.tasks.setdefault(name, _Task(task_kind))
    attempt = str(event.get("attemptId"))
    if kind == "TASK_STARTED":
        task.locations = str(event.get("splitLocations") or "")
    elif kind.endswith("_ATTEMPT_STARTED"):
        task.started[attempt] = _amount(event, "startTime", where)
    elif kind.endswith("_ATTEMPT_FINISHED"):
        task.done = event
        _ran_on(job, task, event)
    elif kind.endswith(("_ATTEMPT_FAILED", "_ATTEMPT_KILLED")):
        _ran_on(job, task, event)
        finish: Any = event.get("finishTime")
        if kind.endswith("FAILED"):
            task.failed[attempt] = round(finish) if is_amount(finish) else 0
        elif is_amount(finish) and finish and attempt in task.started:  # Others were stopped before they ran.
            task.killed[attempt] = round(finish)


def _ran_on(job: _History, task: _Task, event: Mapping[str, Any]) -> None:
    """Note the host of an attempt that has ended, with its rack and the time of its container."""
    host, rack, begin = (
        event.get("hostname"),
        event.get("rackname"),
        task.started.get(str(event.get("attemptId"))),
    )
    if isinstance(host, str) and isinstance(rack, str) and host != "UNKNOWN":
        job.racks[host] = rack.strip("/") or DEFAULT_RACK
        if job.values.get("uberized") is not True:
            job.containers.append((host, begin, event.get("finishTime")))


def _job(history: _History, path: Path, notes: Notes, counts: Counter[str]) -> TraceJob | None:
    values = history.values
    if "submitTime" not in values:
        raise BadInput(
            f"{path}: no JOB_SUBMITTED with a submitTime before other events, expected a job history"
        )
    submit = _amount(values, "submitTime", str(path))
    finish = _amount(values, "finishTime", str(path)) if "finishTime" in values else None
    ordered = [history.tasks[name] for name in sorted(history.tasks, key=lambda name: (len(name), name))]
    succeeded = history.ended == "JOB_FINISHED"
    never = 0 if succeeded else sum(not task.started and task.done is None for task in ordered)
    counts["# tasks of jobs that did not succeed never ran, and take only the time of a launch"] += never
    maps = tuple(_task(task, history, notes) for task in ordered if task.kind == "map")
    reduces = tuple(_task(task, history, notes) for task in ordered if task.kind == "reduce")
    counts["# jobs did not succeed in the trace; their tasks run as long as they ran there"] += not succeeded
    planned = (values.get("totalMaps", len(maps)), values.get("totalReduces", len(reduces)))
    counts["# jobs have other numbers of tasks than they planned; those with events count"] += planned != (
        len(maps),
        len(reduces),
    )
    counts["# jobs without map tasks are left out"] += not maps
    if not maps:
        return None
    fetched = fetched_bytes(reduces)
    if fetched is not None:
        maps = sharing(maps, fetched)
    return TraceJob(
        name=str(values.get("jobName") or values.get("jobid") or "job")[:200],
        submit_s=submit / 1000,
        user=str(values["userName"])[:200] if values.get("userName") else None,
        queue=str(values["jobQueueName"])[:200] if values.get("jobQueueName") else None,
        priority=priority_of(values.get("priority")),
        duration_s=None if finish is None or finish < submit else (finish - submit) / 1000,
        succeeded=succeeded,
        input_bytes=sum(task.input_bytes or 0 for task in maps),
        shuffle_bytes=fetched or 0,
        output_bytes=sum(task.output_bytes or 0 for task in reduces or maps),
        maps=maps,
        reduces=reduces,
        uber=values.get("uberized") is True,
    )


def _task(task: _Task, job: _History, notes: Notes) -> TraceTask:
    if not task.started and task.done is None and job.ended != "JOB_FINISHED":
        hosts = tuple(_hosts(task, job)) if task.kind == "map" else ()
        failed = len(task.failed)
        return TraceTask(
            input_bytes=0, output_bytes=0, work_s=0.0, cpu_s=0.0, hosts=hosts, failed_attempts=failed
        )
    done = task.done or {}
    counters = _counters(done.get("counters"))
    started = task.started.get(str(done.get("attemptId")))
    finish = done.get("finishTime")
    duration_s = _span_s(started, finish)
    lost_s = _lost_s(task, job, finish)
    if task.done is None:
        duration_s = max(
            (_span_s(task.started.get(name), end) or 0.0 for name, end in _ends(task)), default=None
        )
    is_map = task.kind == "map"
    shuffles = any(other.kind == "reduce" for other in job.tasks.values())
    if is_map:
        read = _first(counters, "HDFS_BYTES_READ", "BYTES_READ")
        if not any(other.locations for other in job.tasks.values()):
            read = None  # The file with the description of the splits, since the input is not in HDFS.
        written = (
            _first(counters, "MAP_OUTPUT_MATERIALIZED_BYTES", "MAP_OUTPUT_BYTES")
            if shuffles
            else _first(counters, "HDFS_BYTES_WRITTEN", "BYTES_WRITTEN")
        )
    else:
        read = _first(counters, "REDUCE_SHUFFLE_BYTES")
        written = _first(counters, "HDFS_BYTES_WRITTEN", "BYTES_WRITTEN")
    cpu_ms = counters.get("CPU_MILLISECONDS")
    made = TraceTask(
        input_bytes=read,
        output_bytes=written,
        duration_s=duration_s,
        work_s=_work_s(task, started, finish, lost_s)
        if is_map
        else _sum(_span_s(done.get("shuffleFinishTime"), finish) or duration_s, lost_s),
        shuffle_s=None if is_map else _span_s(_mapped(job, started), done.get("shuffleFinishTime")),
        cpu_s=cpu_ms / 1000 if cpu_ms else None,
        hosts=tuple(_hosts(task, job)) if is_map else (),
        failed_attempts=len(task.failed) + sum(end < (finish or 0) for end in task.killed.values()),
    )
    notes.task(made, task.kind, task.done is not None)
    return made


def _ends(task: _Task) -> Iterator[tuple[str, int]]:
    """Yield the name and the end in ms of each attempt that failed or was stopped."""
    yield from (*task.failed.items(), *task.killed.items())


def _mapped(job: _History, started: int | None) -> int | None:
    """Return the later of a reduce's start and the end of the job's last map, in ms. Waiting ends there."""
    ends = (each.done.get("finishTime") for each in job.tasks.values() if each.kind == "map" and each.done)
    return None if started is None else max([started, *(end for end in ends if isinstance(end, int))])


def _lost_s(task: _Task, job: _History, finish: Any) -> float:
    """Return the time that attempts held before the one that ended at `finish`, of a reduce without its waits."""
    lost_s = 0.0
    for name, end in _ends(task):
        begin = task.started.get(name)
        if finish is None or end < finish:  # Else it lost against a copy, or was its slower original.
            lost_s += _span_s(begin if task.kind == "map" else _mapped(job, begin), end) or 0.0
    return lost_s


def _work_s(task: _Task, started: int | None, finish: Any, lost_s: float) -> float | None:
    """Return the time that a map took, from the start of a slower attempt if a copy won, with what was lost."""
    if task.done is None:
        return lost_s
    losers = [
        task.started[name] for name, end in task.killed.items() if isinstance(finish, int) and end >= finish
    ]
    return _sum(_span_s(min([started, *losers]) if started is not None else None, finish), lost_s)


def _sum(known_s: float | None, more_s: float) -> float | None:
    return None if known_s is None else known_s + more_s


def _hosts(task: _Task, job: _History) -> Iterator[Host]:
    for name in dict.fromkeys(filter(None, (word.strip() for word in task.locations.split(",")))):
        rack, _, host = name.strip("/").rpartition("/")
        yield rack or job.racks.get(host, DEFAULT_RACK), host


def _counters(raw: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    raw = _plain(raw)
    groups = raw.get("groups") if isinstance(raw, dict) else None
    for group in groups if isinstance(groups, list) else ():
        counts = group.get("counts") if isinstance(group, dict) else None
        for count in counts if isinstance(counts, list) else ():
            if isinstance(count, dict) and is_amount(count.get("value")):
                found.setdefault(str(count.get("name")), round(count["value"]))
    return found


def _first(counters: Mapping[str, int], *names: str) -> int | None:
    return next((counters[name] for name in names if name in counters), None)


def _amount(event: Mapping[str, Any], key: str, where: str) -> int:
    value: Any = event.get(key)
    if not is_amount(value):
        raise BadInput(f"{where}: {key}: {str(value)[:40]!r} is not a time in ms")
    return round(value)


def _span_s(start: Any, finish: Any) -> float | None:
    good = is_amount(start) and is_amount(finish) and finish >= start
    return (finish - start) / 1000 if good else None


def _looks_like(start: str) -> bool:
    return start.lstrip().startswith((HEADER, "Avro-Binary"))


FORMAT = TraceFormat(read=read_jhist, looks_like=_looks_like)

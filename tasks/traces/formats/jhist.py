"""Job history files of YARN's MapReduce (`.jhist`, Avro as JSON), with one event per line.

The first two lines are `Avro-Json` and the schema. Concatenated files have several jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.rumen_notes import Notes
from schedbed.tasks.traces.text import lines
from schedbed.tasks.traces.trace import Host, Trace, TraceFormat, TraceJob, TraceTask, fetched_bytes, sharing

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
    killed: dict[str, int] = field(default_factory=dict)  # The same of attempts that were stopped.


@dataclass(slots=True)
class _History:
    """The state of a job according to the events read so far."""

    values: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, _Task] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)  # Racks by host, for hosts that ran attempts.
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
            each.replace("they cost nothing", "only the time of maps that failed counts")
            for each in notes.warnings()
        ),
    )
    return Trace(format="jhist", jobs=tuple(jobs), warnings=warnings)


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
        host, rack = event.get("hostname"), event.get("rackname")
        if isinstance(host, str) and isinstance(rack, str):
            job.racks[host] = rack.strip("/") or DEFAULT_RACK
    elif kind.endswith(("_ATTEMPT_FAILED", "_ATTEMPT_KILLED")):
        ends = task.killed if kind.endswith("KILLED") else task.failed
        finish: Any = event.get("finishTime")
        ends[attempt] = round(finish) if _is_amount(finish) else 0


def _job(history: _History, path: Path, notes: Notes, counts: Counter[str]) -> TraceJob | None:
    values = history.values
    if "submitTime" not in values:
        raise BadInput(
            f"{path}: no JOB_SUBMITTED with a submitTime before other events, expected a job history"
        )
    submit = _amount(values, "submitTime", str(path))
    finish = _amount(values, "finishTime", str(path)) if "finishTime" in values else None
    ordered = [history.tasks[name] for name in sorted(history.tasks, key=lambda name: (len(name), name))]
    maps = tuple(_task(task, history, notes) for task in ordered if task.kind == "map")
    reduces = tuple(_task(task, history, notes) for task in ordered if task.kind == "reduce")
    counts["# jobs did not succeed in the trace and are taken as if they had"] += (
        history.ended != "JOB_FINISHED"
    )
    listed = (values.get("totalMaps", len(maps)), values.get("totalReduces", len(reduces)))
    counts["# jobs have other numbers of tasks than they planned; those with events count"] += listed != (
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
        duration_s=None if finish is None or finish < submit else (finish - submit) / 1000,
        input_bytes=sum(task.input_bytes or 0 for task in maps),
        shuffle_bytes=fetched or 0,
        output_bytes=sum(task.output_bytes or 0 for task in reduces or maps),
        maps=maps,
        reduces=reduces,
        uber=values.get("uberized") is True,
    )


def _task(task: _Task, job: _History, notes: Notes) -> TraceTask:
    done = task.done or {}
    counters = _counters(done.get("counters"))
    started = task.started.get(str(done.get("attemptId")))
    duration_s = _span_s(started, done.get("finishTime"))
    began = _first_start(task, started, done.get("finishTime"))
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
        work_s=_work_s(task, began, done.get("finishTime"))
        if is_map
        else (_span_s(done.get("shuffleFinishTime"), done.get("finishTime")) or duration_s),
        cpu_s=cpu_ms / 1000 if cpu_ms else None,
        hosts=tuple(_hosts(task, job)) if is_map else (),
        failed_attempts=len(task.killed) + len(task.failed),
    )
    notes.task(made, task.kind, task.done is not None)
    return made


def _first_start(task: _Task, started: int | None, finish: Any) -> int | None:
    """Return the start of the task's work, which is that of a slower attempt if a copy of it won (speculation)."""
    if started is None or not isinstance(finish, int):
        return started
    losers = [start for name, start in task.started.items() if task.killed.get(name, 0) >= finish]
    return min([started, *losers])


def _work_s(task: _Task, began: int | None, finish: Any) -> float | None:
    """Return the time that a map took from `began` on, with that of its attempts that failed."""
    work_s = _span_s(began, finish)
    failed = [_span_s(task.started.get(name), end) or 0.0 for name, end in task.failed.items()]
    return None if work_s is None else work_s + sum(failed)


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
            if isinstance(count, dict) and _is_amount(count.get("value")):
                found.setdefault(str(count.get("name")), round(count["value"]))
    return found


def _first(counters: Mapping[str, int], *names: str) -> int | None:
    return next((counters[name] for name in names if name in counters), None)


def _amount(event: Mapping[str, Any], key: str, where: str) -> int:
    value: Any = event.get(key)
    if not _is_amount(value):
        raise BadInput(f"{where}: {key}: {str(value)[:40]!r} is not a time in ms")
    return round(value)


def _span_s(start: Any, finish: Any) -> float | None:
    good = _is_amount(start) and _is_amount(finish) and finish >= start
    return (finish - start) / 1000 if good else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18


def _looks_like(start: str) -> bool:
    return start.lstrip().startswith((HEADER, "Avro-Binary"))


FORMAT = TraceFormat(read=read_jhist, looks_like=_looks_like)

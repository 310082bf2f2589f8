"""Alibaba's 2018 trace of batch jobs: `batch_task.csv` as published, or CloudSimPy's CSV with a header.

A task has several equal instances. Those without predecessors become maps, all others (such as R3_1) reduces,
so the later stages are merged into one.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.text import first_line, lines
from schedbed.tasks.traces.trace import Trace, TraceFormat, TraceJob, TraceTask

BATCH_TASK = (
    *("task_name", "instance_num", "job_name", "task_type", "status"),
    *("start_time", "end_time", "plan_cpu", "plan_mem"),
)
HEADED = ("submit_time", "duration", "cpu", "job_id", "task_id", "instances_num")
INSTANCES_MAX = 1_000_000
TASKS_MAX = 20_000_000
_WAITS = re.compile(r"[A-Za-z]+\d+_\d+")
Notes = Counter[str]


@dataclass(frozen=True, slots=True)
class _Row:
    """A line: a task with one of its `count` equal instances. `waits` means that it has predecessors."""

    job: str
    submit_s: float
    waits: bool
    count: int
    task: TraceTask


def read_alibaba(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not a task."""
    notes: Notes = Counter()
    jobs: dict[str, list[_Row]] = {}
    instances = 0
    for row in _rows(path, notes):
        jobs.setdefault(row.job, []).append(row)
        instances += row.count
        if instances > TASKS_MAX:
            raise BadInput(f"{path}: more than {TASKS_MAX} instances, expected a part of the trace")
    if not jobs:
        raise BadInput(f"{path}: no task that ran in it, expected lines of Alibaba's batch tasks")
    made = sorted((_job(name, rows, notes) for name, rows in jobs.items()), key=lambda job: job.submit_s)
    warnings = (
        "no bytes, users, queues or locations in Alibaba's batch tasks; memory is a share of a machine, not kept",
        "assumed: an instance computes for its duration times its cores, at most one core",
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
    )
    return Trace(format="alibaba", jobs=tuple(made), warnings=warnings)


def _job(name: str, rows: list[_Row], notes: Notes) -> TraceJob:
    waiting = [row for row in rows if row.waits]
    first = [row for row in rows if not row.waits]
    if not first:
        first, waiting = waiting, []
    notes["assumed: tasks of # jobs that wait for other tasks run as reduces, after all maps"] += bool(
        waiting
    )
    submit_s = min(row.submit_s for row in first)
    notes["assumed: # jobs whose first tasks began at different times submit all at the first"] += any(
        row.submit_s != submit_s for row in first
    )
    ends = [row.submit_s + (row.task.duration_s or 0.0) for row in rows]
    return TraceJob(
        name=name,
        submit_s=submit_s,
        duration_s=max(ends) - submit_s,
        maps=tuple(task for row in first for task in (row.task,) * row.count),
        reduces=tuple(task for row in waiting for task in (row.task,) * row.count),
    )


def _rows(path: Path, notes: Notes) -> Iterator[_Row]:
    read: Callable[[Mapping[str, str], str, Notes], _Row | None] | None = None
    names: tuple[str, ...] = BATCH_TASK
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        cells = _cells(line, where)
        if read is None:
            if set(HEADED) <= set(cells):
                read, names = _headed, tuple(cells)
                continue
            if set(BATCH_TASK) <= set(cells):
                read, names = _batch_task, tuple(cells)
                continue
            read = _batch_task
        if len(cells) != len(names):
            raise BadInput(f"{where}: {len(cells)} columns, expected {len(names)} ({', '.join(names)})")
        row = read(dict(zip(names, cells, strict=True)), where, notes)
        if row is not None:
            yield row


def _cells(line: str, where: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise BadInput(f"{where}: not CSV: {error}") from None


def _batch_task(cells: Mapping[str, str], where: str, notes: Notes) -> _Row | None:
    if cells["status"] != "Terminated":
        notes["# tasks that did not end well (status other than Terminated) are left out"] += 1
        return None
    start_s, end_s = _number(cells, "start_time", where), _number(cells, "end_time", where)
    if end_s <= start_s:
        notes["# tasks without a duration are left out"] += 1
        return None
    cores = _number(cells, "plan_cpu", where, "100") / 100
    return _row(cells["job_name"], start_s, end_s - start_s, cores, cells["task_name"], cells, where)


def _headed(cells: Mapping[str, str], where: str, notes: Notes) -> _Row | None:
    duration_s = _number(cells, "duration", where)
    if duration_s <= 0:
        notes["# tasks without a duration are left out"] += 1
        return None
    submit_s, cores = _number(cells, "submit_time", where), _number(cells, "cpu", where)
    return _row(cells["job_id"], submit_s, duration_s, cores, cells["task_id"], cells, where)


def _row(
    job: str,
    submit_s: float,
    duration_s: float,
    cores: float,
    name: str,
    cells: Mapping[str, str],
    where: str,
) -> _Row:
    count = _number(cells, "instance_num" if "instance_num" in cells else "instances_num", where)
    if not 1 <= count <= INSTANCES_MAX or count != int(count):
        raise BadInput(f"{where}: {count:g} instances, expected 1 to {INSTANCES_MAX}")
    if not job:
        raise BadInput(f"{where}: the job has no name")
    cpu_s = duration_s * min(1.0, cores or 1.0)
    task = TraceTask(duration_s=duration_s, work_s=duration_s, cpu_s=cpu_s)
    return _Row(job[:200], submit_s, _WAITS.match(name) is not None, int(count), task)


def _number(cells: Mapping[str, str], name: str, where: str, default: str | None = None) -> float:
    text = cells[name] or default or ""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise BadInput(f"{where}: {name}: {text[:40]!r} is not a number of 0 or more")
    return value


def _looks_like(start: str) -> bool:
    cells = [cell.strip() for cell in first_line(start).split(",")]
    if set(HEADED) <= set(cells) or set(BATCH_TASK) <= set(cells):
        return True
    named = len(cells) == len(BATCH_TASK) and not cells[0].isdigit() and cells[4].isalpha()
    return named and cells[1].isdigit()


FORMAT = TraceFormat(read=read_alibaba, looks_like=_looks_like)

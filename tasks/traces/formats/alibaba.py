"""Alibaba's 2018 trace of batch jobs: `batch_task.csv` as published, or CloudSimPy's CSV with a header.

A task has several equal instances. Tasks without predecessors become maps, all others (such as R3_1) reduces. A
recorded task that waits for others starts before they end: it works from their end on. See `lanes` for tasks that
follow others in the same map or reduce.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.lanes import lanes
from schedbed.tasks.traces.text import csv_cells, first_line, lines
from schedbed.tasks.traces.trace import Trace, TraceFormat, TraceJob, TraceTask

BATCH_TASK = (
    *("task_name", "instance_num", "job_name", "task_type", "status"),
    *("start_time", "end_time", "plan_cpu", "plan_mem"),
)
HEADED = ("submit_time", "duration", "cpu", "job_id", "task_id", "instances_num")
INSTANCES_MAX = 1_000_000
TASKS_MAX = 20_000_000
LEAST_S = 0.5  # Half of the trace's resolution.
EXCESS_MAX = 1.01  # Of a job's duration with all later tasks after all maps, to its longest chain.
_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)")
Notes = Counter[str]


@dataclass(frozen=True, slots=True)
class _Row:
    """A line: a task with `count` equal instances. `waits` contains the numbers of its predecessors."""

    job: str
    number: int | None
    waits: tuple[int, ...]
    submit_s: float
    end_s: float
    cores: float
    count: int


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
    """Return a job whose maps are the tasks without predecessors in the file, and whose reduces are all others."""
    number_of = {row.number: place for place, row in enumerate(rows) if row.number is not None}
    before = [
        [number_of[number] for number in row.waits if number_of.get(number, place) != place]
        for place, row in enumerate(rows)
    ]
    order = _in_order(before)
    circle = sorted(set(range(len(rows))).difference(order))
    notes["# tasks wait for each other in a circle, and are taken as if they waited for none"] += len(circle)
    for place in circle:
        before[place] = []
    order = [*circle, *order]
    first = [place for place in range(len(rows)) if not before[place]]
    submit_s = min(rows[place].submit_s for place in first)
    notes["assumed: # jobs whose first tasks began at different times submit all at the first"] += any(
        rows[place].submit_s != submit_s for place in first
    )
    work_s = [_work_s(row, [rows[place] for place in before[at]], notes) for at, row in enumerate(rows)]
    maps = _as_maps(before, order, work_s)
    end_s, after_maps_s = _ends_s(order, before, work_s), _ends_s(order, before, work_s, without=maps)
    later = [at for at in order if at not in maps]
    notes["assumed: tasks of # jobs that wait for other tasks run as reduces, after all maps"] += bool(later)
    notes["assumed: # jobs have tasks that run in a map, after one for which they waited"] += len(maps) > len(
        first
    )
    return TraceJob(
        name=name,
        submit_s=submit_s,
        duration_s=max(row.end_s for row in rows) - submit_s,
        maps=_packed(sorted(maps), rows, end_s, work_s, notes),
        reduces=_packed(later, rows, after_maps_s, work_s, notes),
    )


def _as_maps(before: list[list[int]], order: list[int], work_s: list[float]) -> set[int]:
    """Return the tasks that run as maps: those without predecessors, and others only if the job would last too long.

    Reduces begin after all maps. If that is later than the longest chain of tasks allows, tasks that can begin
    before all maps have ended join the maps.
    """
    end_s = _ends_s(order, before, work_s)
    maps = {at for at in order if not before[at]}
    after_maps_s = _ends_s(order, before, work_s, without=maps)
    lasts_s = max(end_s[at] for at in maps) + max(after_maps_s.values(), default=0.0)
    if lasts_s <= EXCESS_MAX * max(end_s.values()):
        return maps
    for at in sorted(end_s, key=lambda each: end_s[each] - work_s[each]):
        if end_s[at] - work_s[at] < max(end_s[each] for each in maps) - 1e-9:
            maps.add(at)
    return maps


def _ends_s(
    order: list[int], before: list[list[int]], work_s: list[float], without: Set[int] = frozenset()
) -> dict[int, float]:
    """Return when tasks end that begin as soon as those before have ended, or at 0 after tasks of `without`."""
    end_s: dict[int, float] = {}
    for at in order:
        if at not in without:
            end_s[at] = max([0.0, *(end_s[place] for place in before[at] if place in end_s)]) + work_s[at]
    return end_s


def _in_order(before: list[list[int]]) -> list[int]:
    """Return the numbers of tasks, each after those that it waits for, without tasks that wait in a circle."""
    left = [len(places) for places in before]
    after: list[list[int]] = [[] for _ in before]
    for at, places in enumerate(before):
        for place in places:
            after[place].append(at)
    order = [at for at, count in enumerate(left) if not count]
    for at in order:  # The list grows.
        for later in after[at]:
            left[later] -= 1
            if not left[later]:
                order.append(later)
    return order


def _work_s(row: _Row, before: list[_Row], notes: Notes) -> float:
    """Return the seconds from the start or, if later, from the end of the last task before, to the task's end."""
    since_s = max([row.submit_s, *(other.end_s for other in before)])
    notes["# tasks that began before those that they wait for had ended work from then on"] += (
        since_s > row.submit_s
    )
    if since_s < row.end_s:
        return row.end_s - since_s
    notes[f"assumed: # tasks that ended no later than those that they wait for work for {LEAST_S:g} s"] += 1
    return min(LEAST_S, row.end_s - row.submit_s)


def _packed(
    tasks: list[int], rows: list[_Row], end_s: Mapping[int, float], work_s: list[float], notes: Notes
) -> tuple[TraceTask, ...]:
    """Return the instances of tasks, of which those that wait follow others in the same map or reduce."""
    begins_s = [end_s[at] - work_s[at] for at in tasks]
    found = lanes(begins_s, [work_s[at] for at in tasks], [rows[at].count for at in tasks])
    notes["# maps and reduces do the work of tasks of several stages, one after the other"] += sum(
        lane.count for lane in found if len(lane.tasks) > 1
    )
    notes["# maps and reduces also wait in their slot"] += sum(
        lane.lasts_s > lane.work_s + 1e-9 for lane in found
    )
    made: list[TraceTask] = []
    for lane in found:
        cpu_s = sum(work_s[tasks[each]] * rows[tasks[each]].cores for each in lane.tasks)
        made += [_task(lane.lasts_s, cpu_s)] * lane.count
    return tuple(made)


def _task(lasts_s: float, cpu_s: float) -> TraceTask:
    return TraceTask(duration_s=lasts_s, work_s=lasts_s, cpu_s=cpu_s)


def _rows(path: Path, notes: Notes) -> Iterator[_Row]:
    read: Callable[[Mapping[str, str], str, Notes], _Row | None] | None = None
    names: tuple[str, ...] = BATCH_TASK
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        cells = csv_cells(line, where)
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


def _batch_task(cells: Mapping[str, str], where: str, notes: Notes) -> _Row | None:
    if cells["status"] != "Terminated":
        notes["# tasks that did not end well (status other than Terminated) are left out"] += 1
        return None
    start_s, end_s = _number(cells, "start_time", where), _number(cells, "end_time", where)
    if end_s == start_s > 0:
        notes[f"assumed: # tasks that ended within the second of their start ran for {LEAST_S:g} s"] += 1
        end_s += LEAST_S
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
    found = _NAME.match(name)
    number = None if found is None else int(found[1])
    waits = () if found is None else tuple(int(each) for each in found[2].split("_")[1:])
    end_s, cores = submit_s + duration_s, min(1.0, cores or 1.0)
    return _Row(job[:200], number, waits, submit_s, end_s, cores, int(count))


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

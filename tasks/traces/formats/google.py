"""Google's 2019 cluster traces as CSV: instance events with a header (time, type, collection_id, ...).

A collection becomes a job, its instances maps. One lasts from its last SCHEDULE event to the event that ends
it or, in samples without these, from `start_time` to `end_time`. Times are in microseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Priority
from schedbed.tasks.traces.text import csv_cells, first_line, lines
from schedbed.tasks.traces.trace import Trace, TraceFormat, TraceJob, TraceTask

KINDS = ("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
"""The names of events by number. Later numbers are updates, which are ignored."""
ENDS = ("EVICT", "FAIL", "FINISH", "KILL", "LOST")
AFTER_US = 2**63 - 1  # The time of events after the trace's window.
NEEDED = ("time", "collection_id", "instance_index")
TYPES = ("type", "instance_events_type")
INSTANCES_MAX = 20_000_000
_TIERS = ((100, Priority.VERY_LOW), (116, Priority.LOW), (120, Priority.NORMAL), (360, Priority.HIGH))
"""Upper bounds of Google's priorities: free, best-effort batch, mid, production; higher is monitoring."""
Cells = Mapping[str, str]


@dataclass(slots=True)
class _Instance:
    """The state of an instance according to the events read so far. Times are in microseconds."""

    submit_us: int | None = None
    schedule_us: int | None = None
    run_us: int | None = None  # Duration of the attempt that ended last.
    ended: str = ""
    began_us: int = AFTER_US  # The first SCHEDULE event.
    end_us: int = 0  # The last event that ended an attempt.
    lost: int = 0  # Number of attempts that were evicted, failed or lost.
    seen_us: tuple[int, int] | None = None  # Interval in which the usage was measured.


@dataclass(slots=True)
class _Collection:
    user: str | None
    priority: Priority
    name: str = ""
    before: set[str] = field(default_factory=set)  # Collections that this one is submitted after.
    instances: dict[str, _Instance] = field(default_factory=dict)


def read_google(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not an event."""
    notes: Counter[str] = Counter()
    collections: dict[str, _Collection] = {}
    machines: set[str] = set()
    names: list[str] = []
    count = 0
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = csv_cells(line, where)
        if not names:
            names = [name.strip() for name in row]
            _check_head(names, where)
            continue
        if len(row) != len(names):
            raise BadInput(f"{where}: {len(row)} columns, expected {len(names)} as in the head")
        cells = dict(zip(names, row, strict=True))
        if cells.get("collection_type", "0") in ("1", "ALLOC_SET"):
            notes["# events of alloc sets, which run nothing themselves, are left out"] += 1
            continue
        machines.add(cells.get("machine_id", ""))
        count += _take(collections, cells, where)
        if count > INSTANCES_MAX:
            raise BadInput(f"{path}: more than {INSTANCES_MAX} instances, expected a part of the trace")
    made = {name: job for name, each in collections.items() if (job := _job(name, each, notes)) is not None}
    jobs = [_linked(name, job, made, collections, notes) for name, job in made.items()]
    if not jobs:
        raise BadInput(
            f"{path}: no instance that ran in it, expected instance events of Google's 2019 traces"
        )
    jobs.sort(key=lambda job: job.submit_s)
    found = len(machines - {"", "0", "-1"})
    warnings = (
        "no bytes, CPU times, queues or locations in Google's instance events; requests are shares of a machine",
        f"{found} machines ran instances; their sizes are not in these events",
        *(what.replace("#", str(number)) for what, number in sorted(notes.items()) if number),
    )
    return Trace(format="google", jobs=tuple(jobs), warnings=warnings)


def _check_head(names: list[str], where: str) -> None:
    lacks = [name for name in NEEDED if name not in names]
    if lacks or not set(TYPES) & set(names):
        expected = ", ".join((*NEEDED, "type"))
        raise BadInput(f"{where}: no column {', '.join(lacks) or 'type'}, expected a head with {expected}")


def _take(collections: dict[str, _Collection], cells: Cells, where: str) -> int:
    """Process an event. Return 1 if it is its instance's first, otherwise 0."""
    name, index = cells["collection_id"], cells["instance_index"]
    if not name or not index:
        raise BadInput(f"{where}: no collection_id or no instance_index")
    known = collections.setdefault(
        name, _Collection(_user(cells), _priority(cells), cells.get("collection_name", ""))
    )
    for key in ("parent_collection_id", "start_after_collection_ids"):
        known.before.update(re.findall(r"\d+", cells.get(key, "")))
    fresh = index not in known.instances
    instance = known.instances.setdefault(index, _Instance())
    kind, time_us = _kind(cells, where), _time_us(cells, "time", where)
    if kind in ("SUBMIT", "QUEUE", "ENABLE"):
        instance.submit_us = time_us if instance.submit_us is None else min(instance.submit_us, time_us)
    elif kind == "SCHEDULE":
        instance.schedule_us = time_us
        instance.began_us = min(instance.began_us, time_us)
    elif kind in ENDS and time_us < AFTER_US:
        if instance.schedule_us is not None and time_us >= instance.schedule_us:
            instance.run_us, instance.schedule_us = time_us - instance.schedule_us, None
            instance.lost += kind in ("EVICT", "FAIL", "LOST")
        instance.ended, instance.end_us = kind, max(instance.end_us, time_us)
    if cells.get("start_time") and cells.get("end_time"):
        start_us, end_us = _time_us(cells, "start_time", where), _time_us(cells, "end_time", where)
        seen = instance.seen_us or (start_us, end_us)
        instance.seen_us = (min(seen[0], start_us), max(seen[1], end_us))
        instance.began_us, instance.end_us = min(instance.began_us, start_us), max(instance.end_us, end_us)
    return int(fresh)


def _job(name: str, job: _Collection, notes: Counter[str]) -> TraceJob | None:
    tasks: list[TraceTask] = []
    submits: list[float] = []
    for index in sorted(job.instances, key=lambda index: (len(index), index)):
        instance = job.instances[index]
        run_us = instance.run_us
        if not run_us and instance.seen_us is not None:
            run_us = instance.seen_us[1] - instance.seen_us[0]
            notes["assumed: # instances without both ends last as long as their usage was measured"] += (
                run_us > 0
            )
        if not run_us or run_us < 0:
            notes["# instances that did not start and end in the trace are left out"] += 1
            continue
        notes["# instances did not finish and are taken as if they had"] += instance.ended not in (
            "FINISH",
            "",
        )
        notes["# attempts were evicted, failed or lost; they cost nothing here"] += instance.lost
        submit_us = instance.submit_us
        if submit_us is None:
            submit_us = instance.seen_us[0] if instance.seen_us is not None else None
        if submit_us is not None:
            submits.append(submit_us / 1e6)
        duration_s = run_us / 1e6
        tasks.append(TraceTask(duration_s=duration_s, work_s=duration_s, failed_attempts=instance.lost))
    if not tasks:
        return None
    notes["assumed: # jobs without a submission submit at the start of the trace"] += not submits
    return TraceJob(
        name=(job.name or name)[:200],
        submit_s=min(submits, default=0.0),
        user=job.user,
        priority=job.priority,
        maps=tuple(tasks),
    )


def _linked(
    name: str,
    job: TraceJob,
    made: Mapping[str, TraceJob],
    collections: Mapping[str, _Collection],
    notes: Counter[str],
) -> TraceJob:
    """Return the job numbered, with the last of the jobs that it was to follow, if that had ended when it began."""
    numbers = {each: number for number, each in enumerate(made)}
    mine = collections[name]
    of = {each: collections[each].instances.values() for each in mine.before if each in made}
    ends = {each: max(instance.end_us for instance in instances) for each, instances in of.items()}
    began_us = min(each.began_us for each in mine.instances.values())
    last = max(ends, key=lambda each: (ends[each], each), default=None)
    follows = last is not None and 0 < ends[last] <= began_us
    notes["# jobs follow others that are not in the trace or had not ended; they wait for none"] += (
        bool(mine.before) and not follows
    )
    if last is None or not follows:
        return replace(job, number=numbers[name])
    think_s = max(0.0, job.submit_s - ends[last] / 1e6)
    return replace(job, number=numbers[name], after=numbers[last], think_s=think_s)


def _kind(cells: Cells, where: str) -> str:
    text = next(cells[name] for name in TYPES if name in cells)
    if text.isdecimal():
        return KINDS[int(text)] if int(text) < len(KINDS) else "UPDATE"
    if text.upper() not in KINDS and not text.upper().startswith("UPDATE"):
        raise BadInput(f"{where}: type: {text[:40]!r} is not an event such as 3 or SCHEDULE")
    return text.upper()


def _time_us(cells: Cells, key: str, where: str) -> int:
    try:
        value = int(float(cells[key])) if "." in cells[key] else int(cells[key])
    except (ValueError, OverflowError):
        value = -1
    if not 0 <= value <= AFTER_US:
        raise BadInput(f"{where}: {key}: {cells[key][:40]!r} is not a time in microseconds")
    return value


def _user(cells: Cells) -> str | None:
    return cells.get("user", "")[:200] or None


def _priority(cells: Cells) -> Priority:
    text = cells.get("priority", "")
    if not text.isdecimal():
        return Priority.NORMAL
    return next((tier for below, tier in _TIERS if int(text) < below), Priority.VERY_HIGH)


def _looks_like(start: str) -> bool:
    names = {name.strip() for name in first_line(start).split(",")}
    return set(NEEDED) <= names and bool(names & set(TYPES))


FORMAT = TraceFormat(read=read_google, looks_like=_looks_like)

"""Rumen's JSON traces of Hadoop: a sequence of job objects, plain or gzipped. Rumen's topology files can
be read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.rumen_notes import Notes
from schedbed.tasks.traces.text import is_amount
from schedbed.tasks.traces.trace import (
    Host,
    Topology,
    Trace,
    TraceFormat,
    TraceJob,
    TraceTask,
    fetched_bytes,
    priority_of,
    sharing,
)

_DEPTH_MAX = 50
_KEYS = re.compile(r'"(?:jobID|mapTasks|reduceTasks|submitTime|children)"\s*:')
_KEY = re.compile(r'"\s*:')


def read_rumen(path: Path) -> Trace:
    """Return a trace's jobs in order of submission, or a topology's hosts. Raises BadInput.

    A task costs what its successful attempt does. Failed ones are only counted.
    """
    notes, jobs = Notes(), []
    for number, raw in objects(path):
        where = f"{path}: object {number}"
        if "children" in raw and "jobID" not in raw:
            return Trace(format="rumen", topology=Topology(hosts=tuple(_leaves(raw, (), where))))
        job = _job(raw, where, notes)
        if job is not None:
            jobs.append(job)
    if not jobs:
        raise BadInput(
            f"{path}: no job with tasks in it, expected Rumen's job objects (jobID, mapTasks, ...)"
        )
    jobs.sort(key=lambda job: job.submit_s)
    return Trace(format="rumen", jobs=tuple(jobs), warnings=notes.warnings())


def _job(raw: Mapping[str, Any], where: str, notes: Notes) -> TraceJob | None:
    if not isinstance(raw.get("jobID"), str):
        raise BadInput(f"{where}: no jobID, expected an object of a Rumen trace")
    submit, finish = _amount(raw, "submitTime"), _amount(raw, "finishTime")
    if submit is None:
        raise BadInput(f"{where}: {raw['jobID']}: submitTime: {raw.get('submitTime')!r} is not a time in ms")
    mapped = _last_end(_list(raw, "mapTasks", where), where)
    reduces = tuple(_reduce(task, mapped, where, notes) for task in _list(raw, "reduceTasks", where))
    maps = tuple(_map(task, bool(reduces), where, notes) for task in _list(raw, "mapTasks", where))
    fetched = fetched_bytes(reduces)
    if fetched is not None:
        maps = sharing(maps, fetched)
    notes.job(raw, len(maps), len(reduces))
    notes.left_out(task.get("taskType") for task in _list(raw, "otherTasks", where))
    if not maps:
        return None
    return TraceJob(
        name=_text(raw, "jobName") or raw["jobID"][:200],
        submit_s=submit / 1000,
        user=_text(raw, "user"),
        queue=_text(raw, "queue"),
        priority=priority_of(raw.get("priority")),
        duration_s=None if finish is None or finish < submit else (finish - submit) / 1000,
        succeeded=raw.get("outcome") in ("SUCCESS", None),
        input_bytes=_total(task.input_bytes for task in maps),
        shuffle_bytes=_shuffle_bytes(maps, fetched) if reduces else 0,
        output_bytes=_total(task.output_bytes for task in reduces or maps),
        maps=maps,
        reduces=reduces,
    )


def _shuffle_bytes(maps: Sequence[TraceTask], fetched: int | None) -> int:
    return _total(task.output_bytes for task in maps) if fetched is None else fetched


def _map(raw: Mapping[str, Any], shuffled: bool, where: str, notes: Notes) -> TraceTask:
    attempt, failed = _attempts(raw, where)
    task = TraceTask(
        input_bytes=_first(raw, "inputBytes", attempt, ("hdfsBytesRead", "mapInputBytes")),
        output_bytes=_map_output(raw, attempt, shuffled),
        duration_s=_span(attempt, "startTime") or _span(raw, "startTime"),
        work_s=_span(attempt, "startTime") or _span(raw, "startTime"),
        cpu_s=_cpu_s(attempt),
        hosts=tuple(_hosts(raw, where)),
        failed_attempts=failed,
    )
    notes.task(task, "map", bool(attempt))
    return task


def _reduce(raw: Mapping[str, Any], mapped: int, where: str, notes: Notes) -> TraceTask:
    attempt, failed = _attempts(raw, where)
    duration_s = _span(attempt, "startTime") or _span(raw, "startTime")
    task = TraceTask(
        input_bytes=_first(raw, "inputBytes", attempt, ("reduceShuffleBytes",)),
        output_bytes=_first(raw, "outputBytes", attempt, ("hdfsBytesWritten",)),
        duration_s=duration_s,
        work_s=_span(attempt, "shuffleFinished") or duration_s,
        shuffle_s=_shuffle_s(attempt, mapped),
        cpu_s=_cpu_s(attempt),
        failed_attempts=failed,
    )
    notes.task(task, "reduce", bool(attempt))
    return task


def _last_end(maps: Sequence[Mapping[str, Any]], where: str) -> int:
    """Return when the last successful map attempt ended, in ms, or 0 if none did."""
    return max((_amount(_attempts(task, where)[0], "finishTime") or 0 for task in maps), default=0)


def _shuffle_s(attempt: Mapping[str, Any], mapped: int) -> float | None:
    """Return a reduce's shuffle seconds after the last map's end (`mapped`, in ms), None if unknown."""
    begin, end = _amount(attempt, "startTime"), _amount(attempt, "shuffleFinished")
    return None if not begin or not end else max(0, end - max(begin, mapped)) / 1000


def _attempts(raw: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], int]:
    """Return the first successful attempt or {}, and the number of failed ones."""
    good = [attempt for attempt in _list(raw, "attempts", where) if attempt.get("result") == "SUCCESS"]
    return (good[0] if good else {}), len(_list(raw, "attempts", where)) - len(good)


def _map_output(task: Mapping[str, Any], attempt: Mapping[str, Any], shuffled: bool) -> int | None:
    """Return a map's bytes for reduces or, unless `shuffled`, in its output file.

    A task's `outputBytes` in Rumen are written to local disks: with all spills, and in Hadoop 2 local files
    of maps without reduces, whose output is in HDFS.
    """
    if shuffled:
        return _first(task, "outputBytes", attempt, ("fileBytesWritten", "mapOutputBytes"))
    known = (_amount(attempt, "hdfsBytesWritten"), _amount(attempt, "mapOutputBytes"))
    return next((value for value in known if value is not None), _amount(task, "outputBytes"))


def _first(
    task: Mapping[str, Any], key: str, attempt: Mapping[str, Any], others: tuple[str, ...]
) -> int | None:
    found = [_amount(task, key), *(_amount(attempt, other) for other in others)]
    return next((value for value in found if value is not None), None)


def _span(raw: Mapping[str, Any], begin: str) -> float | None:
    start, finish = _amount(raw, begin), _amount(raw, "finishTime")
    return None if start is None or finish is None or finish < start else (finish - start) / 1000


def _cpu_s(attempt: Mapping[str, Any]) -> float | None:
    usages = attempt.get("cpuUsages")
    if not isinstance(usages, list):
        return None
    spent = sum(usage for usage in usages if is_amount(usage))
    return spent / 1000 or None


def _hosts(raw: Mapping[str, Any], where: str) -> Iterator[Host]:
    for location in _list(raw, "preferredLocations", where):
        layers = location.get("layers")
        if isinstance(layers, list) and len(layers) >= 2 and all(isinstance(layer, str) for layer in layers):
            yield layers[-2].replace("\\", ""), layers[-1].replace("\\", "")


def _leaves(raw: Mapping[str, Any], above: tuple[str, ...], where: str) -> Iterator[Host]:
    name = str(raw.get("name")).replace("\\", "")
    children = _list(raw, "children", where)
    if len(above) > _DEPTH_MAX:
        raise BadInput(f"{where}: a topology of more than {_DEPTH_MAX} levels")
    if not children and above:
        yield above[-1], name
    for child in children:
        yield from _leaves(child, (*above, name), where)


def _list(raw: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    value = raw.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadInput(f"{where}: {key} is not a list of objects")
    return value


def _amount(raw: Mapping[str, Any], key: str) -> int | None:
    """Return an amount, or None if missing or negative: Rumen writes -1 for unknown."""
    value: Any = raw.get(key)
    return round(value) if is_amount(value) else None


def _text(raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    return value[:200] if isinstance(value, str) and value.strip() else None


def _total(values: Iterator[int | None]) -> int:
    return sum(value or 0 for value in values)


def _looks_like(start: str) -> bool:
    """Return whether the text begins an object with a key of Rumen's jobs or topologies, or with no complete key."""
    return start.lstrip().startswith("{") and (_KEYS.search(start) is not None or _KEY.search(start) is None)


FORMAT = TraceFormat(read=read_rumen, looks_like=_looks_like, last_resort=True)

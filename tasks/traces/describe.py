"""Description of a trace as labeled lines: numbers of jobs and tasks, time spans, quantiles, and missing data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np

from schedbed.tasks.traces.trace import Trace, TraceJob, TraceTask
from schedbed.tasks.units import format_bytes, format_duration

Line = tuple[str, str]
"""A label and its value."""

_QUANTILES = (0, 25, 50, 75, 95, 100)
QUANTILE_HEADS = ("min", "25%", "median", "75%", "95%", "max")


def facts(trace: Trace) -> list[Line]:
    """Return facts about the trace as pairs of a label and a text, such as its number of jobs."""
    if trace.topology is not None:
        hosts, racks = len(trace.topology.hosts), len(trace.topology.racks)
        return [("format", f"{trace.format} topology"), ("hosts", f"{hosts}"), ("racks", f"{racks}")]
    jobs = trace.jobs
    lines = [
        ("format", trace.format),
        ("jobs", f"{len(jobs)} ({_map_only(jobs)} map-only)"),
        ("submitted over", format_duration(jobs[-1].submit_s - jobs[0].submit_s)),
        ("users", _names(job.user for job in jobs)),
        ("queues", _names(job.queue for job in jobs)),
        ("bytes", _bytes_in_all(jobs) if _has_bytes(jobs) else "not in the trace"),
    ]
    if paths := Counter(job.input_path for job in jobs if job.input_path is not None):
        lines.append(("input paths", _popularity(paths)))
    if deadlines := sum(job.deadline_s is not None for job in jobs):
        lines.append(("deadlines", f"{deadlines} jobs"))
    if any(job.maps for job in jobs):
        lines += _task_facts(trace)
    return lines


def quantiles(trace: Trace) -> list[tuple[str, list[str]]]:
    """Return a table of quantiles of jobs' and tasks' sizes and durations, for `QUANTILE_HEADS`."""
    jobs = trace.jobs
    maps = [task for job in jobs for task in job.maps]
    reduces = [task for job in jobs for task in job.reduces]
    gaps = [b.submit_s - a.submit_s for a, b in pairwise(jobs)]
    rows = [
        _row("between submits", gaps, format_duration),
        *_byte_rows(jobs),
        _row("job: duration", _known(job.duration_s for job in jobs), format_duration),
        _row("job: maps", [len(job.maps) for job in jobs if job.maps], _count),
        _row("job: reduces", [len(job.reduces) for job in jobs if job.maps], _count),
        *_task_rows("map", maps),
        *_task_rows("reduce", reduces),
    ]
    return [row for row in rows if row is not None]


def _has_bytes(jobs: Sequence[TraceJob]) -> bool:
    return any(job.input_bytes or job.shuffle_bytes or job.output_bytes for job in jobs)


def _byte_rows(jobs: Sequence[TraceJob]) -> list[tuple[str, list[str]] | None]:
    if not _has_bytes(jobs):
        return []
    return [
        _row("job: input", [job.input_bytes for job in jobs], format_bytes),
        _row("job: shuffle", [job.shuffle_bytes for job in jobs], format_bytes),
        _row("job: output", [job.output_bytes for job in jobs], format_bytes),
    ]


def _task_rows(kind: str, tasks: Sequence[TraceTask]) -> list[tuple[str, list[str]] | None]:
    return [
        _row(f"{kind}: duration", _known(task.duration_s for task in tasks), format_duration),
        _row(f"{kind}: CPU time", _known(task.cpu_s for task in tasks), format_duration),
        _row(f"{kind}: bytes in", _known(task.input_bytes for task in tasks), format_bytes),
        _row(f"{kind}: bytes out", _known(task.output_bytes for task in tasks), format_bytes),
    ]


def _task_facts(trace: Trace) -> list[Line]:
    maps = [task for job in trace.jobs for task in job.maps]
    reduces = [task for job in trace.jobs for task in job.reduces]
    failed = sum(task.failed_attempts for task in (*maps, *reduces))
    placed = sum(bool(task.hosts) for task in maps)
    racks = len({rack for rack, _ in trace.hosts})
    return [
        ("tasks", f"{len(maps)} maps, {len(reduces)} reduces"),
        ("failed attempts", f"{failed}"),
        ("locations", f"{placed} maps on {len(trace.hosts)} hosts in {racks} racks"),
    ]


def _row(label: str, values: Sequence[float], show: Callable[[float], str]) -> tuple[str, list[str]] | None:
    if not values:
        return None
    return label, [show(float(value)) for value in np.percentile(values, _QUANTILES)]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _count(value: float) -> str:
    return f"{value:.0f}"


def _map_only(jobs: Sequence[TraceJob]) -> int:
    return sum(not job.reduces if job.maps else job.shuffle_bytes == 0 for job in jobs)


def _popularity(paths: Counter[str]) -> str:
    path, readers = max(paths.items(), key=lambda item: item[1])
    shared = sum(count > 1 for count in paths.values())
    return f"{len(paths)} read by {paths.total()} jobs; {shared} by several, {path} by {readers}"


def _names(values: Iterable[str | None]) -> str:
    names = sorted({value for value in values if value is not None})
    if not names:
        return "not in the trace"
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"{len(names)} ({shown})"


def _bytes_in_all(jobs: Sequence[TraceJob]) -> str:
    sums = [
        sum(getattr(job, key) for job in jobs) for key in ("input_bytes", "shuffle_bytes", "output_bytes")
    ]
    return "{} input, {} shuffle, {} output".format(*map(format_bytes, sums))


# Checks for contradictions between the columns of a trace, to warn users before they rely on a column.

_TINY = 0.01  # CPU time below this share of the duration is suspicious.
_LONG_S = 60.0  # Shorter tasks are not checked for low CPU time.
_MANY = 0.2  # Up to this share of tasks, the message speaks of single tasks.
_ROUNDING = 1.05  # Tolerated factor above the possible maximum.


def contradictions(trace: Trace) -> tuple[str, ...]:
    """Return a line for each contradiction, such as CPU times that exceed durations."""
    return tuple(chain.from_iterable(check(trace.jobs) for check in _CHECKS))


def _cpu_times(jobs: Sequence[TraceJob]) -> Iterator[str]:
    known = [task for task in _tasks(jobs) if task.cpu_s is not None and task.duration_s]
    long = [task for task in known if (task.duration_s or 0.0) >= _LONG_S]
    tiny = [task for task in long if (task.cpu_s or 0.0) < _TINY * (task.duration_s or 0.0)]
    if tiny:
        worst = max(tiny, key=lambda task: (task.duration_s or 0.0) / max(task.cpu_s or 0.0, 1e-9))
        cpu, lasted = format_duration(worst.cpu_s or 0.0), format_duration(worst.duration_s or 0.0)
        spread = "the column is hardly CPU time" if len(tiny) > _MANY * len(long) else "single tasks"
        yield (
            f"contradiction: {len(tiny)} of {len(long)} tasks of a minute or more have a CPU time below 1% of their "
            f"duration (equal tasks of a job count once; {cpu} in {lasted}): {spread}"
        )
    if len(known) > 1 and len({task.cpu_s for task in known}) == 1:
        durations = {task.duration_s for task in known}
        if len(durations) > 1:
            same = format_duration(known[0].cpu_s or 0.0)
            yield f"contradiction: all {len(known)} tasks have a CPU time of {same}, with {len(durations)} durations"
    more = sum((task.cpu_s or 0.0) > _ROUNDING * (task.duration_s or 0.0) for task in known)
    if more:
        yield f"contradiction: {more} of {len(known)} tasks have more CPU time than duration, for one core each"


def _job_times(jobs: Sequence[TraceJob]) -> Iterator[str]:
    short = 0
    for job in jobs:
        longest = max(
            (task.duration_s or 0.0 for task in (*_some(job.maps), *_some(job.reduces))), default=0.0
        )
        short += job.duration_s is not None and longest > _ROUNDING * job.duration_s + 1.0
    if short:
        yield f"contradiction: {short} jobs are shorter than the longest of their own tasks"


def _tasks(jobs: Sequence[TraceJob]) -> Iterator[TraceTask]:
    for job in jobs:
        yield from _some(job.maps)
        yield from _some(job.reduces)


def _some(tasks: Sequence[TraceTask]) -> Sequence[TraceTask]:
    """Return each task object once: equal tasks are often one, repeated millions of times."""
    return list({id(task): task for task in tasks}.values()) if len(tasks) > 1 else tasks


_CHECKS: tuple[Callable[[Sequence[TraceJob]], Iterator[str]], ...] = (_cpu_times, _job_times)

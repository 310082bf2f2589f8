"""Checks for contradictions between the columns of a trace, to warn users before they rely on a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from schedbed.tasks.traces.trace import Trace, TraceJob, TraceTask
from schedbed.tasks.units import format_duration

_TINY = 0.01  # CPU time below this share of the duration is suspicious.
_LONG_S = 60.0  # Shorter tasks are not checked for low CPU time.
_MANY = 0.2  # Up to this share of tasks, the message speaks of single tasks.
_ROUNDING = 1.05  # Tolerated factor above the possible maximum.


def contradictions(trace: Trace) -> tuple[str, ...]:
    """Return one line for each contradiction between columns, such as CPU times that exceed durations."""
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
    """Return the tasks, with each task object only once.

    Equal tasks are often one object that is repeated millions of times.
    """
    return list({id(task): task for task in tasks}.values()) if len(tasks) > 1 else tasks


_CHECKS: tuple[Callable[[Sequence[TraceJob]], Iterator[str]], ...] = (_cpu_times, _job_times)

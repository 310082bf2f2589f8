"""Random workloads: arrival times, sizes, popular inputs, deadlines and traces, determined by the arguments."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost
from schedbed.tasks.traces.trace import Trace, TraceJob
from schedbed.tasks.workloads.from_trace import SyntheticJob


def poisson_arrivals(count: int, mean_gap_s: float, seed: int) -> list[float]:
    """Return increasing arrival times with exponential gaps, also before the first."""
    _above_zero(mean_gap_s=mean_gap_s)
    coin, now_s, times_s = chance(seed, "poisson arrivals"), 0.0, []
    for _ in range(count):
        now_s += coin.expovariate(1 / mean_gap_s)
        times_s.append(now_s)
    return times_s


def threshold_arrivals(jobs: Sequence[tuple[float, float]], threshold: float) -> list[float]:
    """Return submission times of (load, duration in s) jobs, such that running loads sum to at most
    `threshold`.

    Each is submitted in order, as soon as the sum permits; one above the threshold when no other runs. In
    verma2011 (section 7.2), a load is the share of slots that the job needs to meet its deadline.
    """
    _above_zero(threshold=threshold)
    now_s, load, running, times_s = 0.0, 0.0, [], []
    for number, (wanted, lasts_s) in enumerate(jobs):
        while running and load + wanted > threshold * (1 + 1e-9):
            now_s, _, freed = heapq.heappop(running)
            load = load - freed if running else 0.0
        times_s.append(now_s)
        heapq.heappush(running, (now_s + lasts_s, number, wanted))
        load += wanted
    return times_s


def heavy_tailed(count: int, shape: float, least: float, most: float, seed: int) -> list[float]:
    """Return sizes from a bounded Pareto distribution: the share above x falls as x^-shape (about 1 for jobs)."""
    _above_zero(shape=shape, least=least)
    if most < least:
        raise BadInput(f"heavy-tailed sizes from {least:g} to {most:g}: expected a range")
    coin, cut = chance(seed, "heavy-tailed sizes"), (least / most) ** shape
    return [least * (1 - coin.random() * (1 - cut)) ** (-1 / shape) for _ in range(count)]


def popular_inputs(count: int, files: int, exponent: float, seed: int) -> list[int]:
    """Return the file of each job by Zipf's law: rank r in proportion to r^-exponent; ranks are random."""
    if files < 1 or exponent < 0:
        raise BadInput(
            f"popularity of {files} files with exponent {exponent:g}: expected 1 file and 0 or more"
        )
    coin, ranked = chance(seed, "popular inputs"), list(range(files))
    coin.shuffle(ranked)
    return coin.choices(ranked, [(rank + 1) ** -exponent for rank in range(files)], k=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A random workload. `shuffle` and `output` are bytes per byte of input."""

    jobs: int
    mean_gap_s: float
    least_bytes: int = 64 * 2**20
    most_bytes: int = 64 * 2**30
    shape: float = 1.0
    shuffle: float = 0.5  # Shuffled bytes per byte read; 0 for map-only jobs.
    output: float = 0.5
    users: int = 5
    seed: int = 0


def drawn_trace(wanted: Drawn) -> Trace:
    """Return a random trace with only each job's total bytes (see `from_trace.synthesize`)."""
    if wanted.jobs < 1 or wanted.users < 1 or min(wanted.shuffle, wanted.output) < 0:
        raise BadInput(f"cannot draw {wanted}: expected 1 or more jobs and users, and shares of 0 or more")
    times_s = poisson_arrivals(wanted.jobs, wanted.mean_gap_s, wanted.seed)
    sizes = heavy_tailed(wanted.jobs, wanted.shape, wanted.least_bytes, wanted.most_bytes, wanted.seed)
    jobs = [
        TraceJob(
            name=f"drawn_{number:06d}",
            submit_s=submit_s,
            user=f"u{chance(wanted.seed, 'drawn user', number).randrange(wanted.users) + 1}",
            input_bytes=round(size),
            shuffle_bytes=round(size * wanted.shuffle),
            output_bytes=round(size * wanted.output),
        )
        for number, (submit_s, size) in enumerate(zip(times_s, sizes, strict=True))
    ]
    return Trace(format="drawn", jobs=tuple(jobs))


def isolated_s(job: SyntheticJob, map_slots: int, reduce_slots: int, io_rate: float) -> float:
    """Return a job's approximate duration alone: the mean of the makespan's bounds (verma2011, section 2.1)."""
    _above_zero(map_slots=map_slots, reduce_slots=reduce_slots, io_rate=io_rate)
    maps, reduces = task_seconds(job, io_rate)
    return _stage_s(maps, map_slots) + _stage_s(reduces, reduce_slots)


def task_seconds(job: SyntheticJob, io_rate: float) -> tuple[list[float], list[float]]:
    """Return maps' and reduces' seconds: recorded, or CPU time plus all bytes at `io_rate` bytes/s."""
    fetched = sum(cost.write_bytes for cost in job.maps) / max(1, len(job.reduces)) if job.reduces else 0.0
    maps = [_task_s(cost, cost.read_bytes, io_rate) for cost in job.maps]
    return maps, [_task_s(cost, fetched, io_rate) for cost in job.reduces]


def with_deadlines(
    jobs: Sequence[SyntheticJob],
    alone_s: Sequence[float],
    seed: int,
    least: float = 1.0,
    most: float = 3.0,
) -> list[SyntheticJob]:
    """Return jobs with deadlines: the duration alone times a uniform factor, [1, 3] as in verma2011."""
    if not 0 < least <= most:
        raise BadInput(f"deadline factors from {least:g} to {most:g}: expected a range above 0")
    factors = [chance(seed, "deadline", number).uniform(least, most) for number in range(len(jobs))]
    rows = zip(jobs, alone_s, factors, strict=True)
    return [replace(job, deadline_s=time_s * factor) for job, time_s, factor in rows]


def _stage_s(tasks_s: Sequence[float], slots: int) -> float:
    if not tasks_s:
        return 0.0
    total, slots = sum(tasks_s), min(slots, len(tasks_s))  # A job cannot use more slots than it has tasks.
    lower, upper = total / slots, (total - total / len(tasks_s)) / slots + max(tasks_s)
    return (lower + upper) / 2


def _task_s(cost: Cost, read_bytes: float, io_rate: float) -> float:
    moved_s = (read_bytes + cost.write_bytes) / io_rate
    return (cost.cpu_s + moved_s) if cost.duration_s is None else cost.duration_s


def _above_zero(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise BadInput(f"{name}: {value:g} is not possible, expected above 0")

"""Conversion of a trace to synthetic jobs: selection of jobs, shrinking to a smaller cluster, and
assumptions.

A SWIM job, of which only bytes are known, becomes one map per block of input (a map-only job one per block of
output, if there are more) and one reduce per `reduce_bytes` of shuffle or output, whichever is larger. Each
task has 1 s of CPU time plus its bytes divided by `cpu_rate`. A Rumen task keeps its CPU time or else has its
working time minus its bytes divided by `io_rate`, but at least a tenth of the working time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeVar

from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Cost, Priority, are_one, made_once, value
from schedbed.tasks.traces.trace import Host, Trace, TraceJob, TraceTask
from schedbed.tasks.units import format_bytes

T = TypeVar("T")
_Tasks = tuple[tuple[Cost, ...], tuple[Cost, ...], tuple[tuple[Host, ...], ...]]

_START_S = 1.0  # Base CPU time of each SWIM task.
_WORK_SHARE_MIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """The assumptions of a conversion, in sizes and rates of the traced cluster before scaling.

    `share` of each job's tasks is kept (emulated nodes / traced nodes), with unchanged bytes. Jobs get one of
    `users` users at random; 0 means those of the trace, or five if it has none.
    """

    block_bytes: int = 64 * 2**20
    cpu_rate: float = 6.4 * 2**20  # Bytes/s that one emulated core processes.
    io_rate: float = 50e6  # In bytes/s.
    reduce_bytes: int = 2**30
    limit_bytes: int | None = None  # Most bytes that a job reads, shuffles or writes.
    share: float = 1.0
    users: int = 0
    seed: int = 0

    @property
    def user_count(self) -> int:
        """Return the number of users who share the jobs without one."""
        return self.users or 5


@value
class SyntheticJob:
    """A trace's job with costs. `hosts` are those that held each map's input."""

    _: KW_ONLY
    name: str
    user: str
    queue: str
    priority: Priority
    submit_s: float
    deadline_s: float | None = None  # Relative to the submission.
    maps: tuple[Cost, ...]
    reduces: tuple[Cost, ...]
    hosts: tuple[tuple[Host, ...], ...] = ()
    input_path: str | None = None  # Jobs with the same path read the same file.
    requested_s: float | None = None  # Run time that the user requested.
    number: int | None = None
    after: int | None = None  # Number of the job whose end comes before the submission.
    think_s: float = 0.0
    uber: bool = False


def select(
    jobs: Sequence[TraceJob], count: int | None, from_s: float, until_s: float | None
) -> list[TraceJob]:
    """Return the first `count` jobs of [from_s, until_s), with times from `from_s` or, if 0, the first one.

    The bounds are times in the trace or, if it has times of day, seconds since its first job.
    """
    if not jobs:
        return []
    start_s = jobs[0].submit_s if jobs[0].submit_s > 1e8 else 0.0
    times_s = (job.submit_s - start_s for job in jobs)
    inside = [
        (job, time_s)
        for job, time_s in zip(jobs, times_s, strict=True)
        if time_s >= from_s and (until_s is None or time_s < until_s)
    ]
    zero_s = from_s if from_s > 0 or not inside else inside[0][1]
    return [_submitted(job, time_s - zero_s) for job, time_s in inside[:count]]


def _submitted(job: TraceJob, submit_s: float) -> TraceJob:
    return job if job.submit_s == submit_s else replace(job, submit_s=submit_s)


def synthesize(
    trace: Trace, jobs: Sequence[TraceJob], assume: Assume
) -> tuple[list[SyntheticJob], list[str]]:
    """Return synthetic jobs, and a line for each assumption."""
    made = list(synthetic_jobs(jobs, assume))
    tasks = sum(len(job.maps) + len(job.reduces) for job in made)
    return made, [*trace.warnings, *assumed(jobs, tasks, assume)]


def synthetic_jobs(jobs: Iterable[TraceJob], assume: Assume) -> Iterator[SyntheticJob]:
    """Yield synthetic jobs one at a time. Jobs without recorded tasks share costs for equal bytes."""
    supposed: dict[tuple[int, int, int], _Tasks] = {}
    for number, job in enumerate(jobs):
        key = (job.input_bytes, job.shuffle_bytes, job.output_bytes)
        tasks = None if job.maps else supposed.get(key)
        if tasks is None:
            tasks = _tasks(job, assume)
            if not job.maps:
                supposed[key] = tasks
        yield _job(job, _user(number, job, assume), tasks)


def _job(job: TraceJob, user: str, tasks: _Tasks) -> SyntheticJob:
    maps, reduces, hosts = tasks
    return SyntheticJob(
        name=job.name,
        user=user,
        queue=job.queue or "default",
        priority=job.priority,
        submit_s=job.submit_s,
        deadline_s=job.deadline_s,
        maps=maps,
        reduces=reduces,
        hosts=hosts,
        input_path=job.input_path,
        requested_s=job.requested_s,
        number=job.number,
        after=job.after,
        think_s=job.think_s,
        uber=job.uber,
    )


def _tasks(job: TraceJob, assume: Assume) -> _Tasks:
    """Return the costs of a job's maps and of its reduces, and the hosts of its maps, after shrinking."""
    maps, reduces = _recorded(job, assume) if job.maps else _supposed(job, assume)
    share = min(assume.share, _limit_share(job, assume))
    map_places, reduce_places = _kept(len(maps), share), _kept(len(reduces), share)
    return (
        _limited(_chosen(maps, map_places), assume),
        _limited(_shrunk(reduces, reduce_places, len(map_places) / len(maps)), assume),
        tuple([task.hosts for task in _chosen(job.maps, map_places)]) if job.maps else (),
    )


def _supposed(job: TraceJob, assume: Assume) -> tuple[list[Cost], list[Cost]]:
    """Return assumed costs of the maps and reduces of a job for which the trace has only totals of bytes."""
    map_only = job.shuffle_bytes == 0
    written = job.output_bytes if map_only else job.shuffle_bytes
    per_map = assume.block_bytes if map_only else assume.reduce_bytes
    maps = max(1, -(-job.input_bytes // assume.block_bytes), -(-written // per_map))
    reduced = max(job.shuffle_bytes, job.output_bytes)
    reduces = 0 if map_only else max(1, -(-reduced // assume.reduce_bytes))
    return (
        [_cost(job.input_bytes / maps, written / maps, assume)] * maps,
        [_reduce_cost(job.shuffle_bytes / reduces, job.output_bytes / reduces, assume)] * reduces
        if reduces
        else [],
    )


def _cost(read: float, written: float, assume: Assume) -> Cost:
    cpu_s = _START_S + max(read, written) / assume.cpu_rate
    return Cost(cpu_s=cpu_s, read_bytes=round(read), write_bytes=round(written))


def _reduce_cost(read: float, written: float, assume: Assume) -> Cost:
    return replace(_cost(read, written, assume), read_bytes=0)  # Reduces fetch exactly the maps' output.


def _recorded(job: TraceJob, assume: Assume) -> tuple[list[Cost], list[Cost]]:
    """Return the costs of recorded maps and reduces, unknown ones at the mean of the job's others.

    If hosts of inputs but no sizes are known, each map with hosts reads one block.
    """
    read = [task.input_bytes for task in job.maps]
    if _only_hosts(job):
        read = [assume.block_bytes if task.hosts else 0 for task in job.maps]
    maps = _costs(job.maps, read, assume)
    fetched = [task.input_bytes for task in job.reduces]
    reduces = [replace(cost, read_bytes=0) for cost in _costs(job.reduces, fetched, assume)]
    return maps, reduces


def _costs_nothing(tasks: Sequence[TraceTask]) -> bool:
    """Return whether nothing is known from which the costs of a job's maps or reduces could follow."""
    return not any(
        task.cpu_s or task.work_s or task.input_bytes or task.output_bytes or task.hosts for task in tasks
    )


def _only_hosts(job: TraceJob) -> bool:
    """Return whether hosts of the input are known, but not its size."""
    return any(task.hosts for task in job.maps) and all(task.input_bytes is None for task in job.maps)


def _costs(tasks: Sequence[TraceTask], known: Sequence[int | None], assume: Assume) -> list[Cost]:
    if not tasks:
        return []
    if len(tasks) > 1 and are_one(tasks):
        return _costs(tasks[:1], known[:1], assume) * len(tasks)
    read = _filled(known)
    written = _filled([task.output_bytes for task in tasks])
    cpu_s = _filled(
        [
            _cpu_s(task, moved, assume)
            for task, moved in zip(tasks, map(sum, zip(read, written, strict=True)), strict=True)
        ]
    )
    made: dict[
        tuple[float, float, float, float | None, float | None], Cost
    ] = {}  # Equal tasks share one object, since there may be millions.
    costs = []
    shuffles = [task.shuffle_s for task in tasks]
    for row in zip(cpu_s, read, written, _durations(tasks), shuffles, strict=True):
        cost = made.get(row)
        if cost is None:
            cpu, r, w, lasted, shuffle_s = row
            cost = Cost(
                cpu_s=cpu, read_bytes=round(r), write_bytes=round(w), duration_s=lasted, shuffle_s=shuffle_s
            )
            made[row] = cost
        costs.append(cost)
    return costs


def _durations(tasks: Sequence[TraceTask]) -> Sequence[float | None]:
    """Return each task's seconds of work, unknown ones at the mean; all None if none is known."""
    known = [task.work_s for task in tasks]
    return _filled(known) if any(value is not None for value in known) else known


def _filled(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in values]


def _cpu_s(task: TraceTask, moved_bytes: float, assume: Assume) -> float | None:
    if task.cpu_s is not None or task.work_s is None:
        return task.cpu_s
    return max(task.work_s - moved_bytes / assume.io_rate, _WORK_SHARE_MIN * task.work_s)


def _kept(count: int, share: float) -> Sequence[int]:
    """Return the indices of a share of the tasks, evenly spread, at least one, repeated if above 1."""
    if not count:
        return ()
    kept = max(1, round(count * share))
    if kept == count:
        return range(count)
    return [place * count // kept for place in range(kept)]


def _chosen(tasks: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    return tasks if places == range(len(tasks)) else [tasks[place] for place in places]


def _shrunk(reduces: Sequence[Cost], places: Sequence[int], maps_share: float) -> Sequence[Cost]:
    """Return the costs of the reduces `places`, smaller if more of them are kept than of the maps."""
    if not places:
        return []
    factor = min(1.0, maps_share * len(reduces) / len(places))
    kept = _chosen(reduces, places)
    if factor == 1.0:
        return kept
    return made_once(lambda cost: _times(cost, factor, cost.read_bytes), kept)


def _times(cost: Cost, factor: float, read_bytes: int) -> Cost:
    return Cost(
        cpu_s=cost.cpu_s * factor,
        read_bytes=read_bytes,
        write_bytes=round(cost.write_bytes * factor),
        duration_s=None if cost.duration_s is None else cost.duration_s * factor,
        shuffle_s=cost.shuffle_s,
    )


def _limit_share(job: TraceJob, assume: Assume) -> float:
    most = max(job.input_bytes, job.shuffle_bytes, job.output_bytes)
    return 1.0 if assume.limit_bytes is None or most <= assume.limit_bytes else assume.limit_bytes / most


def _limited(costs: Sequence[Cost], assume: Assume) -> tuple[Cost, ...]:
    """Return the costs of tasks, scaled down if all tasks read or write more than `assume.limit_bytes` in total."""
    limit = assume.limit_bytes
    if limit is None:
        return tuple(costs)
    most = max(sum(c.read_bytes for c in costs), sum(c.write_bytes for c in costs), 1)
    if most <= limit:
        return tuple(costs)
    factor = limit / most
    return made_once(lambda cost: _times(cost, factor, int(cost.read_bytes * factor)), costs)


def _user(number: int, job: TraceJob, assume: Assume) -> str:
    if job.user is not None and not assume.users:
        return job.user
    return f"u{chance(assume.seed, 'trace user', number).randrange(assume.user_count) + 1}"


def assumed(jobs: Sequence[TraceJob], tasks: int, assume: Assume) -> list[str]:
    """Return a line for each assumption or reduction."""
    lines = []
    if assume.users or any(job.user is None for job in jobs):
        lines.append(f"assumed: jobs without a user (or all) dealt at random to {assume.user_count} users")
    if any(not job.maps for job in jobs):
        lines.append(
            f"assumed: a map a block of {format_bytes(assume.block_bytes)}, a reduce for each "
            f"{format_bytes(assume.reduce_bytes)} of shuffle or output, {_START_S:g} s of CPU a task and 1 s more for "
            f"each {format_bytes(assume.cpu_rate)}"
        )
    if count := sum(_only_hosts(job) for job in jobs):
        lines.append(
            f"assumed: {format_bytes(assume.block_bytes)} read by each map with hosts, in {count} jobs without bytes"
        )
    if count := sum(len(tasks) for job in jobs for tasks in (job.maps, job.reduces) if _costs_nothing(tasks)):
        lines.append(
            f"assumed: {count} tasks take only the time of a launch: no duration, CPU time or bytes are known"
        )
    numbers = {job.number for job in jobs}
    if count := sum(job.after in numbers for job in jobs if job.after is not None):
        lines.append(f"{count} jobs are submitted after the end of another job, as the trace says")
    if count := sum(job.after not in numbers for job in jobs if job.after is not None):
        lines.append(f"assumed: {count} jobs that wait for jobs not selected are submitted as recorded")
    cut = sum(_limit_share(job, assume) < 1 for job in jobs)
    if cut:
        lines.append(f"cut: {cut} jobs to at most {format_bytes(assume.limit_bytes or 0)} (limit_bytes)")
    if assume.share != 1:
        lines.append(f"cut: {assume.share:.3g} of each job's tasks kept, at least 1: {tasks} tasks in all")
    return lines

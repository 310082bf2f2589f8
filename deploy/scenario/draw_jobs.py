"""Planning of the jobs of `workload: {generate: ...}`, which are drawn at random from the scenario's seed.

Sizes are drawn first and then multiplied by the scenario's factor `scale`. The work of a task is computed
from its bytes, as for a trace that has only the total sizes of jobs (`tasks.workloads.from_trace`). The keys
block, cpu_rate, reduce_bytes and limit_bytes of `workload` set the factors of this computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedbed.deploy.scenario.draw_models import Generated
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import TASKS_MAX, check_fits
from schedbed.deploy.scenario.trace_jobs import Planned, SyntheticPlanner, assumptions
from schedbed.scheduler.models.aria_bounds import allocate, curve
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.trace import Trace, TraceJob
from schedbed.tasks.workloads.drawn import (
    Drawn,
    drawn_trace,
    heavy_tailed,
    isolated_s,
    poisson_arrivals,
    popular_inputs,
    task_seconds,
    threshold_arrivals,
    with_deadlines,
)
from schedbed.tasks.workloads.from_trace import SyntheticJob, synthesize
from schedbed.tasks.workloads.planned import PlannedJob


def plan_generated(asked: Generated, inputs: JobInputs) -> Planned:
    """Return the randomly drawn jobs in order of submission, and sentences about the assumptions made.

    `asked` is the scenario's key `workload.generate`. After an error, which is added to `inputs.complaints`,
    both results are empty.
    """
    workload = inputs.scenario.workload
    assert workload is not None
    seed = inputs.scenario.seed if asked.seed is None else asked.seed
    try:
        trace, files = _drawn(asked, seed)
        made, warnings = synthesize(trace, trace.jobs, assumptions(workload, inputs))
        made = _timed(made, asked, seed, inputs)
    except BadInput as error:
        inputs.complaints.add(("workload", "generate"), str(error))
        return (), ()
    if sum(len(job.maps) + len(job.reduces) for job in made) > TASKS_MAX:
        inputs.complaints.add(("workload", "generate"), f"more than {TASKS_MAX:,} tasks, ask for less")
        return (), ()
    paths: dict[int, str | None] = {}
    planner, planned = SyntheticPlanner(inputs), list[PlannedJob]()
    for number, (job, file) in enumerate(zip(made, files, strict=True), start=1):
        planned.append(planner.plan(f"job_{number:04d}", job, shared=paths.get(file)))
        paths.setdefault(file, planned[-1].input)
    check_fits(planned[0], ("workload", "generate"), inputs)
    return tuple(planned), tuple(warnings)


def _drawn(asked: Generated, seed: int) -> tuple[Trace, Sequence[int]]:
    """Draw jobs at random. Return a trace of the jobs, and the number of the input file of each job.

    The trace has the total bytes of each job, not those of single tasks. Submit times that depend on the
    cluster's load are placeholders, which `_timed` replaces later.
    """
    trace = drawn_trace(
        Drawn(
            jobs=asked.jobs,
            mean_gap_s=_gap_s(asked),
            least_bytes=asked.input.least,
            most_bytes=asked.input.most,
            shape=asked.input.shape,
            shuffle=asked.shuffle,
            output=asked.output,
            users=asked.users,
            seed=seed,
        )
    )
    if asked.files is None:
        return trace, range(asked.jobs)
    tail, count = asked.input, asked.files.count
    sizes = heavy_tailed(count, tail.shape, tail.least, tail.most, seed)
    files = popular_inputs(asked.jobs, count, asked.files.exponent, seed)
    jobs = tuple(_reading(job, sizes[file], asked) for job, file in zip(trace.jobs, files, strict=True))
    return replace(trace, jobs=jobs), files


def _gap_s(asked: Generated) -> float:
    """Return the mean time in s between submissions, or 1 s if `_timed` will replace the submit times."""
    poisson = None if asked.arrivals is None else asked.arrivals.poisson
    return 1.0 if poisson is None else poisson


def _reading(job: TraceJob, size: float, asked: Generated) -> TraceJob:
    return replace(
        job,
        input_bytes=round(size),
        shuffle_bytes=round(size * asked.shuffle),
        output_bytes=round(size * asked.output),
    )


def _timed(
    jobs: Sequence[SyntheticJob], asked: Generated, seed: int, inputs: JobInputs
) -> Sequence[SyntheticJob]:
    """Return the jobs with deadlines and with submit times that depend on the cluster's load.

    Deadlines and such submit times are set only if `asked`, the key `workload.generate`, requests them.
    `seed` is the seed of the random draws.
    """
    nodes = inputs.cluster.nodes
    slots = (max(1, sum(n.map_slots for n in nodes)), max(1, sum(n.reduce_slots for n in nodes)))
    io_rate = min(node.disk_bps for node in nodes)
    alone_s = [isolated_s(job, *slots, io_rate) for job in jobs]
    if asked.deadline is not None:
        jobs = with_deadlines(jobs, alone_s, seed, asked.deadline.least, asked.deadline.most)
    if asked.load is not None:
        gap_s = _gap_of_load(jobs, asked.load, slots, io_rate)
        return _submitted(jobs, poisson_arrivals(len(jobs), gap_s, seed))
    if asked.arrivals is None or asked.arrivals.threshold is None:
        return jobs
    lasts_s = [
        time_s if job.deadline_s is None else job.deadline_s
        for job, time_s in zip(jobs, alone_s, strict=True)
    ]
    loads = [_load(job, time_s, slots, io_rate) for job, time_s in zip(jobs, lasts_s, strict=True)]
    times_s = threshold_arrivals(list(zip(loads, lasts_s, strict=True)), asked.arrivals.threshold)
    return _submitted(jobs, times_s)


def _submitted(jobs: Sequence[SyntheticJob], times_s: Sequence[float]) -> Sequence[SyntheticJob]:
    return [replace(job, submit_s=submit_s) for job, submit_s in zip(jobs, times_s, strict=True)]


def _gap_of_load(jobs: Sequence[SyntheticJob], load: float, slots: tuple[int, int], io_rate: float) -> float:
    """Return the mean time in s between submissions at which jobs keep the share `load` of the slots busy.

    Map slots and reduce slots are considered separately, and the larger of the two times is returned.
    `slots` are the cluster's numbers of both, and `io_rate` is a disk rate in bytes per second.
    """
    seconds = [0.0, 0.0]
    for job in jobs:
        for kind, lasts_s in enumerate(task_seconds(job, io_rate)):
            seconds[kind] += sum(lasts_s)
    return max(total / len(jobs) / count for total, count in zip(seconds, slots, strict=True)) / load


def _load(job: SyntheticJob, time_s: float, slots: tuple[int, int], io_rate: float) -> float:
    """Return the least share of the cluster's slots with which the job completes in `time_s` seconds.

    The share is computed with the performance model of ARIA, a policy that gives jobs the slots that they
    need to meet deadlines, as in section 7.2 of the paper verma2011. `slots` are the cluster's numbers of map
    slots and reduce slots, and `io_rate` is a disk rate in bytes/s.
    """
    maps, reduces = (
        Times(sum(each) / len(each), max(each)) if each else Times() for each in task_seconds(job, io_rate)
    )
    model = curve(JobProfile(map=maps, reduce=reduces), len(job.maps), len(job.reduces))
    least = allocate(model, time_s, min(slots[0], len(job.maps)), min(slots[1], len(job.reduces)))
    return (least.maps + least.reduces) / sum(slots)

"""The scheduler core's handling of jobs and their stages (compiled).

Mirrors the module `job_lifecycle` of `scheduler.core`. Unlike in that module, no job fails.
"""

from __future__ import annotations

from math import inf

from schedbed.scheduler.simulate.compiled import attempt_steps
from schedbed.scheduler.simulate.compiled.asking.questions import SUBMITTED, tell
from schedbed.scheduler.simulate.compiled.heaps import push_event
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.offers import job_orders, queue_orders
from schedbed.scheduler.simulate.compiled.state import DUE_EVENT, JOB_OVER, State


@twin_of("schedbed.scheduler.core.core_tables:CoreTables._changed")
@compiled
def stage_changed(state: State, stage: int) -> None:
    """Record whether a stage (the maps or the reduces of a job) has tasks that may start now.

    The stage is also marked, so that the policy's order of jobs is updated before the next decision. Mirrors
    `CoreTables._changed`.
    """
    entry = state.stages[stage]
    ready = entry.unstarted > 0 and entry.open > 0
    if ready != (entry.ready > 0):
        entry.ready = 1 if ready else 0
        state.num.ready[stage & 1] += 1 if ready else -1
    job_orders.touch(state, stage)


@twin_of("schedbed.scheduler.core.job_lifecycle:JobTables._open_reduces")
@compiled
def open_reduces(state: State, job: int) -> None:
    """Let the job's reduces start if enough of its maps are done. Mirrors `JobTables._open_reduces`."""
    reduces, maps = state.stages[2 * job + 1], state.stages[2 * job]
    if reduces.total > 0:
        opened = maps.done >= state.sec.slowstart * maps.total
        if opened != (reduces.open > 0):
            reduces.open = 1 if opened else 0
            stage_changed(state, 2 * job + 1)


@twin_of(
    "schedbed.scheduler.core.job_lifecycle:JobTables._end_if_done",
    "schedbed.scheduler.core.job_lifecycle:JobTables.end_job",
)
@compiled
def end_if_done(state: State, job: int) -> None:
    """End the job if all its reduces are done or, for a job without reduces, all its maps.

    Mirrors `JobTables._end_if_done` with `end_job`.
    """
    last = 2 * job + 1 if state.jobs[job].reduces > 0 else 2 * job
    if state.stages[last].done < state.stages[last].total:
        return
    state.jobs[job].ended = 1
    state.jobs[job].finish = state.sec.now
    state.num.active_jobs -= 1
    stage_changed(state, 2 * job)
    stage_changed(state, 2 * job + 1)
    state.job_rows[state.num.n_jobs] = job
    state.num.n_jobs += 1
    if state.num.is_capacity:
        queue_orders.finished(state, job)
    if state.jobs[job].wrote:
        attempt_steps.note_file(state, state.sec.now, job, JOB_OVER)


@twin_of(
    "schedbed.scheduler.simulate.simulation:Simulation.submit_due",
    "schedbed.scheduler.core.job_lifecycle:JobTables.add_job",
)
@compiled
def submit_due(state: State, now_s: float) -> None:
    """Submit the jobs whose submission time is `now_s` or earlier, and schedule the next submission.

    Mirrors `Simulation.submit_due` with `JobTables.add_job`.
    """
    num = state.num
    while num.next_job < num.jobs and state.jobs[num.next_job].submit <= now_s:
        job = num.next_job
        num.next_job += 1
        num.active_jobs += 1
        tell(state, SUBMITTED, job)
        for stage in (2 * job, 2 * job + 1):
            state.stages[stage].unstarted = state.stages[stage].total
        if num.is_capacity:
            queue_orders.submitted(state, job)
        open_reduces(state, job)
        stage_changed(state, 2 * job)
        stage_changed(state, 2 * job + 1)
        end_if_done(state, job)
    state.sec.due = inf
    if num.next_job < num.jobs:
        state.sec.due = state.jobs[num.next_job].submit
        push_event(state, max(state.sec.due, now_s), DUE_EVENT, 0)

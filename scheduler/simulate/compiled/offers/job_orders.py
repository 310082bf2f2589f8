"""The order of jobs under FIFO, fair sharing and the Capacity scheduler (compiled).

Mirrors `scheduler.order.fifo`, `fair` and a part of `capacity`. FIFO is fair sharing with a single pool in
FIFO order.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import BY_NUMBER, State


@compiled
def touch(state: State, stage: int) -> None:
    """Mark a stage (the maps or the reduces of a job) as changed. `settle` then updates the order of jobs."""
    if not state.stages[stage].dirty:
        state.stages[stage].dirty = 1
        state.dirty[state.num.dirty] = stage
        state.num.dirty += 1


@twin_of("schedbed.scheduler.core.core_tables:count")
@compiled
def add_running(state: State, job: int, kind: int, change: int) -> None:
    """Add to the numbers of running tasks of the job, its pool and, under the Capacity scheduler, its user."""
    state.stages[2 * job + kind].running += change
    state.pool_stages[2 * state.jobs[job].pool + kind].running += change
    if state.num.is_capacity:
        state.members[state.jobs[job].member].running[kind] += change


@twin_of("schedbed.scheduler.core.core_tables:CoreTables.settle")
@compiled
def settle(state: State) -> None:
    """Update the order of jobs for the stages changed since the last decision."""
    count = state.num.dirty
    state.num.dirty = 0
    for place in range(count):
        stage = state.dirty[place]
        state.stages[stage].dirty = 0
        if state.num.is_fair:
            _fair_changed(state, stage >> 1, stage & 1)
        elif state.num.is_capacity:
            _list_job(state, stage >> 1, stage & 1)
        else:
            _fifo_changed(state, stage >> 1, stage & 1)


@twin_of("schedbed.scheduler.order.capacity:Queue.list_job", "schedbed.scheduler.order.fifo:Fifo.changed")
@compiled
def _list_job(state: State, job: int, kind: int) -> None:
    """Add the job to the list of its pool's ready jobs, which are in FIFO order, or remove it."""
    is_listed = state.stages[2 * job + kind].place >= 0
    if state.stages[2 * job + kind].ready:
        if not is_listed:
            _put_job(state, job, kind)
            if state.num.is_capacity:
                _count_user(state, job, kind, 1)
    elif is_listed:
        _drop_job(state, job, kind)
        if state.num.is_capacity:
            _count_user(state, job, kind, -1)


@compiled
def _count_user(state: State, job: int, kind: int, change: int) -> None:
    """Count the users of the job's queue that have a task to start."""
    queue, member = state.queues[state.jobs[job].pool], state.members[state.jobs[job].member]
    had = member.ready[kind] > 0
    member.ready[kind] += change
    if had != (member.ready[kind] > 0):
        queue.users[kind] += change


@compiled
def _fifo_changed(state: State, job: int, kind: int) -> None:
    _list_job(state, job, kind)
    state.num.pools[kind] = 1 if state.pool_stages[kind].ready else 0


@twin_of("schedbed.scheduler.order.pools:PoolOrder.changed")
@compiled
def _fair_changed(state: State, job: int, kind: int) -> None:
    pool = state.jobs[job].pool
    stage = state.stages[2 * job + kind]
    if stage.ready:
        if not state.pools[pool].fifo:
            stage.ratio = stage.running / state.jobs[job].weight
            _put_job(state, job, kind)
        elif stage.place < 0:
            _put_job(state, job, kind)
    else:
        _drop_job(state, job, kind)
    if state.pool_stages[2 * pool + kind].ready:
        _set_pool_key(state, pool, kind)
        _put_pool(state, pool, kind)
    else:
        _drop_pool(state, pool, kind)


# ------------------------------------------------------------- jobs in a pool


@twin_of("schedbed.scheduler.order.fifo:fifo_key", "schedbed.scheduler.order.pools:Pool.job_key")
@compiled
def _job_before(state: State, job: int, other: int, kind: int, fifo: int) -> bool:
    if fifo == BY_NUMBER:
        return job < other
    if fifo:
        mine, its = state.jobs[job].priority, state.jobs[other].priority
        return mine < its or (mine == its and job < other)
    ratio, against = state.stages[2 * job + kind].ratio, state.stages[2 * other + kind].ratio
    return ratio < against or (ratio == against and job < other)


@twin_of("schedbed.scheduler.order.sorted_keys:SortedKeys.put")
@compiled
def _put_job(state: State, job: int, kind: int) -> None:
    """Move the job to its place in its pool's list of jobs with maps (0) or reduces (1) to start."""
    pool = state.jobs[job].pool
    fifo = state.pools[pool].fifo
    base = kind * state.num.jobs + state.pools[pool].at
    ready, stages = state.ready, state.stages
    place = stages[2 * job + kind].place
    if place < 0:
        place = state.pool_stages[2 * pool + kind].ready
        state.pool_stages[2 * pool + kind].ready += 1
    while place > 0 and _job_before(state, job, ready[base + place - 1], kind, fifo):
        other = ready[base + place - 1]
        ready[base + place] = other
        stages[2 * other + kind].place = place
        place -= 1
    last = state.pool_stages[2 * pool + kind].ready - 1
    while place < last and _job_before(state, ready[base + place + 1], job, kind, fifo):
        other = ready[base + place + 1]
        ready[base + place] = other
        stages[2 * other + kind].place = place
        place += 1
    ready[base + place] = job
    stages[2 * job + kind].place = place


@twin_of("schedbed.scheduler.order.sorted_keys:SortedKeys.drop")
@compiled
def _drop_job(state: State, job: int, kind: int) -> None:
    place = state.stages[2 * job + kind].place
    if place < 0:
        return
    pool = state.jobs[job].pool
    base = kind * state.num.jobs + state.pools[pool].at
    state.pool_stages[2 * pool + kind].ready -= 1
    for at in range(place, state.pool_stages[2 * pool + kind].ready):
        other = state.ready[base + at + 1]
        state.ready[base + at] = other
        state.stages[2 * other + kind].place = at
    state.stages[2 * job + kind].place = -1


# ------------------------------------------------------------------ the pools


@twin_of("schedbed.scheduler.order.pools:Pool.key")
@compiled
def _set_pool_key(state: State, pool: int, kind: int) -> None:
    """Compute the sort key of a pool for its maps (`kind` 0) or reduces (1).

    It is the ratio of running tasks to weight. Of equal pools, the one with the oldest job is first or, if
    `num.by_name` is 1, the first by name. Mirrors `Pool.key` for pools without a minimum share.
    """
    entry, stage = state.pools[pool], state.pool_stages[2 * pool + kind]
    while state.jobs[state.pool_jobs[entry.oldest]].ended:
        entry.oldest += 1
    stage.submit = 0.0 if state.num.by_name else state.jobs[state.pool_jobs[entry.oldest]].submit
    stage.ratio = stage.running / entry.weight


@compiled
def _pool_before(state: State, pool: int, other: int, kind: int) -> bool:
    mine, its = state.pool_stages[2 * pool + kind], state.pool_stages[2 * other + kind]
    if mine.ratio != its.ratio:
        return mine.ratio < its.ratio
    if mine.submit != its.submit:
        return mine.submit < its.submit
    return state.pools[pool].name < state.pools[other].name


@twin_of("schedbed.scheduler.order.sorted_keys:SortedKeys.put")
@compiled
def _put_pool(state: State, pool: int, kind: int) -> None:
    base = kind * len(state.pools)
    order, stages = state.order, state.pool_stages
    place = stages[2 * pool + kind].place
    if place < 0:
        place = state.num.pools[kind]
        state.num.pools[kind] += 1
    while place > 0 and _pool_before(state, pool, order[base + place - 1], kind):
        other = order[base + place - 1]
        order[base + place] = other
        stages[2 * other + kind].place = place
        place -= 1
    last = state.num.pools[kind] - 1
    while place < last and _pool_before(state, order[base + place + 1], pool, kind):
        other = order[base + place + 1]
        order[base + place] = other
        stages[2 * other + kind].place = place
        place += 1
    order[base + place] = pool
    stages[2 * pool + kind].place = place


@twin_of("schedbed.scheduler.order.sorted_keys:SortedKeys.drop")
@compiled
def _drop_pool(state: State, pool: int, kind: int) -> None:
    place = state.pool_stages[2 * pool + kind].place
    if place < 0:
        return
    base = kind * len(state.pools)
    state.num.pools[kind] -= 1
    for at in range(place, state.num.pools[kind]):
        other = state.order[base + at + 1]
        state.order[base + at] = other
        state.pool_stages[2 * other + kind].place = at
    state.pool_stages[2 * pool + kind].place = -1

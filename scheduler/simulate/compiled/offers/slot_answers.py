"""The policy's answer to the offer of a node's free slot, and the row that records it (compiled)."""

from __future__ import annotations

from math import inf

import numpy as np

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    NO_JOB,
    NO_PREFERENCE,
    NODE_LOCAL,
    OFF_AFTER,
    OFF_BEFORE,
    OFF_RACK,
    QUEUE_FULL,
    RACK_AFTER,
    RACK_BEFORE,
    RACK_LOCAL,
    REASONS,
    REDUCE_REASON,
    USER_FULL,
    WAITS_LOCAL,
    WAITS_RACK,
    State,
)


@compiled
def decided(state: State, task: int, job: int, node: int, kind: int, reason: int, value: float) -> None:
    """Append a decisions row. `task` is -1 if the job did not take the slot; `value` is for the reason's text."""
    row = state.decision_rows[state.num.n_decisions]
    state.num.n_decisions += 1
    row.t = state.sec.now
    row.value = value
    row.node = node
    row.job = job
    row.task = task
    row.kind = kind
    row.reason = reason
    row.held = state.num.held
    row.unnamed = state.num.unnamed


@twin_of("schedbed.scheduler.core.core_tables:CoreTables.skip")
@compiled
def declined(state: State, job: int, node: int, kind: int, reason: int, amount: int) -> None:
    """Append why the job declined, unless its last row said so. `amount` is in the reason's text."""
    entry, text = state.patience[kind * state.num.jobs + job], amount * REASONS + reason
    if state.num.writes_skips and entry.said != text:
        if entry.launched != state.sec.now:
            entry.said = text
        decided(state, -1, job, node, kind, reason, 0.0)


@compiled
def launched(state: State, job: int, kind: int) -> None:
    """Let the job say again why it declines slots of the kind, since one of its tasks has started."""
    if state.num.is_capacity or (state.num.is_delay and kind == 0):
        entry = state.patience[kind * state.num.jobs + job]
        entry.said = 0
        entry.launched = state.sec.now


@twin_of("schedbed.scheduler.policy:Composed.decide", "schedbed.scheduler.policy:Composed._offer")
@compiled
def decide(state: State, node: int, kind: int) -> tuple[int, int, float]:
    """Let the policy choose a map (0) or reduce (1): task or -1, reason's code, and a value for its text."""
    if kind == 0 and state.num.is_delay:
        _find_beside(state, node)
        if not state.num.is_capacity:
            return _scan(state, node)
    if state.num.is_capacity:
        return _serve_queues(state, node, kind)
    if state.num.pools[kind] == 0:
        return -1, 0, 0.0
    pool = state.order[kind * len(state.pools)]
    return _ask(state, state.ready[kind * state.num.jobs + state.pools[pool].at], node, kind)


@twin_of("schedbed.scheduler.policy:Composed.decide", "schedbed.scheduler.locality.delay:Delay.pick")
@compiled
def _scan(state: State, node: int) -> tuple[int, int, float]:
    """Offer the node to the jobs in order, under delay scheduling. Returns the same as `decide`.

    For speed, `map_picks.delay` is not called for jobs without local data that must still wait, and arrays
    are read from `state` only once. Mirrors `Composed.decide` with `Delay.pick`.
    """
    num, sec, order, pools, pool_stages = state.num, state.sec, state.order, state.pools, state.pool_stages
    ready, patience, skipped = state.ready, state.patience, state.skipped
    heartbeat, offer, now_s, node_wait_s = num.heartbeats, num.offers, sec.now, sec.node_wait
    for place in range(num.pools[0]):
        pool = order[place]
        base = pools[pool].at
        for at in range(base, base + pool_stages[2 * pool].ready):
            job = ready[at]
            entry = patience[job]
            if entry.skipped_heartbeat == heartbeat:
                continue
            wait_s = entry.wait
            is_near = entry.offer == offer or entry.has_free > 0
            if is_near or entry.level > 0 or wait_s >= node_wait_s:
                task, reason, value = _ask(state, job, node, 0)
                if task >= 0:
                    return task, reason, value
                continue
            entry.skipped = now_s
            entry.skipped_heartbeat = heartbeat
            skipped[num.skipped] = job
            num.skipped += 1
            if entry.said != WAITS_LOCAL:
                declined(state, job, node, 0, WAITS_LOCAL, 0)
    return -1, 0, 0.0


@twin_of(
    "schedbed.scheduler.order.capacity:Capacity._jobs",
    "schedbed.scheduler.policies.explained:Explained.decide",
)
@compiled
def _serve_queues(state: State, node: int, kind: int) -> tuple[int, int, float]:
    """Offer the node to jobs below their queue's and user's limits, as `decide`."""
    num, members, base = state.num, state.members, kind * len(state.pools)
    for place in range(sort_queues(state, kind)):
        pool = state.order[base + place]
        at = kind * num.jobs + state.pools[pool].at
        held = state.pool_stages[2 * pool + kind].running
        num.held = held
        if is_full(state, pool, kind):
            declined(state, state.ready[at], node, kind, QUEUE_FULL, as_printed(held))
            continue
        num.visits += 1
        limit = user_limit(state, pool, kind)
        for job in state.ready[at : at + state.pool_stages[2 * pool + kind].ready]:
            member = members[state.jobs[job].member]
            if member.limited == num.visits:
                continue
            if member.running[kind] + 1 > limit:
                member.limited = num.visits
                num.held = limit
                declined(state, job, node, kind, USER_FULL, as_printed(limit))
                num.held = held
                continue
            task, reason, value = _ask(state, job, node, kind)
            if task >= 0:
                return task, reason, value
    return -1, 0, 0.0


@compiled
def _ask(state: State, job: int, node: int, kind: int) -> tuple[int, int, float]:
    """Offer the node to one job. Returns the same as `decide`."""
    if kind:
        return first_of(state, job, 1), REDUCE_REASON, 0.0
    if not state.num.is_delay:
        return greedy(state, job, node)
    task, reason, value = delay(state, job, node)
    if task == WAITS:
        declined(state, job, node, 0, reason, 0)
    return task, reason, value


@compiled
def _move(state: State, source: int, target: int) -> None:
    """Copy an entry of `State.beside`."""
    copied, into = state.beside[source], state.beside[target]
    into.job, into.task, into.cursor, into.end = copied.job, copied.task, copied.cursor, copied.end


@compiled
def _find_beside(state: State, node: int) -> None:
    """Note in `State.patience` where the node has input of jobs, and drop jobs whose maps have all started.

    Delay scheduling need then not look up other jobs, which have nothing here.
    """
    entry, beside, num = state.nodes[node], state.beside, state.num
    stages, waiting = state.stages, state.patience
    num.offers += 1
    left, after = entry.beside_left, entry.beside_next
    while entry.beside_job < num.next_job:
        _move(state, after, left)
        left += 1
        after += 1
        entry.beside_job = beside[after].job if after < entry.beside_end else NO_JOB
    at = entry.beside_at
    while at < left:
        job = beside[at].job
        if job < 0 or stages[2 * job].unstarted == 0:
            left -= 1
            _move(state, left, at)
        else:
            patience = waiting[job]
            patience.offer = num.offers
            patience.beside = at
            at += 1
    entry.beside_left = left
    entry.beside_next = after


# The queues of the Capacity scheduler and their limits (compiled).
#
# Mirrors `scheduler.order.capacity` and `scheduler.order.capacity` for tasks of one slot. Here, a queue is
# the pool of the same number, and a member is a user of one queue.

_SLACK = 1e-9


@twin_of("schedbed.scheduler.order.capacity:Capacity.submitted")
@compiled
def submitted(state: State, job: int) -> None:
    """Count a submitted job in its queue. Mirrors `Capacity.submitted`."""
    queue = state.queues[state.jobs[job].pool]
    if queue.jobs == 0 and not queue.named:
        state.num.unnamed += 1
    queue.jobs += 1


@twin_of("schedbed.scheduler.order.capacity:Capacity.finished")
@compiled
def finished(state: State, job: int) -> None:
    """Remove an ended job from the count of its queue. Mirrors `Capacity.finished`."""
    queue = state.queues[state.jobs[job].pool]
    queue.jobs -= 1
    if queue.jobs == 0 and not queue.named:
        state.num.unnamed -= 1


@twin_of(
    "schedbed.scheduler.order.capacity:Capacity.jobs",
    "schedbed.scheduler.order.capacity:Queue.promised_share",
)
@compiled
def sort_queues(state: State, kind: int) -> int:
    """Sort the queues with ready jobs into `State.order` by the part of their share held, then name.

    Return their number.
    """
    order, queues, stages = state.order, state.queues, state.pool_stages
    total, base, count = state.num.slots[kind], kind * len(state.pools), 0
    for pool in range(len(state.pools)):
        stage = stages[2 * pool + kind]
        if stage.ready == 0:
            continue
        queue = queues[pool]
        share = queue.share if queue.named else queue.share / max(1, state.num.unnamed)
        queue.promised = np.floor(share * total + _SLACK)
        queue.full = stage.running / queue.promised if queue.promised > 0 else 1.0
        place = base + count
        while place > base and queues[order[place - 1]].full > queue.full:
            order[place] = order[place - 1]
            place -= 1
        order[place] = pool
        count += 1
    return count


@twin_of("schedbed.scheduler.order.capacity:over_max")
@compiled
def is_full(state: State, pool: int, kind: int) -> bool:
    """Return whether another task would make the queue exceed its maximum. Mirrors `over_max`."""
    held, most = state.pool_stages[2 * pool + kind].running, inf
    if state.queues[pool].max_share < 1:
        most = state.queues[pool].max_share * state.num.slots[kind]
    return held > 0 and held + 1 > most + _SLACK


@twin_of(
    "schedbed.scheduler.order.capacity:user_limit",
    "schedbed.scheduler.order.capacity:Capacity._limit",
)
@compiled
def user_limit(state: State, pool: int, kind: int) -> int:
    """Return the number of slots of the queue that one user may hold. Mirrors `queues.user_limit`."""
    queue, held = state.queues[pool], state.pool_stages[2 * pool + kind].running
    current = max(1.0, queue.promised) if held < queue.promised else held + 1.0
    limit = max(
        np.ceil(current / max(1, queue.users[kind]) - _SLACK),
        np.ceil(current * queue.user_percent / 100 - _SLACK),
    )
    if queue.promised > 0:
        limit = min(limit, np.floor(queue.promised * queue.user_factor + _SLACK))
    return int(max(1.0, limit))


@compiled
def as_printed(amount: int) -> int:
    """Round to three digits as the format `.3g`: texts are equal if these amounts are."""
    unit = 1
    while amount // unit >= 1000:
        unit *= 10
    digits, rest = amount // unit, amount % unit
    if 2 * rest > unit or (2 * rest == unit and digits % 2 == 1):
        digits += 1
    return digits * unit


# The choice of one of a job's maps for a node, under greedy locality and delay scheduling (compiled).
#
# Mirrors `scheduler.core.index`, `locality.greedy` and `locality.delay`. The functions `greedy` and `delay`
# return a task, the code of a reason, and a value for the reason's text, the seconds that the job has
# waited. Instead of a task, `NONE` means that the job offers no map, and `WAITS` that the job waits for a
# nearer node.

NONE, WAITS = -1, -2


@compiled
def _near(state: State, low: int, high: int, where: int) -> int:
    """Return the next unstarted map with input at `where` in `State.near[low:high]`, or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if state.near[middle].where < where:
            low = middle + 1
        else:
            high = middle
    if low == end or state.near[low].where != where:
        return -1
    return _unstarted_in(state, low)


@compiled
def _unstarted_in(state: State, group: int) -> int:
    """Return the next unstarted map of a group of maps, or -1. `group` is the group's position in `near`."""
    found = state.near[group]
    while found.cursor < found.end:
        task = state.near_task[found.cursor]
        if not state.is_started[task]:
            return task
        found.cursor += 1
    return -1


@compiled
def _unstarted_beside(state: State, at: int) -> int:
    """Return the next unstarted map of the entry number `at` of `State.beside`, or -1."""
    found = state.beside[at]
    while state.is_started[found.task]:
        found.cursor += 1
        if found.cursor == found.end:
            return -1
        found.task = state.near_task[found.cursor]
    return found.task


@twin_of("schedbed.scheduler.core.index:TaskIndex.on_host")
@compiled
def local_map(state: State, job: int, node: int) -> int:
    """Return an unstarted map with input on the node, or -1."""
    return _near(state, state.jobs[job].hosts_at, state.jobs[job].hosts_end, node)


@twin_of("schedbed.scheduler.core.index:TaskIndex.on_rack")
@compiled
def rack_map(state: State, job: int, node: int) -> int:
    """Return an unstarted map with input in the node's rack, or -1."""
    return _near(state, state.jobs[job].racks_at, state.jobs[job].racks_end, state.nodes[node].rack)


@twin_of("schedbed.scheduler.core.index:TaskIndex.anywhere")
@compiled
def free_map(state: State, job: int) -> int:
    """Return an unstarted map of the job that prefers no node, or -1 if there is none. Mirrors `TaskIndex.anywhere`."""
    entry = state.jobs[job]
    while entry.free_cursor < entry.maps:
        place = entry.first + entry.free_cursor
        if not state.is_started[place] and state.tasks[place].hosts_at == state.tasks[place].hosts_end:
            return place
        entry.free_cursor += 1
    return -1


@twin_of("schedbed.scheduler.core.index:TaskIndex.first")
@compiled
def first_of(state: State, job: int, kind: int) -> int:
    """Return the first unstarted map (0) or reduce (1), or -1, from where the last search ended.

    In compiled simulations, a started task never becomes unstarted again.
    """
    stage = state.stages[2 * job + kind]
    first = state.jobs[job].first + (state.jobs[job].maps if kind else 0)
    while stage.cursor < stage.total:
        if not state.is_started[first + stage.cursor]:
            return first + stage.cursor
        stage.cursor += 1
    return -1


@twin_of("schedbed.scheduler.locality.greedy:Greedy.pick")
@compiled
def greedy(state: State, job: int, node: int) -> tuple[int, int, float]:
    """Return the nearest unstarted map, the reason's code, and 0.0 (as `delay`, without a wait)."""
    task = local_map(state, job, node)
    if task >= 0:
        return task, NODE_LOCAL, 0.0
    task = rack_map(state, job, node)
    if task >= 0:
        return task, RACK_LOCAL, 0.0
    task = first_of(state, job, 0)
    has_hosts = state.tasks[task].hosts_at < state.tasks[task].hosts_end
    return task, OFF_RACK if has_hosts else NO_PREFERENCE, 0.0


@twin_of(
    "schedbed.scheduler.locality.delay:Delay.pick",
    "schedbed.scheduler.locality.delay:Delay._allowed",
    "schedbed.scheduler.locality.delay:Delay._wait",
    "schedbed.scheduler.locality.delay:Delay._skip",
    "schedbed.scheduler.locality.delay:Delay._accept",
)
@compiled
def delay(state: State, job: int, node: int) -> tuple[int, int, float]:
    """Return a map, the reason's code and the waited seconds; `WAITS` for a nearer node, `NONE` if skipped
    before.

    `State.patience` says where the node has input of the job.
    """
    entry, sec = state.patience[job], state.sec
    if entry.skipped_heartbeat == state.num.heartbeats:
        return NONE, 0, 0.0
    if entry.offer == state.num.offers:
        task = _unstarted_beside(state, entry.beside)
        if task >= 0:
            entry.wait = 0.0
            entry.level = 0
            return task, NODE_LOCAL, 0.0
        state.beside[entry.beside].job = -1
    if entry.has_free:
        task = free_map(state, job)
        if task >= 0:
            return task, NO_PREFERENCE, 0.0
        entry.has_free = 0
    wait_s, level = entry.wait, entry.level
    if level or wait_s >= sec.node_wait:
        task, new_level = rack_map(state, job, node), 1
        if task < 0 and (level == 2 or wait_s >= _anywhere_s(state, level)):
            task, new_level = first_of(state, job, 0), 2
        if task >= 0:
            entry.wait = 0.0
            entry.level = new_level
            if new_level == 1:
                return task, RACK_AFTER if wait_s != 0.0 else RACK_BEFORE, wait_s
            return task, OFF_AFTER if wait_s != 0.0 else OFF_BEFORE, wait_s
    entry.skipped = sec.now
    entry.skipped_heartbeat = state.num.heartbeats
    state.skipped[state.num.skipped] = job
    state.num.skipped += 1
    return WAITS, WAITS_LOCAL if level == 0 and wait_s < sec.node_wait else WAITS_RACK, wait_s


@compiled
def _anywhere_s(state: State, level: int) -> float:
    """Return the wait for off-rack maps. The job's last map was node-local (0), rack-local (1) or off-rack (2)."""
    return state.sec.rack_wait if level == 1 else state.sec.node_wait + state.sec.rack_wait


@twin_of("schedbed.scheduler.locality.delay:Delay.beat")
@compiled
def waited(state: State, node: int, now_s: float) -> None:
    """Add waiting time, until the node's heartbeat at `now_s`, to the jobs that delay scheduling skipped.

    The heartbeat of a node without a free slot, or without map slots, does not count. Mirrors `Delay.beat`.
    """
    entry = state.nodes[node]
    if entry.map_slots == 0 or (entry.free_maps <= 0 and entry.free_reduces <= 0):
        return
    patience, skipped = state.patience, state.skipped
    for place in range(state.num.skipped):
        job = patience[skipped[place]]
        job.wait += now_s - job.skipped
    state.num.skipped = 0

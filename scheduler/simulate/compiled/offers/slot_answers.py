"""The policy's answer to the offer of a node's free slot, and the row that records it (compiled)."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.offers import map_picks, queue_orders
from schedbed.scheduler.simulate.compiled.state import (
    NO_JOB,
    QUEUE_FULL,
    REASONS,
    REDUCE_REASON,
    USER_FULL,
    WAITS_LOCAL,
    State,
)


@compiled
def decided(state: State, task: int, job: int, node: int, kind: int, reason: int, value: float) -> None:
    """Append a row to the decisions table. `task` is -1 if the job did not take the node's slot.

    `value` is a number for the text of the reason with the code `reason`. Under the Capacity scheduler, so is
    the amount in `num.held`.
    """
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
    """Append a row that says why the job declined the node's slot, unless its last row said the same.

    `amount` is the number that the text of the reason contains. Mirrors `CoreTables.skip`.
    """
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
    """Let the policy choose a task for a free slot of the node. `kind` is 0 for a map, 1 for a reduce.

    Returns the number of the task (-1 for none), the code of the reason, and a value for the reason's text,
    such as the seconds that the job has waited. Mirrors `Composed.decide`.
    """
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


@twin_of("schedbed.scheduler.locality.delay:Delay._scan")
@compiled
def _scan(state: State, node: int) -> tuple[int, int, float]:
    """Offer the node to the jobs in order, under delay scheduling. Returns the same as `decide`.

    For speed, `map_picks.delay` is not called for jobs without local data that must still wait, and arrays
    are read from `state` only once. Mirrors `Delay._scan`.
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
    """Offer the node to the jobs whose queue and user are below their limits. Returns the same as `decide`.

    Mirrors `Capacity._jobs`.
    """
    num, members, base = state.num, state.members, kind * len(state.pools)
    for place in range(queue_orders.sort_queues(state, kind)):
        pool = state.order[base + place]
        at = kind * num.jobs + state.pools[pool].at
        held = state.pool_stages[2 * pool + kind].running
        num.held = held
        if queue_orders.is_full(state, pool, kind):
            declined(state, state.ready[at], node, kind, QUEUE_FULL, queue_orders.as_printed(held))
            continue
        num.visits += 1
        limit = queue_orders.user_limit(state, pool, kind)
        for job in state.ready[at : at + state.pool_stages[2 * pool + kind].ready]:
            member = members[state.jobs[job].member]
            if member.limited == num.visits:
                continue
            if member.running[kind] >= limit:
                member.limited = num.visits
                num.held = limit
                declined(state, job, node, kind, USER_FULL, queue_orders.as_printed(limit))
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
        return map_picks.first_of(state, job, 1), REDUCE_REASON, 0.0
    if not state.num.is_delay:
        return map_picks.greedy(state, job, node)
    task, reason, value = map_picks.delay(state, job, node)
    if task == map_picks.WAITS:
        declined(state, job, node, 0, reason, 0)
    return task, reason, value


@compiled
def _move(state: State, source: int, target: int) -> None:
    """Copy an entry of `State.beside`. `source` and `target` are positions."""
    copied, into = state.beside[source], state.beside[target]
    into.job, into.task, into.cursor, into.end = copied.job, copied.task, copied.cursor, copied.end


@compiled
def _find_beside(state: State, node: int) -> None:
    """Note for each submitted job with input on the node, in `State.patience`, where this input is.

    All other jobs have nothing on the node, which delay scheduling then need not look up. Jobs whose maps
    have all started are removed from the node's part of `State.beside`.
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

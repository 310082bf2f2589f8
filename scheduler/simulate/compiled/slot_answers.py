"""The policy's answer to the offer of a node's free slot, and the row that records it (compiled)."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled import map_picks
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import NO_JOB, REDUCE_REASON, WAITS_LOCAL, State


@compiled
def decided(state: State, task: int, job: int, node: int, kind: int, reason: int, value: float) -> None:
    """Append a row to the decisions table. `task` is -1 if the job did not take the node's slot.

    `value` is a number for the text of the reason with the code `reason`.
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


@twin_of("schedbed.scheduler.core.core_tables:CoreTables.skip")
@compiled
def declined(state: State, job: int, node: int, reason: int) -> None:
    """Append a row that says why the job declined the node's slot for a map, unless its last row said the same.

    Mirrors `CoreTables.skip`.
    """
    entry = state.patience[job]
    if state.num.writes_skips and entry.said != reason:
        if entry.launched != state.sec.now:
            entry.said = reason
        decided(state, -1, job, node, 0, reason, 0.0)


@twin_of("schedbed.scheduler.policy:Composed.decide", "schedbed.scheduler.policy:Composed._offer")
@compiled
def decide(state: State, node: int, kind: int) -> tuple[int, int, float]:
    """Let the policy choose a task for a free slot of the node. `kind` is 0 for a map, 1 for a reduce.

    Returns the number of the task (-1 for none), the code of the reason, and a value for the reason's text,
    such as the seconds that the job has waited. Mirrors `Composed.decide`.
    """
    if kind == 0 and state.num.is_delay:
        _find_beside(state, node)
        return _scan(state, node)
    if state.num.pools[kind] == 0:
        return -1, 0, 0.0
    pool = state.order[kind * len(state.pools)]
    job = state.ready[kind * state.num.jobs + state.pools[pool].at]
    if kind:
        return map_picks.first_of(state, job, 1), REDUCE_REASON, 0.0
    return map_picks.greedy(state, job, node)


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
                task, reason, value = map_picks.delay(state, job, node)
                if task >= 0:
                    return task, reason, value
                if task == map_picks.WAITS:
                    declined(state, job, node, reason)
                continue
            entry.skipped = now_s
            entry.skipped_heartbeat = heartbeat
            skipped[num.skipped] = job
            num.skipped += 1
            if entry.said != WAITS_LOCAL:
                declined(state, job, node, WAITS_LOCAL)
    return -1, 0, 0.0


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

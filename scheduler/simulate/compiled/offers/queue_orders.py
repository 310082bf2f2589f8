"""The queues of the Capacity scheduler and their limits (compiled).

Mirrors `scheduler.order.capacity` and `scheduler.order.queues` for tasks of one slot. Here, a queue is the pool
of the same number, and a member is a user of one queue.
"""

from __future__ import annotations

from math import inf

import numpy as np

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State

_SLACK = 1e-9


@twin_of("schedbed.scheduler.order.capacity:Capacity.submitted")
@compiled
def submitted(state: State, job: int) -> None:
    """Count a submitted job in its queue and for its user. Mirrors `Capacity.submitted`."""
    queue, member = state.queues[state.jobs[job].pool], state.members[state.jobs[job].member]
    if queue.users == 0 and not queue.named:
        state.num.unnamed += 1
    if member.jobs == 0:
        queue.users += 1
    member.jobs += 1


@twin_of("schedbed.scheduler.order.capacity:Capacity.finished")
@compiled
def finished(state: State, job: int) -> None:
    """Remove an ended job from the counts of its queue and its user. Mirrors `Capacity.finished`."""
    queue, member = state.queues[state.jobs[job].pool], state.members[state.jobs[job].member]
    member.jobs -= 1
    if member.jobs == 0:
        queue.users -= 1
        if queue.users == 0 and not queue.named:
            state.num.unnamed -= 1


@twin_of(
    "schedbed.scheduler.order.capacity:Capacity.jobs", "schedbed.scheduler.order.queues:Queue.promised_share"
)
@compiled
def sort_queues(state: State, kind: int) -> int:
    """Sort the queues with ready jobs by the part of their guaranteed shares that they hold, and return their
    number.

    The sorted queues are in `State.order`. Of equal queues, the first by name comes first. Mirrors
    `Capacity.jobs`.
    """
    order, queues, stages = state.order, state.queues, state.pool_stages
    total, base, count = state.num.slots[kind], kind * len(state.pools), 0
    for pool in range(len(state.pools)):
        stage = stages[2 * pool + kind]
        if stage.ready == 0:
            continue
        queue = queues[pool]
        share = queue.share if queue.named else queue.share / max(1, state.num.unnamed)
        queue.promised = share * total
        if queue.promised > 0:
            queue.full = stage.running / queue.promised
        else:
            queue.full = inf if stage.running > 0 else 1.0
        place = base + count
        while place > base and queues[order[place - 1]].full > queue.full:
            order[place] = order[place - 1]
            place -= 1
        order[place] = pool
        count += 1
    return count


@twin_of("schedbed.scheduler.order.queues:over_max")
@compiled
def is_full(state: State, pool: int, kind: int) -> bool:
    """Return whether another task would make the queue exceed its maximum. Mirrors `over_max`."""
    held, most = state.pool_stages[2 * pool + kind].running, inf
    if state.queues[pool].max_share < 1:
        most = state.queues[pool].max_share * state.num.slots[kind]
    return held > 0 and held + 1 > most + _SLACK


@twin_of(
    "schedbed.scheduler.order.queues:user_limit",
    "schedbed.scheduler.order.capacity:Capacity._limit",
)
@compiled
def user_limit(state: State, pool: int, kind: int) -> int:
    """Return the number of slots of the queue that one user may hold. Mirrors `queues.user_limit`."""
    queue, held = state.queues[pool], state.pool_stages[2 * pool + kind].running
    current = queue.promised if held < queue.promised else held + 1.0
    limit = max(
        np.ceil(current / max(1, queue.users) - _SLACK), np.ceil(current * queue.user_percent / 100 - _SLACK)
    )
    if queue.promised > 0:
        limit = min(limit, np.ceil(queue.promised * queue.user_factor - _SLACK))
    return int(max(1.0, limit))


@compiled
def as_printed(amount: int) -> int:
    """Return the amount rounded to three digits, as the format `.3g` prints it.

    Two texts with amounts are equal if their rounded amounts are.
    """
    unit = 1
    while amount // unit >= 1000:
        unit *= 10
    digits, rest = amount // unit, amount % unit
    if 2 * rest > unit or (2 * rest == unit and digits % 2 == 1):
        digits += 1
    return digits * unit

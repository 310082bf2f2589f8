"""Max-min fair sharing of CPUs, disks and network links among flows (compiled).

Mirrors `cluster.virtual.fluid.max_min` function by function, but each resource has a linked list of its flows
by start. A flow's entry is `flow * width + place`, with the resource's `place` on the path and the longest
path's `width`.
"""

from __future__ import annotations

from math import inf

from schedbed.cluster.virtual.fluid.max_min import REACH
from schedbed.scheduler.simulate.compiled.arrays import Ints
from schedbed.scheduler.simulate.compiled.contended.due_items import at
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State

_ROUNDING = 1 + 1e-9
_FEW = 24


@compiled
def _touch(state: State, number: int) -> None:
    state.touched[state.num.touched] = number
    state.num.touched += 1


@compiled
def _enter(state: State, item: int, place: int, number: int) -> None:
    """Append a flow to a resource's list. `place` is the resource's on the flow's path."""
    resource, link = state.resources[number], item * state.way.shape[1] + place
    state.before[link], state.after[link] = resource.tail, -1
    if resource.tail >= 0:
        state.after[resource.tail] = link
    else:
        resource.head = link
    resource.tail = link
    resource.count += 1


@compiled
def _leave(state: State, item: int, place: int, number: int) -> None:
    resource, link = state.resources[number], item * state.way.shape[1] + place
    before, after = state.before[link], state.after[link]
    if before >= 0:
        state.after[before] = after
    else:
        resource.head = after
    if after >= 0:
        state.before[after] = before
    else:
        resource.tail = before
    resource.count -= 1


@twin_of("schedbed.cluster.virtual.fluid.max_min:Resource.given")
@compiled
def _given(state: State, number: int) -> float:
    """Return a resource's bytes per second or cores, reduced by seeks of several flows."""
    resource = state.resources[number]
    if resource.seek == 0.0 or resource.count == 0:
        return resource.capacity
    return resource.capacity / (1 + resource.seek * (resource.count - 1))


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing.resize")
@compiled
def resize(state: State, number: int, capacity: float) -> None:
    """Set a resource's capacity, and mark it for `settle`."""
    resource = state.resources[number]
    resource.capacity = capacity
    resource.over = 1 if resource.demand > _given(state, number) * _ROUNDING else 0
    _touch(state, number)


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing.start")
@compiled
def start(state: State, item: int) -> None:
    """Start a flow with its size, limit and path: at its limit if the path allows, or by `settle`."""
    flow, now_s, alone = state.flows[item], state.sec.agenda_s, True
    flow.left = flow.total
    flow.at = now_s
    flow.rate = 0.0
    flow.fair = 0.0
    for place in range(flow.ways):
        number = state.way[item, place]
        resource = state.resources[number]
        _enter(state, item, place, number)
        resource.demand += flow.cap
        if resource.demand > _given(state, number) * _ROUNDING:
            resource.over = 1
            _touch(state, number)
            alone = False
    if alone and flow.cap > 0:
        flow.rate = flow.cap
        at(state, item, now_s + flow.left / flow.cap)


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing.stop")
@compiled
def stop(state: State, item: int) -> None:
    """Stop a flow, and add the amount that it moved to its resources."""
    flow, now_s = state.flows[item], state.sec.agenda_s
    left = flow.left - flow.rate * (now_s - flow.at)
    flow.left = left if left > 0.0 else 0.0
    flow.at = now_s
    flow.rate = 0.0
    flow.due = inf
    moved = flow.total - flow.left
    for place in range(flow.ways):
        number = state.way[item, place]
        resource = state.resources[number]
        _leave(state, item, place, number)
        resource.demand = resource.demand - flow.cap if resource.count > 0 else 0.0
        resource.moved += moved
        if resource.over:
            _touch(state, number)
            resource.over = 1 if resource.demand > _given(state, number) * _ROUNDING else 0


@twin_of("schedbed.cluster.virtual.fluid.max_min:Flow.left_at")
@compiled
def left_at(state: State, item: int, now_s: float) -> float:
    """Return the amount that a flow still has to move."""
    flow = state.flows[item]
    return max(0.0, flow.left - flow.rate * (now_s - flow.at))


@twin_of("schedbed.cluster.virtual.fluid.max_min:Resource.moved_until")
@compiled
def moved_until(state: State, number: int, now_s: float) -> float:
    """Return the amount that flows have moved through a resource."""
    width, moved = state.way.shape[1], 0.0
    link = state.resources[number].head
    while link >= 0:
        moved += state.flows[link // width].total - left_at(state, link // width, now_s)
        link = state.after[link]
    return state.resources[number].moved + moved


# ---------------------------------------------------------------------- rates


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing.settle")
@compiled
def settle(state: State) -> None:
    """Recompute the rates that changes since the last call may affect."""
    count = state.num.touched
    state.num.touched = 0
    state.num.stamp += 1
    instant = state.num.stamp
    for place in range(count):
        state.resources[state.touched[place]].changed = instant
    for place in range(count):
        number = state.touched[place]
        resource = state.resources[number]
        if resource.solved < instant and (resource.over > 0 or not _is_settled(state, number, instant)):
            _solve(state, number, instant)


@twin_of("schedbed.cluster.virtual.fluid.max_min:_is_settled")
@compiled
def _is_settled(state: State, number: int, instant: int) -> bool:
    width, link = state.way.shape[1], state.resources[number].head
    while link >= 0:
        flow = state.flows[link // width]
        if flow.rate != flow.cap and flow.seen <= instant:
            return False
        link = state.after[link]
    return True


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing._solve")
@compiled
def _solve(state: State, number: int, instant: int) -> None:
    count, links = _collect(state, number, instant)
    _sort(state, count)
    if links == 1 and state.resources[number].count == count:
        _fill_one(state, number, count)
    else:
        _fill(state, count, links)
    for place in range(count):
        item = state.found[place]
        flow = state.flows[item]
        fair = flow.fair
        if not -1e-9 * fair <= fair - flow.rate <= 1e-9 * fair:
            _set(state, item, fair)


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing._collect")
@compiled
def _collect(state: State, number: int, instant: int) -> tuple[int, int]:
    """Store the flows that depend on a resource, and what they use. Return the numbers of both.

    `instant` identifies the call of `settle`.
    """
    state.num.stamp += 1
    state.num.solves += 1
    stamp, width = state.num.stamp, state.way.shape[1]
    found, links, resources = state.found, state.links, state.resources
    links[0] = number
    resources[number].seen = stamp
    flows, count, at_link, far = 0, 1, 0, 0
    while at_link < count:
        resource = resources[links[at_link]]
        at_link += 1
        if flows >= REACH and resource.changed < instant:
            state.far[far] = links[at_link - 1]
            far += 1
            continue
        resource.solved = instant
        resource.free = _given(state, links[at_link - 1])
        resource.unfixed = resource.count
        link = resource.head
        while link >= 0:
            item = link // width
            flow = state.flows[item]
            if flow.seen != stamp:
                flow.seen = stamp
                found[flows] = item
                flows += 1
                for place in range(flow.ways):
                    other = state.way[item, place]
                    if resources[other].over > 0 and resources[other].seen != stamp:
                        resources[other].seen = stamp
                        links[count] = other
                        count += 1
            link = state.after[link]
    held = 0
    for place in range(far):
        held += _hold_outside(state, state.far[place], stamp)
    if held > 0:
        state.num.cut_short += 1
    return flows, count


@compiled
def _hold_outside(state: State, number: int, stamp: int) -> int:
    """Compute what a resource's other flows leave for those with `stamp`. Return the number of the others."""
    resource, width = state.resources[number], state.way.shape[1]
    outside, held = 0.0, 0
    link = resource.head
    while link >= 0:
        flow = state.flows[link // width]
        if flow.seen != stamp:
            outside += flow.rate
            held += 1
        link = state.after[link]
    resource.free = max(0.0, _given(state, number) - outside)
    resource.unfixed = resource.count - held
    return held


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing._set")
@compiled
def _set(state: State, item: int, rate: float) -> None:
    flow, now_s = state.flows[item], state.sec.agenda_s
    if flow.rate != 0.0:
        left = flow.left - flow.rate * (now_s - flow.at)
        flow.left = left if left > 0.0 else 0.0
    flow.at = now_s
    flow.rate = rate
    at(state, item, now_s + flow.left / rate if rate > 0.0 else inf)


@compiled
def _sort(state: State, count: int) -> None:
    """Sort the `count` flows found by `_collect` by rate limit. Flows with equal limits keep their order."""
    order, other, flows = state.in_order, state.spare, state.flows
    for low in range(0, count, _FEW):
        for place in range(low, min(low + _FEW, count)):
            item = state.found[place]
            cap, hole = flows[item].cap, place
            while hole > low and flows[order[hole - 1]].cap > cap:
                order[hole] = order[hole - 1]
                hole -= 1
            order[hole] = item
    width = _FEW
    while width < count:
        for low in range(0, count, 2 * width):
            _merge(state, order, other, low, min(low + width, count), min(low + 2 * width, count))
        for place in range(count):
            order[place] = other[place]
        width *= 2


@compiled
def _merge(state: State, order: Ints, other: Ints, low: int, middle: int, high: int) -> None:
    one, two, flows = low, middle, state.flows
    for place in range(low, high):
        if two >= high or (one < middle and flows[order[one]].cap <= flows[order[two]].cap):
            other[place] = order[one]
            one += 1
        else:
            other[place] = order[two]
            two += 1


@twin_of("schedbed.cluster.virtual.fluid.max_min:_fill_one")
@compiled
def _fill_one(state: State, number: int, count: int) -> None:
    """Compute the rates of `count` flows that share only one resource."""
    free, waiting = state.resources[number].free, count
    for place in range(count):
        flow = state.flows[state.in_order[place]]
        flow.fair = min(flow.cap, free / waiting)
        free -= flow.fair
        waiting -= 1


@compiled
def _fix(state: State, item: int, rate: float) -> None:
    flow = state.flows[item]
    flow.fair = rate
    for place in range(flow.ways):
        resource = state.resources[state.way[item, place]]
        resource.free -= rate
        resource.unfixed -= 1


@twin_of("schedbed.cluster.virtual.fluid.max_min:fill")
@compiled
def _fill(state: State, count: int, links: int) -> None:
    """Compute the rates of `_collect`'s flows and resources by progressive filling."""
    order, flows, width = state.in_order, state.flows, state.way.shape[1]
    stamp = state.num.stamp
    for place in range(count):
        flows[order[place]].fair = -1.0
    done = 0
    while True:
        level, tight = inf, -1
        for place in range(links):
            resource = state.resources[state.links[place]]
            if resource.unfixed > 0 and resource.free < level * resource.unfixed:
                level, tight = resource.free / resource.unfixed, place
        level = max(0.0, level)
        before = done
        while done < count and (flows[order[done]].fair >= 0.0 or flows[order[done]].cap <= level):
            if flows[order[done]].fair < 0.0:
                _fix(state, order[done], flows[order[done]].cap)
            done += 1
        if done == count:
            return
        if done == before and tight >= 0:
            link = state.resources[state.links[tight]].head
            while link >= 0:
                item = link // width
                if flows[item].seen == stamp and flows[item].fair < 0.0:
                    _fix(state, item, level)
                link = state.after[link]
            links -= 1
            for place in range(tight, links):
                state.links[place] = state.links[place + 1]

"""Heaps of events (time and code), and rings, sets of nodes by heartbeat timers (compiled)."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.arrays import Floats, Ints
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    HEARTBEAT_EVENT,
    SHIFT,
    TIMER_EVENT,
    State,
)

WORD = 32  # Bits of one word of a ring's bit set.


@compiled
def heap_push(times: Floats, codes: Ints, size: int, at_s: float, code: int) -> None:
    """Push the entry (`at_s`, `code`) into a heap of `size` entries, which is ordered by time, then code."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        above_s = times[parent]
        if above_s < at_s or (above_s == at_s and codes[parent] < code):
            break
        times[place] = above_s
        codes[place] = codes[parent]
        place = parent
    times[place] = at_s
    codes[place] = code


@compiled
def heap_drop(times: Floats, codes: Ints, size: int) -> None:
    """Remove the first entry of a heap of `size` entries, which is ordered by time, then code."""
    last = size - 1
    at_s, code = times[last], codes[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        other = child + 1
        if other < last and (
            times[other] < times[child] or (times[other] == times[child] and codes[other] < codes[child])
        ):
            child = other
        if at_s < times[child] or (at_s == times[child] and code < codes[child]):
            break
        times[place] = times[child]
        codes[place] = codes[child]
        place = child
    times[place] = at_s
    codes[place] = code


@compiled
def heap_remove(times: Floats, codes: Ints, size: int, place: int) -> None:
    """Remove the entry at the position `place` of a heap of `size` entries."""
    while place > 0:
        parent = (place - 1) >> 1
        times[place] = times[parent]
        codes[place] = codes[parent]
        place = parent
    heap_drop(times, codes, size)


@twin_of("schedbed.scheduler.simulate.event_queue:EventQueue.push")
@compiled
def push_event(state: State, at_s: float, kind: int, number: int) -> None:
    """Queue an event. `number` identifies its node, reply or other object, by `kind`."""
    heap_push(state.event_s, state.event_code, state.num.events, at_s, (kind << SHIFT) | int(number))
    state.num.events += 1


# ----------------------------------------------------------------------- rings


@twin_of("schedbed.scheduler.simulate.tracked_nodes:Ring.add")
@compiled
def ring_add(state: State, ring: int, node: int) -> None:
    rank = state.nodes[node].rank
    state.bits[ring, rank // WORD] |= 1 << (rank % WORD)


@twin_of("schedbed.scheduler.simulate.tracked_nodes:Ring.remove")
@compiled
def ring_remove(state: State, ring: int, node: int) -> None:
    rank = state.nodes[node].rank
    state.bits[ring, rank // WORD] &= ~(1 << (rank % WORD))


@compiled
def first_from(state: State, ring: int, rank: int) -> int:
    """Return the smallest rank, by heartbeat timers, of the ring's nodes from `rank` on, or -1."""
    words = state.bits.shape[1]
    word = rank // WORD
    if word >= words:
        return -1
    found = (state.bits[ring, word] >> (rank % WORD)) << (rank % WORD)
    while found == 0:
        word += 1
        if word >= words:
            return -1
        found = state.bits[ring, word]
    bit = 0
    while not (found >> bit) & 0xFF:
        bit += 8
    while not (found >> bit) & 1:
        bit += 1
    return word * WORD + bit


@compiled
def last_before(state: State, ring: int, rank: int) -> int:
    """Return the largest rank, by heartbeat timers, of the ring's nodes below `rank`, or -1."""
    word = rank // WORD
    words = state.bits.shape[1]
    found = 0
    if word < words:
        found = state.bits[ring, word] & ((1 << (rank % WORD)) - 1)
    while found == 0:
        word -= 1
        if word < 0:
            return -1
        found = state.bits[ring, word]
    bit = WORD - 1
    while not (found >> bit) & 1:
        bit -= 1
    return word * WORD + bit


@twin_of("schedbed.scheduler.simulate.event_queue:EventQueue.passed")
@compiled
def passed(state: State) -> int:
    """Return the highest node whose timer has fired at the current time, or -1."""
    return state.num.passed if state.sec.passed_at == state.sec.now else -1


@compiled
def next_grid(state: State, node: int, now_s: float) -> float:
    """Return the time in seconds at which the node's heartbeat timer fires next."""
    return grid_behind(state, node, now_s, passed(state))


@twin_of("schedbed.scheduler.simulate.tracked_nodes:next_grid_s")
@compiled
def grid_behind(state: State, node: int, now_s: float, done: int) -> float:
    """Return the time in seconds at which the node's timer fires next, if those up to `done` have fired at `now_s`.

    Mirrors `tracked_nodes.next_grid_s`.
    """
    interval_s = state.sec.interval
    base_s = state.nodes[node].number_0
    number = max(1, int((now_s - base_s) / interval_s))
    at_s = base_s + number * interval_s
    while at_s < now_s or (at_s == now_s and node <= done):
        number += 1
        at_s = base_s + number * interval_s
    return at_s


@compiled
def ring_after(state: State, ring: int, now_s: float) -> tuple[float, int]:
    """Return the time and the node of the next heartbeat timer in a ring, or (0.0, -1) if the ring is empty."""
    return ring_behind(state, ring, now_s, passed(state))


@twin_of("schedbed.scheduler.simulate.tracked_nodes:Ring.after")
@compiled
def ring_behind(state: State, ring: int, now_s: float, done: int) -> tuple[float, int]:
    """Return the time and the node of the next timer in a ring, if those up to node `done` have fired at `now_s`.

    A ring is a set of nodes sorted by their heartbeat timers. Mirrors `tracked_nodes.Ring.after`.
    """
    cut_s = now_s % state.sec.interval
    low, high = 0, len(state.ring_s)
    while low < high:
        middle = (low + high) >> 1
        if state.ring_s[middle] < cut_s:
            low = middle + 1
        else:
            high = middle
    end = state.bits.shape[1] * WORD
    here = first_from(state, ring, low)
    if here < 0:
        here = first_from(state, ring, 0)
    if here < 0:
        return 0.0, -1
    before = last_before(state, ring, low)
    if before < 0:
        before = last_before(state, ring, end)
    behind = first_from(state, ring, here + 1)
    if behind < 0:
        behind = first_from(state, ring, 0)
    best_s, best = 0.0, -1
    for rank in (before, here, behind):
        node = state.ring_node[rank]
        at_s = grid_behind(state, node, now_s, done)
        if best < 0 or at_s < best_s or (at_s == best_s and node < best):
            best_s, best = at_s, node
    return best_s, best


# ---------------------------------------------------------------------- timers


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.want")
@compiled
def want(state: State, node: int, now_s: float) -> None:
    """Schedule a heartbeat at the node's next timer, unless one is."""
    entry = state.nodes[node]
    if entry.grid < 0.0:
        entry.grid = next_grid(state, node, now_s)
        push_event(state, entry.grid, TIMER_EVENT, node)


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.want_any")
@compiled
def want_any(state: State, now_s: float) -> None:
    """Schedule a heartbeat of the node whose timer fires next among all nodes. Mirrors `TimerSchedule.want_any`."""
    _, node = ring_after(state, 0, now_s)
    if node >= 0:
        want(state, node, now_s)


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.set_off",
    "schedbed.scheduler.simulate.skipping:TimerSchedule.want_until",
)
@compiled
def set_off(state: State, node: int, now_s: float) -> None:
    """Schedule a heartbeat without waiting for the timer, unless one is."""
    entry = state.nodes[node]
    if entry.event >= now_s:
        return
    at_s = now_s + state.sec.request
    entry.event = at_s
    push_event(state, at_s, HEARTBEAT_EVENT, node)
    if entry.grid < 0.0 and entry.timer <= at_s:
        entry.timer = next_grid(state, node, now_s)
        if entry.timer <= at_s:
            want(state, node, now_s)

"""Chains of wake-ups, which offer new work to nodes in turn at their heartbeat timers (compiled).

Mirrors `scheduler.simulate.skipping`, with numbers: chain c wakes the nodes of ring c + 1, sorted by timer.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.asking.asked_policy import NOBODY, RESTS, TURNED, ask
from schedbed.scheduler.simulate.compiled.heaps import ring_add, ring_after, ring_remove, want
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    State,
)


@compiled
def _forget(state: State, chain: int) -> None:
    """Make a chain stop waiting for a heartbeat timer."""
    if state.chains[chain].node >= 0:
        state.chains[chain].node = -1
        count = state.num.waiting_chains
        for place in range(count):
            if state.waiting[place] == chain:
                state.waiting[place] = state.waiting[count - 1]
                break
        state.num.waiting_chains = count - 1


@twin_of("schedbed.scheduler.simulate.skipping:Chain.advance")
@compiled
def advance(state: State, chain: int, now_s: float) -> None:
    """Schedule the next node's heartbeat, and wait for its timer, unless the chain ends or no task is ready."""
    _forget(state, chain)
    if (chain == 0 and state.num.ready[0] == 0) or (chain == 1 and state.num.ready[1] == 0):
        return
    at_s, node = ring_after(state, chain + 1, now_s)
    if node >= 0 and at_s <= state.chains[chain].until:
        want(state, node, now_s)
        entry = state.chains[chain]
        entry.at = at_s
        entry.node = node
        state.waiting[state.num.waiting_chains] = chain
        state.num.waiting_chains += 1


@twin_of("schedbed.scheduler.simulate.skipping:Chain.start")
@compiled
def start(state: State, chain: int, now_s: float) -> None:
    """Schedule heartbeats of ring `chain` + 1 in turn, for one interval."""
    state.chains[chain].until = now_s + state.sec.interval
    advance(state, chain, now_s)


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.advance_waiting")
@compiled
def advance_waiting(state: State, node: int, now_s: float) -> None:
    """Advance each chain that waited for the node's timer at `now_s`."""
    place = 0
    while place < state.num.waiting_chains:
        chain = state.waiting[place]
        if state.chains[chain].node == node and state.chains[chain].at == now_s:
            advance(state, chain, now_s)  # The chain leaves this place and may be appended again.
        else:
            place += 1


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.changed")
@compiled
def changed(state: State, now_s: float) -> None:
    """Start chains for nodes with free slots if tasks became ready since the last call."""
    num = state.num
    ready = num.ready[0] > 0
    if ready != (num.saw[0] > 0):
        num.saw[0] = 1 if ready else 0
        if ready:
            start(state, 0, now_s)
    ready = num.ready[1] > 0
    if ready != (num.saw[1] > 0):
        num.saw[1] = 1 if ready else 0
        if ready:
            start(state, 1, now_s)
    if num.may_rest:
        _end_rests(state, now_s)


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule._end_rests")
@compiled
def _end_rests(state: State, now_s: float) -> None:
    """Place resting nodes again if the policy may now have a task for them."""
    num = state.num
    if ask(state, NOBODY, TURNED) < 0:
        return
    count = num.resting
    num.resting = 0
    for place in range(count):
        state.nodes[state.resting[place]].in_resting = 0
    for place in range(count):
        _place(state, state.resting[place], now_s)  # It may rest again, in this place or an earlier one.


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.served")
@compiled
def served(state: State, node: int, now_s: float) -> None:
    """Update rings 1 and 2 (free slots) after a heartbeat, and schedule the timer if a task is ready."""
    num = state.num
    if num.always:
        want(state, node, now_s)
        return
    maps_ready, reduces_ready = num.ready[0] > 0, num.ready[1] > 0
    if maps_ready != (num.saw[0] > 0) or reduces_ready != (num.saw[1] > 0):
        changed(state, now_s)
    if num.may_rest:
        _end_rests(state, now_s)
    _place(state, node, now_s)


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule._place")
@compiled
def _place(state: State, node: int, now_s: float) -> None:
    """Put the node into the rings of free slots unless it rests, with its timer if it may get a task."""
    num, entry = state.num, state.nodes[node]
    free_map = num.ignores_slots > 0 or entry.free_maps > 0
    free_reduce = num.ignores_slots > 0 or entry.free_reduces > 0
    if num.may_rest and ask(state, node, RESTS) >= 0:
        free_map = free_reduce = False
        if not entry.in_resting:
            entry.in_resting = 1
            state.resting[num.resting] = node
            num.resting += 1
    if free_map != (entry.in_maps > 0):
        entry.in_maps = 1 if free_map else 0
        if free_map:
            ring_add(state, 1, node)
        else:
            ring_remove(state, 1, node)
    if free_reduce != (entry.in_reduces > 0):
        entry.in_reduces = 1 if free_reduce else 0
        if free_reduce:
            ring_add(state, 2, node)
        else:
            ring_remove(state, 2, node)
    if (free_map and num.saw[0] > 0) or (free_reduce and num.saw[1] > 0):
        want(state, node, now_s)


# ----------------------------------------------------------------------- feeds


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._reduce_starts",
    "schedbed.scheduler.simulate.skipping:TimerSchedule.reducer",
)
@compiled
def reduce_starts(state: State, job: int, node: int) -> None:
    """Count a starting reduce. The first puts the node into the ring that needs the job's map outputs."""
    entry, jobs = state.nodes[node], state.jobs
    for place in range(entry.reducing):
        if state.reducing[node, place].job == job:
            state.reducing[node, place].reduces += 1
            return
    new = state.reducing[node, entry.reducing]
    new.job = job
    new.reduces = 1
    entry.reducing += 1
    if jobs[job].chain < 0:
        state.num.chains -= 1
        jobs[job].chain = state.chain_free[state.num.chains]
        chain = state.chains[jobs[job].chain]
        chain.until = -1.0
        chain.node = -1
        chain.members = 0
    state.chains[jobs[job].chain].members += 1
    ring_add(state, jobs[job].chain + 1, node)


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._reduce_ended",
    "schedbed.scheduler.simulate.skipping:TimerSchedule.reducer",
)
@compiled
def reduce_ended(state: State, job: int, node: int) -> None:
    """Count an ended reduce. The last takes the node out of the ring that needs the job's map outputs."""
    entry, jobs = state.nodes[node], state.jobs
    for place in range(entry.reducing):
        if state.reducing[node, place].job == job:
            state.reducing[node, place].reduces -= 1
            if state.reducing[node, place].reduces > 0:
                return
            last = state.reducing[node, entry.reducing - 1]
            state.reducing[node, place].job = last.job
            state.reducing[node, place].reduces = last.reduces
            entry.reducing -= 1
            chain = jobs[job].chain
            ring_remove(state, chain + 1, node)
            state.chains[chain].members -= 1
            if state.chains[chain].members == 0:
                _forget(state, chain)
                state.chain_free[state.num.chains] = chain
                state.num.chains += 1
                jobs[job].chain = -1
            return


@twin_of("schedbed.scheduler.simulate.skipping:TimerSchedule.fed")
@compiled
def fed(state: State, job: int, now_s: float) -> None:
    """Wake the nodes with reduces of the job at their timers; replies announce new outputs."""
    if state.jobs[job].chain >= 0:
        start(state, state.jobs[job].chain, now_s)

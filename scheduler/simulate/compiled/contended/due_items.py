"""The agenda: a heap of when timers of contending attempts expire and flows end (compiled).

Mirrors `cluster.virtual.agenda`, but with numbers of records, which are reused.
"""

from __future__ import annotations

from math import inf

from schedbed.scheduler.simulate.compiled.contended.flow_records import ITEM_BITS, ITEM_MASK
from schedbed.scheduler.simulate.compiled.heaps import heap_drop, heap_push
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@compiled
def new_item(state: State, work: int, role: int) -> int:
    """Return an unused record's number, as a timer or flow with a `role` such as `START` or `FETCH`."""
    state.num.free_items -= 1
    item = state.item_free[state.num.free_items]
    flow = state.flows[item]
    flow.work = work
    flow.role = role
    flow.due = flow.queued = inf
    flow.ways = 0
    flow.live = 1
    flow.seen = 0
    return item


@twin_of("schedbed.cluster.virtual.agenda:Agenda.cancel")
@compiled
def drop_item(state: State, item: int) -> None:
    """Cancel a timer or flow. Its entries stay in the heap; the record is reused when none is left."""
    flow = state.flows[item]
    flow.due = inf
    flow.live = 0
    if flow.entries == 0:
        _free(state, item)


@compiled
def _free(state: State, item: int) -> None:
    state.item_free[state.num.free_items] = item
    state.num.free_items += 1


@twin_of("schedbed.cluster.virtual.agenda:Agenda.at")
@compiled
def at(state: State, item: int, due_s: float) -> None:
    """Set the time at which a timer expires or a flow ends to `due_s`. Mirrors `Agenda.at`."""
    flow, num = state.flows[item], state.num
    flow.due = due_s
    if due_s < flow.queued:
        flow.queued = due_s
        flow.entries += 1
        num.item_serial += 1
        code = (num.item_serial << ITEM_BITS) | item
        heap_push(state.agenda_s, state.agenda_code, num.agenda, due_s, code)
        num.agenda += 1


@compiled
def _take_first(state: State) -> int:
    item = state.agenda_code[0] & ITEM_MASK
    heap_drop(state.agenda_s, state.agenda_code, state.num.agenda)
    state.num.agenda -= 1
    state.flows[item].entries -= 1
    return item


@twin_of("schedbed.cluster.virtual.agenda:Agenda.next_s")
@compiled
def next_s(state: State) -> float:
    """Return when the next timer expires or flow ends, or infinity."""
    while state.num.agenda > 0:
        at_s = state.agenda_s[0]
        flow = state.flows[state.agenda_code[0] & ITEM_MASK]
        if flow.due == at_s:
            return at_s
        item = _take_first(state)
        if flow.queued == at_s:
            flow.queued = inf
            if flow.due < inf:
                at(state, item, flow.due)
        if flow.live == 0 and flow.entries == 0:
            _free(state, item)
    return inf


@twin_of("schedbed.cluster.virtual.agenda:Agenda.pop")
@compiled
def pop(state: State) -> int:
    """Remove the next timer or flow, and set the time to its. Call `next_s` immediately before."""
    state.sec.agenda_s = state.agenda_s[0]
    item = _take_first(state)
    state.flows[item].queued = state.flows[item].due = inf
    return item

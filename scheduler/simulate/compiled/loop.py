"""The main loop of the compiled simulator. Mirrors `scheduler.simulate.simulation`.

It pauses when Python must write rows, request a block from the NameNode, or enlarge arrays.
"""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any

import numba
from numba.experimental import structref

from schedbed.scheduler.simulate.compiled import attempt_steps, core_steps, timer_chains
from schedbed.scheduler.simulate.compiled.asking.asked_policy import JOINED, TICKED, tell
from schedbed.scheduler.simulate.compiled.contended import contended
from schedbed.scheduler.simulate.compiled.contended.works import write
from schedbed.scheduler.simulate.compiled.heaps import heap_drop, push_event, ring_add, set_off, want_any
from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled, entry, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    ALL,
    COMMIT_EVENT,
    DUE_EVENT,
    HEARTBEAT_EVENT,
    JOIN_EVENT,
    REPLY_EVENT,
    SHIFT,
    TICK_EVENT,
    TIMER_EVENT,
    State,
)

GOES_ON, OVER, STUCK, NEEDS_BLOCK, NEEDS_ROOM, GAVE_UP = range(6)
TAKING, REPLYING = 1, 2


@twin_of("schedbed.scheduler.simulate.event_queue:EventQueue.pass_timers")
@compiled
def _pass_timers(state: State, number: int) -> None:
    state.sec.passed_at = state.sec.now
    state.num.passed = number


@twin_of("schedbed.scheduler.simulate.simulation:Simulation.want_tick")
@compiled
def _want_tick(state: State, now_s: float, now_too: bool) -> None:
    """Schedule the next tick, a multiple of the heartbeat interval, `now_too` even now, unless one is."""
    if state.sec.tick < 0.0:
        interval_s = state.sec.interval
        number = max(1, int(now_s / interval_s))
        while number * interval_s < now_s or (number * interval_s == now_s and not now_too):
            number += 1
        state.sec.tick = number * interval_s
        push_event(state, state.sec.tick, TICK_EVENT, 0)


@twin_of("schedbed.scheduler.simulate.simulation:Simulation._on_tick")
@compiled
def _on_tick(state: State, now_s: float) -> None:
    _pass_timers(state, ALL)
    state.sec.tick = -1.0
    if state.num.acts_on_ticks:
        _want_tick(state, now_s, False)
    if state.sec.due <= now_s:
        core_steps.submit_due(state, now_s)
    tell(state, TICKED, 0)
    if state.num.acts_on_ticks:
        core_steps.hear_stops(state, now_s)
    timer_chains.changed(state, now_s)


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.on_event")
@compiled
def _on_heartbeat(state: State, node: int, now_s: float) -> None:
    if state.nodes[node].event == now_s:
        state.nodes[node].event = -1.0
        core_steps.heartbeat(state, node, now_s)


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.on_timer")
@compiled
def _on_timer(state: State, node: int, now_s: float) -> None:
    _pass_timers(state, node)
    if state.nodes[node].grid == now_s:
        state.nodes[node].grid = -1.0
        state.nodes[node].timers += 1
        core_steps.heartbeat(state, node, now_s)
    timer_chains.advance_waiting(state, node, now_s)


@compiled
def _on_reply(state: State, number: int, now_s: float) -> None:
    if state.num.is_fluid:
        state.num.doing, state.num.at_reply, state.num.at_item, state.num.at_run = REPLYING, number, 0, -1
        return
    reply = state.replies[number % len(state.replies)]
    for place in range(reply.first, reply.first + reply.count):
        job = state.reply_items[place % len(state.reply_items)].job
        if job < 0:
            attempt_steps.stop(state, -1 - job, reply.node, now_s)
        else:
            attempt_steps.all_told(state, reply.node, job, now_s)
    _reply_done(state, reply.count)


@compiled
def _reply_done(state: State, count: int) -> None:
    state.num.replies_done += 1
    state.num.items_done += count


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.on_reply")
@compiled
def _tell_reduces(state: State, now_s: float) -> bool:
    """Tell a node's reduces of a reply's map outputs. Return False to pause; the next call continues."""
    num = state.num
    reply = state.replies[num.at_reply % len(state.replies)]
    while num.at_item < reply.count:
        news = state.reply_items[(reply.first + num.at_item) % len(state.reply_items)]
        if num.at_run < 0:
            if not contended.advance(state, now_s):
                return False
            contended.note_news(state, reply.node, news.job, news.until, news.all_done)
            num.at_run = 0
        while num.at_run < state.nodes[reply.node].runs:
            if num.wants > 0 or not contended.has_room(state):
                return False
            num.at_run += 1
            contended.hear_at(state, reply.node, num.at_run - 1, news.job, news.since, news.until)
        if num.wants > 0:
            return False
        num.at_item += 1
        num.at_run = -1
    _reply_done(state, reply.count)
    return True


@twin_of(
    "schedbed.scheduler.simulate.simulation:Simulation._join",
    "schedbed.scheduler.simulate.simulation:Simulation._on_due",
    "schedbed.scheduler.simulate.simulation:Simulation._on_commit",
)
@compiled
def _happen(state: State, kind: int, number: int, now_s: float) -> None:
    """Process one event of the event queue. Depending on `kind`, `number` is a node, a reply or another object."""
    if kind == TIMER_EVENT:
        _on_timer(state, number, now_s)
    elif kind == HEARTBEAT_EVENT:
        _on_heartbeat(state, number, now_s)
    elif kind == COMMIT_EVENT:
        core_steps.committed(state, state.commits[number])
        timer_chains.changed(state, now_s)
    elif kind == REPLY_EVENT:
        _on_reply(state, number, now_s)
    elif kind == JOIN_EVENT:
        tell(state, JOINED, number)
        ring_add(state, 0, number)
        state.nodes[number].asked = now_s
        set_off(state, number, now_s)
        core_steps.note(state, number, now_s)
        timer_chains.changed(state, now_s)
        if state.num.always:
            timer_chains.served(state, number, now_s)
    elif kind == DUE_EVENT:
        if state.sec.due <= now_s:
            want_any(state, now_s)
            _want_tick(state, now_s, True)
    elif kind == TICK_EVENT:
        _on_tick(state, now_s)


@compiled
def _carry_on(state: State, now_s: float) -> bool:
    """Continue an event that waited for a block or room, or return False to pause again."""
    if state.num.doing == TAKING:
        done = contended.take(state, now_s)
    else:
        done = _tell_reduces(state, now_s)
    if done:
        state.num.doing = 0
    return done


@compiled
def _rows_are_full(state: State, slack: int) -> bool:
    num = state.num
    return (
        num.n_decisions + slack > len(state.decision_rows)
        or num.n_heartbeats + 1 + len(state.nodes) > len(state.heartbeat_rows)
        or num.n_files + len(state.end_s) + 2 > len(state.file_rows)
    )


@compiled
def _has_room(state: State) -> bool:
    """Return whether the arrays for queues and replies have space for the entries that one event may add."""
    num = state.num
    return (
        contended.has_room(state)
        and num.replies - num.replies_done < len(state.replies)
        and num.reply_items - num.items_done + state.feeds.shape[1] <= len(state.reply_items)
    )


@twin_of("schedbed.scheduler.simulate.simulation:Simulation._run")
@compiled
def _next(state: State) -> bool:
    """Process the next event, either from the event queue or of an attempt. Return False if there is none."""
    num, sec = state.num, state.sec
    if num.is_fluid:
        emulated_s = contended.next_s(state)
    else:
        emulated_s = state.end_s[0] if num.ends > 0 else inf
    if num.events > 0 and state.event_s[0] < emulated_s:
        now_s, code = state.event_s[0], state.event_code[0]
        heap_drop(state.event_s, state.event_code, num.events)
        num.events -= 1
        sec.now = now_s
        _happen(state, code >> SHIFT, code & ALL, now_s)
    elif emulated_s == inf:
        return False
    else:
        sec.now = max(sec.now, emulated_s)
        if num.is_fluid:
            num.doing = TAKING
        else:
            attempt_steps.take(state, sec.now)
    return True


@twin_of(
    "schedbed.scheduler.simulate.simulation:Simulation._run",
    "schedbed.scheduler.simulate.simulation:Simulation._finish",
)
@compiled
def _run(state: State, slack: int) -> int:
    num, sec = state.num, state.sec
    if num.wants > 0:
        write(state)
    while not num.ended:
        if num.doing == 0:
            if _rows_are_full(state, slack):
                return GOES_ON
            if num.is_fluid and not _has_room(state):
                return NEEDS_ROOM
            if not _next(state):
                return STUCK
        if num.doing != 0 and not _carry_on(state, sec.now):
            return NEEDS_BLOCK if num.wants > 0 else NEEDS_ROOM
        if num.gave_up:
            return GAVE_UP
        if sec.due == inf and num.active_jobs == 0 and num.live == 0:
            num.ended = 1
            for node in range(len(state.nodes)):
                core_steps.note(state, node, sec.now)
    return OVER


@entry
def run_loop(arrays: State, slack: int) -> int:
    """Run until the simulation ends or must pause, and return why.

    `OVER`: it has ended. `GOES_ON`: a table has fewer than `slack` free rows. `NEEDS_BLOCK`: an attempt waits
    for a block's nodes. `NEEDS_ROOM`: arrays are full. `STUCK`: jobs wait, but no event is left. `GAVE_UP`: a
    policy in Python, or what it needs, failed.
    """
    return _run(handle_of(arrays), slack)


def _run_asking(arrays: State, slack: int) -> int:
    """Run as `run_loop`, but keep other threads waiting, except during questions to a policy in Python."""
    return _run(handle_of(arrays), slack)


run_asking = entry(_run_asking, nogil=False)


def compile_both() -> None:
    """Make machine code of both `run_loop` and `run_asking`, of which one has run."""
    if not CONFIG.DISABLE_JIT:
        loops: tuple[Any, Any] = run_loop, run_asking
        [known, *_] = [signature for loop in loops for signature in loop.signatures]
        for loop in loops:
            loop.compile(known)


# A pointer to all arrays of the compiled loop.
#
# Compiled functions pass this one pointer to each other, which is fast and shortens compilation.


@structref.register
class HandleType(numba.types.StructRef):
    """The numba type of a `Handle` in compiled code."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Return the fields, whose types numba could adjust here."""
        return fields

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Return a short name for symbols: with the names of all fields, it would dominate the code's size."""
        return "Handle", ()

    def get_data_type(self) -> Any:
        """Return the fields' type, cached because numba asks at each access."""
        return self._payload

    @cached_property
    def _payload(self) -> Any:
        return super().get_data_type()


class Handle(structref.StructRefProxy):
    """A pointer to the fields of a `State`. Only compiled code creates handles."""


structref.define_proxy(Handle, HandleType, list(State._fields))

_MADE = f"def make(s):\n    return Handle({', '.join(f's.{name}' for name in State._fields)})"


def _make() -> Any:
    """Return a function `State` -> `Handle`, generated as text: each field is a separate argument."""
    scope: dict[str, Any] = {"Handle": Handle}
    exec(_MADE, scope)  # Numba cannot unpack a named tuple with a star.
    return scope["make"]


def _same(state: Any) -> Any:
    return state


handle_of = _same if CONFIG.DISABLE_JIT else compiled(_make())

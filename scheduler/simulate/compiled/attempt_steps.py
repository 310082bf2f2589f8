"""Start and end of attempts in simulations without contention for resources (compiled).

Mirrors `cluster.virtual.exact.exact`, but a task has at most one attempt at a time, which succeeds unless it
is stopped.
"""

from __future__ import annotations

import math

from schedbed.scheduler.simulate.compiled.contended.board_arrays import board_of, own_board
from schedbed.scheduler.simulate.compiled.heaps import heap_drop, heap_push, heap_remove, set_off
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import WRITTEN, State

TASK_BITS = 31
TASK_MASK = (1 << TASK_BITS) - 1


@twin_of("schedbed.cluster.virtual.exact.exact:ExactEmulation.launch")
@compiled
def launch(state: State, task: int, node: int, now_s: float) -> None:
    """Start an attempt. A map's end is scheduled at once, a reduce's when all outputs were announced."""
    entry, run = state.nodes[node], state.tasks[task]
    run.start = now_s + entry.latency
    run.since = run.start
    run.work = 0.0
    state.runs[node, entry.runs] = task
    entry.runs += 1
    if run.is_map:
        run.work = _map_seconds(state, task, node)
        _schedule(state, task, run.start + run.work)
        return
    run.waits = 1
    if _is_complete(state, node, run.job):
        _start_reduce(state, task, node, now_s)


@twin_of("schedbed.cluster.virtual.exact.exact:ExactEmulation._schedule")
@compiled
def _schedule(state: State, task: int, due_s: float) -> None:
    state.num.serial += 1
    code = (state.num.serial << TASK_BITS) | task
    heap_push(state.end_s, state.end_code, state.num.ends, due_s, code)
    state.num.ends += 1


@twin_of("schedbed.cluster.virtual.exact.exact:write_seconds")
@compiled
def _write_seconds(state: State, node: int, output_bytes: int) -> float:
    """Return the seconds for writing `output_bytes` bytes to the node's disk. Mirrors `phase_costs.write_seconds`."""
    return output_bytes / state.nodes[node].disk


@twin_of("schedbed.cluster.virtual.exact.exact:send_seconds")
@compiled
def _send_seconds(state: State, node: int, output_bytes: int) -> float:
    """Return the seconds to send the output's replicas to other nodes, 0 with a single replica."""
    return output_bytes / state.nodes[node].network if state.num.replication >= 2 else 0.0


@twin_of(
    "schedbed.cluster.virtual.exact.exact:ExactCosts.of_map",
    "schedbed.cluster.virtual.plan_arithmetic:spilled_bytes",
)
@compiled
def _map_seconds(state: State, task: int, node: int) -> float:
    """Return a map's seconds on the node. Also stores the bytes that it reads and spills."""
    run, entry = state.tasks[task], state.nodes[node]
    cost = state.costs[run.cost]
    local, remote, remote_s = cost.read, 0, 0.0
    if run.reads_block:
        source = source_of(state, task, node)
        if source != node:
            local, remote = 0, cost.read
            other = state.nodes[source]
            remote_s = remote / min(min(other.disk, other.network), entry.network)
    run.local_bytes, run.remote_bytes = local, remote
    shuffled = state.jobs[run.job].reduces > 0
    spill = max(cost.spill, cost.output) if shuffled else 0
    run.spill_bytes = spill
    if not math.isnan(cost.duration):
        return cost.duration + remote_s
    merged = max(0, spill - cost.output)
    spill_s = (spill + merged) / entry.disk
    write_s = 0.0 if shuffled else _write_seconds(state, node, cost.output)
    send_s = 0.0 if shuffled else _send_seconds(state, node, cost.output)
    if cost.sort_cpu == 0.0:
        local_s = local / entry.disk
        return max(max(cost.cpu, local_s + spill_s + write_s), max(remote_s, send_s))
    read_s = max(max(cost.cpu, local / entry.disk), remote_s)
    return read_s + max(max(cost.sort_cpu, spill_s + write_s), send_s)


@twin_of("schedbed.cluster.virtual.exact.exact:ExactCosts._source")
@compiled
def source_of(state: State, task: int, node: int) -> int:
    """Return the node that a map reads from: `node` itself, else of its rack, else any with a replica."""
    run = state.tasks[task]
    for at in range(run.holders_at, run.holders_end):
        if state.holder[at] == node:
            return node
    rack = state.nodes[node].rack
    beside = far = 0
    for at in range(run.holders_at, run.holders_end):
        if state.nodes[state.holder[at]].rack == rack:
            beside += 1
        else:
            far += 1
    index = task - state.jobs[run.job].first
    if task >= state.num.tasks:
        index = state.parts[task - state.num.tasks].index
    turn = index % (beside if beside else far)
    for at in range(run.holders_at, run.holders_end):
        other = state.holder[at]
        if not beside or state.nodes[other].rack == rack:
            if turn == 0:
                return other
            turn -= 1
    return node


# --------------------------------------------------------------------- reduces


@compiled
def _is_complete(state: State, node: int, job: int) -> bool:
    board = board_of(state, node, job)
    return board >= 0 and state.boards[board].all_done > 0


@twin_of("schedbed.cluster.virtual.exact.exact:ExactEmulation.map_outputs")
@compiled
def all_told(state: State, node: int, job: int, now_s: float) -> None:
    """Note that all map outputs were announced to the node, and start the reduces that waited for them."""
    state.boards[own_board(state, node, job)].all_done = 1
    for place in range(state.nodes[node].runs):
        task = state.runs[node, place]
        if state.tasks[task].waits and state.tasks[task].job == job:
            _start_reduce(state, task, node, now_s)


@twin_of(
    "schedbed.cluster.virtual.exact.exact:ExactEmulation._try_reduce",
    "schedbed.cluster.virtual.exact.exact:ExactCosts.of_reduce",
)
@compiled
def _start_reduce(state: State, task: int, node: int, now_s: float) -> None:
    """Compute a reduce's duration and schedule its end. Called when all map outputs were announced."""
    run, entry = state.tasks[task], state.nodes[node]
    cost = state.costs[run.cost]
    run.waits = 0
    run.shuffle_bytes = cost.read
    run.spill_bytes = cost.spill
    begin_s = max(now_s, run.start)
    shuffle_s = sort_s = 0.0
    if math.isnan(cost.duration):
        job = state.jobs[run.job]
        here = 0
        for other in range(job.first, job.first + job.maps):
            if state.tasks[other].node == node:
                here += 1
        part = job.parts
        while part >= 0:
            if state.tasks[part].node == node:
                here += 1
            part = state.parts[part - state.num.tasks].next
        away = 1 - here / max(1, state.stages[2 * run.job].total)
        shuffle_s = cost.read * max((1 - away) / entry.disk, away / entry.network)
        sort_s = max(cost.sort_cpu, 2 * cost.spill / entry.disk)
        output_s = max(_write_seconds(state, node, cost.output), _send_seconds(state, node, cost.output))
        run.work = shuffle_s + sort_s + max(cost.cpu, output_s)
    else:
        run.work = cost.duration
    run.shuffle_end = begin_s + shuffle_s
    run.sort_end = begin_s + shuffle_s + sort_s
    run.since = begin_s
    _schedule(state, task, begin_s + run.work)


# ------------------------------------------------------------------------ ends


@compiled
def writes_file(state: State, task: int) -> bool:
    run = state.tasks[task]
    return state.costs[run.cost].output > 0 and (not run.is_map or state.jobs[run.job].reduces == 0)


@compiled
def note_file(state: State, at_s: float, number: int, step: int) -> None:
    """Record a file change for the NameNode, which Python passes on when the compiled loop pauses.

    `step` is `WRITTEN` or `IN_PLACE` (committed) for the task `number`, or `JOB_OVER` for the job `number`.
    """
    row = state.file_rows[state.num.n_files]
    state.num.n_files += 1
    row.t = at_s
    row.number = number
    row.step = step


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.take",
    "schedbed.cluster.virtual.exact.exact:ExactEmulation._end",
)
@compiled
def take(state: State, now_s: float) -> None:
    """Queue the reports of attempts that ended by `now_s`, and schedule heartbeats that send them."""
    while state.num.ends > 0 and state.end_s[0] <= now_s:
        at_s, task = state.end_s[0], state.end_code[0] & TASK_MASK
        heap_drop(state.end_s, state.end_code, state.num.ends)
        state.num.ends -= 1
        state.tasks[task].end = at_s
        node = state.tasks[task].node
        _end_run(state, node, _place_of(state, node, task), at_s)
        if writes_file(state, task):
            note_file(state, at_s, task, WRITTEN)
        _will_report(state, node, task, now_s)


@compiled
def _place_of(state: State, node: int, task: int) -> int:
    """Return the task's place in the node's list of running tasks, or its length."""
    place, count = 0, state.nodes[node].runs
    while place < count and state.runs[node, place] != task:
        place += 1
    return place


@compiled
def _end_run(state: State, node: int, place: int, at_s: float) -> None:
    """Remove the task at the position `place` from the node's list of running tasks, and count what it used."""
    entry, task = state.nodes[node], state.runs[node, place]
    entry.runs -= 1
    for at in range(place, entry.runs):
        state.runs[node, at] = state.runs[node, at + 1]
    _count(state, node, task, at_s)
    entry.running -= 1


@compiled
def _will_report(state: State, node: int, finished: int, now_s: float) -> None:
    """Add an ended attempt, and schedule the heartbeat that reports it."""
    entry = state.nodes[node]
    state.finished[node, entry.finished] = finished
    entry.finished += 1
    set_off(state, node, now_s)


@twin_of(
    "schedbed.cluster.virtual.exact.exact:ExactEmulation.kill",
    "schedbed.cluster.virtual.exact.exact:ExactEmulation._stop",
)
@compiled
def stop(state: State, task: int, node: int, now_s: float) -> None:
    """Stop an attempt unless it has ended. In the list of ended ones it is -1 minus the task's number."""
    place = _place_of(state, node, task)
    if place == state.nodes[node].runs:
        return
    if not state.tasks[task].waits:
        entry = 0
        while state.end_code[entry] & TASK_MASK != task:
            entry += 1
        heap_remove(state.end_s, state.end_code, state.num.ends, entry)
        state.num.ends -= 1
    _end_run(state, node, place, now_s)
    state.tasks[task].end = now_s
    _will_report(state, node, -1 - task, now_s)


@twin_of("schedbed.cluster.virtual.exact.exact:ExactNode.count")
@compiled
def _count(state: State, node: int, task: int, now_s: float) -> None:
    """Add the attempt's CPU seconds and disk bytes since the last `usage` to its node's."""
    entry, run = state.nodes[node], state.tasks[task]
    worked_s = now_s - max(run.since, entry.asked)
    if worked_s <= 0.0 or run.waits or run.work == 0.0:
        return
    cost = state.costs[run.cost]
    local = run.local_bytes if run.is_map else 0
    entry.cpu_s += (cost.cpu + cost.sort_cpu) * entry.speed / run.work * worked_s
    entry.disk_bytes += (local + run.spill_bytes) / run.work * worked_s


@twin_of("schedbed.cluster.virtual.exact.exact:ExactEmulation.usage")
@compiled
def usage(state: State, node: int, now_s: float) -> tuple[float, float, float, int]:
    """Return the node's used CPU, disk and network (0 to 1) since the last call, and bytes of memory."""
    entry = state.nodes[node]
    if now_s <= entry.asked:
        return 0.0, 0.0, 0.0, 0
    memory_bytes = 0
    for place in range(entry.runs):
        task = state.runs[node, place]
        run = state.tasks[task]
        cost = state.costs[run.cost]
        if cost.peak and run.work != 0.0:
            left_s = run.work - max(0.0, now_s - run.since)
            memory_bytes += int(cost.peak * min(1.0, max(0.0, 1.0 - left_s / run.work)))
        _count(state, node, task, now_s)
    lasted_s = now_s - entry.asked
    cpu = min(1.0, entry.cpu_s / (entry.cpu_rate * lasted_s))
    disk = min(1.0, entry.disk_bytes / (entry.disk * lasted_s))
    entry.asked = now_s
    entry.cpu_s = 0.0
    entry.disk_bytes = 0.0
    return cpu, disk, 0.0, memory_bytes

"""The choice of one of a job's maps for a node, under greedy locality and delay scheduling (compiled).

Mirrors `scheduler.core.index`, `locality.greedy` and `locality.delay`. The functions `greedy` and `delay`
return a task, the code of a reason, and a value for the reason's text, the seconds that the job has waited.
Instead of a task, `NONE` means that the job offers no map, and `WAITS` that the job waits for a nearer node.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    NO_PREFERENCE,
    NODE_LOCAL,
    OFF_AFTER,
    OFF_BEFORE,
    OFF_RACK,
    RACK_AFTER,
    RACK_BEFORE,
    RACK_LOCAL,
    WAITS_LOCAL,
    WAITS_RACK,
    State,
)

NONE, WAITS = -1, -2


@compiled
def _near(state: State, low: int, high: int, where: int) -> int:
    """Return the next unstarted map with input on the node or rack number `where`, or -1 if there is none.

    `low` and `high` bound the part of `State.near` that lists the job's maps by the node, or by the rack, of
    their input.
    """
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
    """Return an unstarted map of the job whose input is on the node, or -1 if there is none.

    Mirrors `TaskIndex.on_host`.
    """
    return _near(state, state.jobs[job].hosts_at, state.jobs[job].hosts_end, node)


@twin_of("schedbed.scheduler.core.index:TaskIndex.on_rack")
@compiled
def rack_map(state: State, job: int, node: int) -> int:
    """Return an unstarted map of the job whose input is in the node's rack, or -1 if there is none.

    Mirrors `TaskIndex.on_rack`.
    """
    return _near(state, state.jobs[job].racks_at, state.jobs[job].racks_end, state.nodes[node].rack)


@twin_of("schedbed.scheduler.core.index:TaskIndex.anywhere")
@compiled
def free_map(state: State, job: int) -> int:
    """Return an unstarted map of the job that prefers no node, or -1 if there is none.

    Mirrors `TaskIndex.anywhere`.
    """
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
    """Return the job's first unstarted map (`kind` 0) or reduce (1), or -1 if there is none.

    The search begins where the last search ended, since a started task never becomes unstarted again in
    compiled simulations. Mirrors `TaskIndex.first`.
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
    """Return the job's unstarted map nearest to the node, the code of the reason, and 0.0.

    Like the result of `delay`, the last number is a waiting time, which is always 0 here. Mirrors
    `Greedy.pick`.
    """
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
    "schedbed.scheduler.locality.delay:Delay._further",
    "schedbed.scheduler.locality.delay:Delay._wait",
    "schedbed.scheduler.locality.delay:Delay._skip",
    "schedbed.scheduler.locality.delay:Delay._accept",
)
@compiled
def delay(state: State, job: int, node: int) -> tuple[int, int, float]:
    """Return a map of the job for the node, the code of the reason, and the waiting time (s) for its text.

    Instead of a map, returns `WAITS` if delay scheduling makes the job wait for a nearer node, or `NONE` if
    the job was already skipped in the current heartbeat. `State.patience` says where the node has input of
    the job. Mirrors `Delay.pick`.
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
    """Return the seconds that a job must wait before delay scheduling permits off-rack maps.

    `level` is the locality of the job's last map: 0 node-local, 1 rack-local, 2 off-rack.
    """
    return state.sec.rack_wait if level == 1 else state.sec.node_wait + state.sec.rack_wait


@twin_of("schedbed.scheduler.locality.delay:Delay.beat")
@compiled
def waited(state: State, now_s: float) -> None:
    """Add waiting time, until `now_s`, to the jobs that delay scheduling skipped in the last heartbeat.

    Mirrors `Delay.beat`.
    """
    patience, skipped = state.patience, state.skipped
    for place in range(state.num.skipped):
        job = patience[skipped[place]]
        job.wait += now_s - job.skipped
    state.num.skipped = 0

"""The start, the events and the end of attempts that contend for resources (compiled).

Mirrors `cluster.virtual.fluid.fluid`, but all attempts succeed. False means that the loop must pause, for a
block from the NameNode or larger arrays.
"""

from __future__ import annotations

from math import inf

from schedbed.cluster.virtual.fluid.reduce_phases import PARALLEL_COPIES
from schedbed.scheduler.simulate.compiled.contended import due_items
from schedbed.scheduler.simulate.compiled.contended.board_arrays import own_board
from schedbed.scheduler.simulate.compiled.contended.due_items import at, drop_item, new_item
from schedbed.scheduler.simulate.compiled.contended.flow_records import (
    COMPUTE,
    COPY,
    CPU,
    DISK,
    END,
    FETCH,
    IN,
    MAPPING,
    OUT,
    SHUFFLING,
    START,
    WRITE,
)
from schedbed.scheduler.simulate.compiled.contended.link_ways import go_over, narrowest, pass_drive
from schedbed.scheduler.simulate.compiled.contended.sharing import moved_until, resize, settle, start, stop
from schedbed.scheduler.simulate.compiled.contended.works import (
    ask_for_block,
    compute_at,
    end_flow,
    memory_bytes,
    phases,
    start_map,
    stream_over,
)
from schedbed.scheduler.simulate.compiled.heaps import set_off
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import (
    State,
)


@twin_of(
    "schedbed.cluster.virtual.fluid.shared_nodes:SharedCluster.enter",
    "schedbed.cluster.virtual.fluid.shared_nodes:SharedCluster.leave",
    "schedbed.cluster.virtual.fluid.shared_nodes:SharedCluster._page",
    "schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.disk_bps",
    "schedbed.cluster.spec:NodeSpec.paging_factor",
)
@compiled
def _page(state: State, task: int, node: int, sign: int) -> None:
    """Add (1) or subtract (-1) an attempt's declared memory, and slow the disk if the node has too little."""
    host, run, disk = state.hosts[node], state.tasks[task], 4 * node + DISK
    if host.paging == 0.0:
        return
    job = state.jobs[run.job]
    host.claimed += sign * (job.map_memory if run.is_map else job.reduce_memory)
    bps = state.resources[disk].declared
    if host.claimed > host.memory:
        bps = bps / (1.0 + host.paging * (host.claimed / host.memory - 1.0))
    if bps != state.resources[disk].capacity:
        resize(state, disk, bps)


@twin_of(
    "schedbed.cluster.virtual.fluid.running:RunningAttempt.__init__",
    "schedbed.cluster.virtual.fluid.fluid:FluidEmulation.launch",
)
@compiled
def launch(state: State, task: int, node: int, now_s: float) -> None:
    """Create an attempt's record, and schedule the start of its code."""
    num = state.num
    if num.touched > 0 and due_items.next_s(state) > state.sec.agenda_s:
        settle(state)  # Apply the changes of the previous launch first.
    state.sec.agenda_s = now_s
    num.free_work -= 1
    work = state.work_free[num.free_work]
    entry, run, where = state.work[work], state.tasks[task], state.nodes[node]
    entry.task = task
    entry.node = node
    entry.streams = entry.flows = entry.fetching = entry.pending = 0
    entry.started = entry.ended = entry.handling = 0
    entry.fetched = entry.left = 0
    entry.pace = entry.phase_bytes = entry.phase_moved = 0.0
    entry.buffered = entry.on_disk = entry.owed = 0.0
    run.start = now_s + where.latency
    if run.is_map:
        entry.phase = MAPPING
    else:
        entry.phase = SHUFFLING
        entry.picks = task - state.jobs[run.job].first - state.jobs[run.job].maps
        num.free_baskets -= 1
        entry.basket = state.basket_free[num.free_baskets]
    state.runs[node, where.runs] = work
    where.runs += 1
    _page(state, task, node, 1)
    entry.timer = due_items.new_item(state, work, START)
    due_items.at(state, entry.timer, run.start)


@twin_of("schedbed.cluster.virtual.fluid.fluid:FluidEmulation.next_s")
@compiled
def next_s(state: State) -> float:
    """Return the time of the next event, or infinity."""
    if state.num.told > 0:
        return state.sec.agenda_s
    if state.num.touched > 0:
        settle(state)
    return due_items.next_s(state)


@compiled
def has_room(state: State) -> bool:
    """Return whether the arrays of flows and events have space for the entries that one event may add."""
    num, width = state.num, state.way.shape[1]
    return (
        num.free_items >= state.num.room
        and num.agenda + 4 * len(state.flows) <= len(state.agenda_s)
        and num.touched + state.num.room * width <= len(state.touched)
    )


@twin_of("schedbed.cluster.virtual.fluid.max_min:Sharing.advance")
@compiled
def advance(state: State, now_s: float) -> bool:
    """Process all events up to `now_s`, or return False if the loop must pause earlier."""
    sec = state.sec
    while True:
        if state.num.wants > 0 or not has_room(state):
            return False
        at_s = due_items.next_s(state)
        if state.num.touched > 0 and at_s > sec.agenda_s:
            settle(state)
        elif at_s > now_s or at_s == inf:
            break
        else:
            _fire(state, due_items.pop(state))
    sec.agenda_s = max(sec.agenda_s, now_s)
    return True


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.fire")
@compiled
def _fire(state: State, item: int) -> None:
    """Process an event of an attempt: the timer or flow `item` has expired or ended. Mirrors `RunningAttempt.fire`."""
    flow = state.flows[item]
    role, work = flow.role, flow.work
    entry = state.work[work]
    if role == START:
        entry.started = 1
        if state.tasks[entry.task].is_map:
            start_map(state, work)
        else:
            start_reduce(state, work)
    elif role == END:
        _tell(state, work)
    elif role == FETCH:
        fetched(state, item)
    elif role == COPY:
        copied(state, item)
    else:
        end_flow(state, item)
        if role == COMPUTE and entry.phase == SHUFFLING:
            handled(state, work)
        elif role == WRITE and entry.left > 0:
            ask_for_block(state, work)
        else:
            stream_over(state, work)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt._tell")
@compiled
def _tell(state: State, work: int) -> None:
    """Remove an ended attempt from its node, and add its task to `State.told`."""
    entry = state.work[work]
    due_items.drop_item(state, entry.timer)
    where = state.nodes[entry.node]
    place = 0
    while state.runs[entry.node, place] != work:
        place += 1
    where.runs -= 1
    for later in range(place, where.runs):
        state.runs[entry.node, later] = state.runs[entry.node, later + 1]
    _page(state, entry.task, entry.node, -1)
    state.told[state.num.told] = entry.task
    state.num.told += 1
    if not state.tasks[entry.task].is_map:
        state.basket_free[state.num.free_baskets] = entry.basket
        state.num.free_baskets += 1
    state.work_free[state.num.free_work] = work
    state.num.free_work += 1


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.take")
@compiled
def take(state: State, now_s: float) -> bool:
    """Queue reports of ended attempts and schedule their heartbeats, or return False to pause."""
    if not advance(state, now_s):
        return False
    for place in range(state.num.told):
        task = state.told[place]
        node = state.tasks[task].node
        entry = state.nodes[node]
        entry.running -= 1
        state.finished[node, entry.finished] = task
        entry.finished += 1
        set_off(state, node, now_s)
    state.num.told = 0
    return True


@twin_of(
    "schedbed.cluster.virtual.fluid.fluid:FluidEmulation.map_outputs",
    "schedbed.cluster.virtual.boards:AnnouncedOutputs.hear",
)
@compiled
def note_news(state: State, node: int, job: int, until: int, all_done: int) -> None:
    """Note on the board that the first `until` outputs were announced, the first half of `map_outputs`."""
    board = state.boards[own_board(state, node, job)]
    board.heard = until
    board.all_done = all_done


@twin_of("schedbed.cluster.virtual.fluid.fluid:FluidEmulation.map_outputs")
@compiled
def hear_at(state: State, node: int, place: int, job: int, since: int, until: int) -> None:
    """Tell an attempt, if it is a reduce of the job, of outputs [since, until), the second half."""
    work = state.runs[node, place]
    task = state.tasks[state.work[work].task]
    if task.job == job and not task.is_map:
        hear(state, work, since, until)


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.usage")
@compiled
def usage(state: State, node: int, now_s: float) -> tuple[float, float, float, int]:
    """Return the node's used CPU, disk and network (0 to 1) since the last call, and bytes of memory."""
    state.sec.agenda_s = max(state.sec.agenda_s, now_s)
    host, where = state.hosts[node], state.nodes[node]
    cpu, disk = moved_until(state, 4 * node + CPU, now_s), moved_until(state, 4 * node + DISK, now_s)
    tx, rx = moved_until(state, 4 * node + OUT, now_s), moved_until(state, 4 * node + IN, now_s)
    elapsed_s = max(now_s - host.seen, 1e-6)
    network = max(tx - host.tx_seen, rx - host.rx_seen)
    cpu_util = min(1.0, (cpu - host.cpu_seen) / elapsed_s / host.cores)
    disk_util = min(1.0, (disk - host.disk_seen) / elapsed_s / where.disk)
    net_util = min(1.0, network / elapsed_s / where.network)
    host.seen = now_s
    host.cpu_seen = cpu
    host.disk_seen = disk
    host.tx_seen = tx
    host.rx_seen = rx
    held = 0
    for place in range(where.runs):
        held += memory_bytes(state, state.runs[node, place], now_s)
    return cpu_util, disk_util, net_util, held


# The shuffle phase of reduces that contend for resources (compiled).
#
# Mirrors `cluster.virtual.fluid.reduce_phases`. Unlike in that module, no fetch fails, and all reduces of a
# job fetch equal parts of a map's output.


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.start")
@compiled
def start_reduce(state: State, work: int) -> None:
    """Start to fetch the outputs announced before the reduce started."""
    entry = state.work[work]
    board = own_board(state, entry.node, state.tasks[entry.task].job)
    hear(state, work, 0, state.boards[board].heard)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.hear")
@compiled
def hear(state: State, work: int, since: int, until: int) -> None:
    """Add the outputs [since, until) to a reduce's, and start up to `PARALLEL_COPIES` fetches."""
    entry = state.work[work]
    if not entry.started or entry.phase != SHUFFLING or entry.ended:
        return
    job, basket = state.tasks[entry.task].job, entry.basket
    first, part = state.jobs[job].first, entry.task - state.jobs[job].first - state.jobs[job].maps
    for number in range(first + since, first + until):
        output = state.outputs[number]
        source = state.tasks[output].node
        place = 0
        while place < entry.pending and state.pending_node[basket, place] != source:
            place += 1
        if place == entry.pending:
            entry.pending += 1
            state.pending_node[basket, place] = source
            state.pending_count[basket, place] = 0
            state.pending_bytes[basket, place] = 0
        state.pending_count[basket, place] += 1
        state.pending_bytes[basket, place] += _share(state, output, part)
    _fetch(state, work)


@twin_of("schedbed.cluster.virtual.plan_arithmetic:equal_shares")
@compiled
def _share(state: State, output: int, part: int) -> int:
    """Return the bytes of one reduce's part of a map's output."""
    total = state.costs[state.tasks[output].cost].output
    parts = state.jobs[state.tasks[output].job].reduces
    return total * (part + 1) // parts - total * part // parts


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._fetch")
@compiled
def _fetch(state: State, work: int) -> None:
    """Start fetches up to `PARALLEL_COPIES`, or the next phase if the shuffle is over."""
    entry = state.work[work]
    while entry.pending > 0 and entry.fetching < PARALLEL_COPIES:
        entry.picks += 1
        _fetch_from(state, work, entry.picks % entry.pending)
    phases(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._fetch_from")
@compiled
def _fetch_from(state: State, work: int, place: int) -> None:
    """Fetch all pending outputs of one node, the reduce's number `place`. `intake` is not supported."""
    entry = state.work[work]
    basket = entry.basket
    source, count = state.pending_node[basket, place], state.pending_count[basket, place]
    total = float(state.pending_bytes[basket, place])
    entry.pending -= 1
    for later in range(place, entry.pending):
        state.pending_node[basket, later] = state.pending_node[basket, later + 1]
        state.pending_count[basket, later] = state.pending_count[basket, later + 1]
        state.pending_bytes[basket, later] = state.pending_bytes[basket, later + 1]
    latency_s = count * state.hosts[entry.node].fetch_latency
    cost = state.costs[state.tasks[entry.task].cost]
    _handle(state, work, count * cost.fetch_cpu + total * cost.fetched_byte_cpu)
    if total == 0.0 and latency_s == 0.0:
        _keep(state, work, count, total)
        return
    entry.fetching += 1
    item = new_item(state, work, FETCH)
    flow = state.flows[item]
    flow.batch = count
    flow.total = total
    if total > 0.0:
        pass_drive(state, item, source)
        if source != entry.node:
            go_over(state, item, source, entry.node)
        cap = narrowest(state, item)
        flow.cap = min(cap, total / latency_s) if latency_s != 0.0 else cap
        start(state, item)
    else:
        at(state, item, state.sec.agenda_s + latency_s)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._handle")
@compiled
def _handle(state: State, work: int, cpu_s: float) -> None:
    """Add CPU seconds for fetched data, and start a flow for them if there is none."""
    entry = state.work[work]
    entry.owed += cpu_s
    if not entry.handling and entry.owed > 0.0:
        entry.handling = 1
        entry.streams += 1
        _handle_owed(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._handle_owed")
@compiled
def _handle_owed(state: State, work: int) -> None:
    """Start a CPU flow for all CPU seconds that fetched data still need. Mirrors `ReduceRun._handle_owed`."""
    entry = state.work[work]
    owed = entry.owed
    entry.owed = 0.0
    state.tasks[entry.task].fetch_cpu += owed
    compute_at(state, work, owed, state.sec.core_share)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.over")
@compiled
def handled(state: State, work: int) -> None:
    """End the CPU flow for fetched data, or start another for what came meanwhile."""
    if state.work[work].owed > 0.0:
        _handle_owed(state, work)
        return
    state.work[work].handling = 0
    stream_over(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.fire")
@compiled
def fetched(state: State, item: int) -> None:
    """End a fetch: store its data and start further ones."""
    flow = state.flows[item]
    work, count, total = flow.work, flow.batch, flow.total
    if flow.ways > 0:
        stop(state, item)
    drop_item(state, item)
    state.work[work].fetching -= 1
    _keep(state, work, count, total)
    _fetch(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._keep")
@compiled
def _keep(state: State, work: int, count: int, total: float) -> None:
    """Store fetched data in a reduce's buffer, and start to spill if it is full."""
    entry = state.work[work]
    task = state.tasks[entry.task]
    entry.fetched += count
    task.shuffle_bytes += int(total)
    kept = max(0.0, min(total, state.jobs[task.job].room - entry.buffered))
    entry.buffered += kept
    over = total - kept
    if over > 0.0:
        entry.on_disk += over
        task.spill_bytes += int(over)
        entry.streams += 1
        item = new_item(state, work, COPY)
        pass_drive(state, item, entry.node)
        flow = state.flows[item]
        flow.total = over
        flow.cap = narrowest(state, item)
        start(state, item)


@compiled
def copied(state: State, item: int) -> None:
    """End the flow that wrote fetched data to disk; `ReduceRun.over` for it."""
    work = state.flows[item].work
    stop(state, item)
    drop_item(state, item)
    stream_over(state, work)

"""The shuffle phase of reduces that contend for resources (compiled).

Mirrors `cluster.virtual.fluid.reduce_phases`. Unlike in that module, no fetch fails, and all reduces of a job
fetch equal parts of a map's output.
"""

from __future__ import annotations

from schedbed.cluster.virtual.fluid.reduce_phases import PARALLEL_COPIES
from schedbed.scheduler.simulate.compiled.contended.board_arrays import own_board
from schedbed.scheduler.simulate.compiled.contended.due_items import at, drop_item, new_item
from schedbed.scheduler.simulate.compiled.contended.flow_records import COPY, FETCH, SHUFFLING
from schedbed.scheduler.simulate.compiled.contended.link_ways import go_over, narrowest, pass_drive
from schedbed.scheduler.simulate.compiled.contended.sharing import start, stop
from schedbed.scheduler.simulate.compiled.contended.works import compute_at, phases, stream_over
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.start")
@compiled
def start_reduce(state: State, work: int) -> None:
    """Start to fetch the map outputs that had been announced to the node before the reduce `work` started.

    Mirrors `ReduceRun.start`.
    """
    entry = state.work[work]
    board = own_board(state, entry.node, state.tasks[entry.task].job)
    hear(state, work, 0, state.boards[board].heard)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.hear")
@compiled
def hear(state: State, work: int, since: int, until: int) -> None:
    """Add the job's map outputs `since` to `until` (exclusive) to those that the reduce `work` must fetch.

    Starts fetches if fewer than `PARALLEL_COPIES` are running. Mirrors `ReduceRun.hear`.
    """
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
    """Return the size in bytes of one reduce's part of a map's output.

    `output` is the number of the map task, and `part` the reduce's position among the reduces of the job.
    Mirrors `plan_arithmetic.equal_shares`.
    """
    total = state.costs[state.tasks[output].cost].output
    parts = state.jobs[state.tasks[output].job].reduces
    return total * (part + 1) // parts - total * part // parts


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._fetch")
@compiled
def _fetch(state: State, work: int) -> None:
    """Start fetches of pending map outputs, up to `PARALLEL_COPIES` parallel fetches of the reduce.

    Also starts the next phase if the shuffle is over. Mirrors `ReduceRun._fetch`.
    """
    entry = state.work[work]
    while entry.pending > 0 and entry.fetching < PARALLEL_COPIES:
        entry.picks += 1
        _fetch_from(state, work, entry.picks % entry.pending)
    phases(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._fetch_from")
@compiled
def _fetch_from(state: State, work: int, place: int) -> None:
    """Start one fetch, which copies all pending map outputs from one node to the reduce `work`.

    `place` is the node's position in the reduce's list of nodes with pending outputs. Mirrors
    `ReduceRun._fetch_from`, but does not support the option `intake`, a limit on the rate at which a reduce
    fetches.
    """
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
    """Add `cpu_s` CPU seconds for processing fetched data to the work of the reduce `work`.

    If no CPU flow for fetched data is running, one is started. Mirrors `ReduceRun._handle`.
    """
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
    """Process the end of the CPU flow in which a reduce processed fetched data.

    If further data were fetched meanwhile, another such flow starts. Mirrors `ReduceRun.over` for this flow.
    """
    if state.work[work].owed > 0.0:
        _handle_owed(state, work)
        return
    state.work[work].handling = 0
    stream_over(state, work)


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.fire")
@compiled
def fetched(state: State, item: int) -> None:
    """Process the end of the fetch `item`: store the fetched data and start further fetches.

    Mirrors `ReduceRun.fire` for a fetch.
    """
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
    """Store fetched data in a reduce's buffer. If the buffer is full, start to write the remainder to disk.

    `count` is the number of fetched map outputs, and `total` their size in bytes. Mirrors `ReduceRun._keep`.
    """
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
    """Process the end of the flow `item`, which wrote fetched data to the disk of a reduce's node.

    Mirrors `ReduceRun.over` for this flow.
    """
    work = state.flows[item].work
    stop(state, item)
    drop_item(state, item)
    stream_over(state, work)

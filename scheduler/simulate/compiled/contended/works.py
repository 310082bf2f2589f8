"""The phases of attempts that contend for resources (compiled).

Mirrors `running`, `fluid` (maps) and `reduce_phases` of `cluster.virtual.fluid`, but the loop pauses when an
output needs a block: Python asks the NameNode, and `write` continues.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.attempt_steps import note_file, source_of, writes_file
from schedbed.scheduler.simulate.compiled.contended.board_arrays import board_of
from schedbed.scheduler.simulate.compiled.contended.due_items import at, drop_item, new_item
from schedbed.scheduler.simulate.compiled.contended.flow_records import (
    COMPUTE,
    CPU,
    END,
    MAPPING,
    OWN_DISK,
    READ,
    REDUCING,
    SHUFFLING,
    SORTING,
    WRITE,
)
from schedbed.scheduler.simulate.compiled.contended.link_ways import (
    go_in,
    go_over,
    narrowest,
    pass_drive,
    pass_through,
)
from schedbed.scheduler.simulate.compiled.contended.sharing import left_at, start, stop
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import WRITTEN, State

# ---------------------------------------------------------------------- flows


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.cap")
@compiled
def _cap(state: State, item: int, stream_bytes: float) -> float:
    """Return a flow's largest rate (bytes/s), by its path and its phase's planned duration.

    `stream_bytes` is the size of the whole stream that the flow is part of.
    """
    cap, pace_s = narrowest(state, item), state.work[state.flows[item].work].pace
    return min(cap, stream_bytes / pace_s) if pace_s != 0.0 else cap


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.flow")
@compiled
def _begin(state: State, item: int, total: float, cap: float) -> None:
    """Start the flow `item` of `total` bytes (of a CPU, core-seconds). Mirrors `RunningAttempt.flow`."""
    flow = state.flows[item]
    flow.total = total
    flow.cap = cap
    entry = state.work[flow.work]
    state.work_flows[flow.work, entry.flows] = item
    entry.flows += 1
    start(state, item)


@twin_of(
    "schedbed.cluster.virtual.fluid.running:RunningAttempt.drop",
    "schedbed.cluster.virtual.fluid.running:RunningAttempt.credit",
)
@compiled
def end_flow(state: State, item: int) -> None:
    """Remove the finished flow `item` from its attempt. Mirrors `RunningAttempt.drop` with `credit`."""
    flow = state.flows[item]
    stop(state, item)
    work = flow.work
    entry = state.work[work]
    if flow.role != COMPUTE:
        entry.phase_moved += flow.total
    place = 0
    while state.work_flows[work, place] != item:
        place += 1
    entry.flows -= 1
    for later in range(place, entry.flows):
        state.work_flows[work, later] = state.work_flows[work, later + 1]
    drop_item(state, item)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.core_seconds")
@compiled
def _core_seconds(state: State, cpu_s: float) -> float:
    return cpu_s / state.sec.core_share


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.compute")
@compiled
def _compute(state: State, work: int, cpu_s: float) -> None:
    """Start the phase's CPU flow."""
    if cpu_s > 0:
        entry = state.work[work]
        entry.streams += 1
        compute_at(state, work, cpu_s, cpu_s / entry.pace)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.compute_at")
@compiled
def compute_at(state: State, work: int, cpu_s: float, rate: float) -> None:
    """Start a CPU flow of `cpu_s` core-seconds on at most `rate` cores. Mirrors `RunningAttempt.compute_at`."""
    item = new_item(state, work, COMPUTE)
    pass_through(state, item, 4 * state.work[work].node + CPU)
    _begin(state, item, cpu_s, rate)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.use_disk")
@compiled
def _use_disk(state: State, work: int, total: float) -> None:
    """Start a flow of `total` bytes on the disk of the attempt's node. Mirrors `RunningAttempt.use_disk`."""
    if total > 0:
        entry = state.work[work]
        entry.streams += 1
        entry.phase_bytes += total
        item = new_item(state, work, OWN_DISK)
        pass_drive(state, item, entry.node)
        _begin(state, item, total, _cap(state, item, total))


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.write_seconds")
@compiled
def _write_seconds(state: State, work: int) -> float:
    """Return the seconds of disk use for the output file, 0 without one."""
    entry = state.work[work]
    if not writes_file(state, entry.task):
        return 0.0
    return state.costs[state.tasks[entry.task].cost].output / state.nodes[entry.node].disk


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.send_seconds")
@compiled
def _send_seconds(state: State, work: int) -> float:
    """Return the seconds to send the output file to nodes with replicas, 0 without any."""
    entry = state.work[work]
    if state.num.replication < 2 or not writes_file(state, entry.task):
        return 0.0
    return state.costs[state.tasks[entry.task].cost].output / state.nodes[entry.node].network


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.write_output")
@compiled
def _write_output(state: State, work: int) -> None:
    """Start to write the attempt's output file, if it has one. Mirrors `RunningAttempt.write_output`."""
    entry = state.work[work]
    if writes_file(state, entry.task):
        entry.left = state.costs[state.tasks[entry.task].cost].output
        entry.phase_bytes += entry.left
        if entry.left > 0:
            entry.streams += 1
            ask_for_block(state, work)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt._write_next")
@compiled
def ask_for_block(state: State, work: int) -> None:
    """Make the compiled loop pause, so that Python code finds nodes for the attempt's next output block."""
    size, left = state.num.block_bytes, state.work[work].left
    state.num.wants = work + 1
    state.num.wants_bytes = min(size, left) if size else left


@twin_of(
    "schedbed.cluster.virtual.fluid.running:RunningAttempt._write",
    "schedbed.cluster.virtual.fluid.shared_nodes:pipeline_way",
)
@compiled
def write(state: State) -> None:
    """Start to write an output block to the nodes in `State.targets`. Mirrors `RunningAttempt._write`."""
    work, length = state.num.wants - 1, state.num.wants_bytes
    state.num.wants = 0
    entry = state.work[work]
    entry.left -= length
    item = new_item(state, work, WRITE)
    chain, count = state.targets, state.num.targets
    if chain[0] != entry.node:
        go_in(state, item, entry.node, chain[0])
    for place in range(count):
        pass_drive(state, item, chain[place])
        if place + 1 < count:
            go_over(state, item, chain[place], chain[place + 1])
    cap = _cap(state, item, float(state.costs[state.tasks[entry.task].cost].output))
    latency_s = state.hosts[entry.node].block_latency
    _begin(state, item, float(length), min(cap, length / latency_s) if latency_s != 0.0 else cap)


# --------------------------------------------------------------------- phases


@twin_of("schedbed.cluster.virtual.fluid.fluid:MapRun.start")
@compiled
def start_map(state: State, work: int) -> None:
    """Start a map's first phase, which reads and computes and, without a sort phase, writes."""
    entry = state.work[work]
    task, node = state.tasks[entry.task], state.nodes[entry.node]
    cost = state.costs[task.cost]
    source, away, local = entry.node, 0.0, float(cost.read)
    if task.reads_block:
        source = source_of(state, entry.task, entry.node)
    away_s = 0.0
    if source != entry.node:
        away, local = local, 0.0
        other = state.nodes[source]
        away_s = away / min(min(other.disk, other.network), node.network)
    task.local_bytes, task.remote_bytes = int(local), int(away)
    sorts = cost.sort_cpu != 0.0
    spilled, write_s, send_s = 0.0, 0.0, 0.0
    if not sorts:
        spilled = _spill(state, entry.task)
        write_s, send_s = _write_seconds(state, work), _send_seconds(state, work)
    disk_s = (local + spilled) / node.disk + write_s
    entry.pace = max(max(_core_seconds(state, cost.cpu), disk_s), max(away_s, send_s))
    entry.streams = 1  # Keeps the phase open until all flows have started.
    _compute(state, work, cost.cpu)
    _use_disk(state, work, local + spilled)
    if away > 0.0:
        entry.streams += 1
        entry.phase_bytes += away
        item = new_item(state, work, READ)
        pass_drive(state, item, source)
        go_over(state, item, source, entry.node)
        _begin(state, item, away, _cap(state, item, away))
    if not sorts:
        _write_output(state, work)
    stream_over(state, work)


@twin_of("schedbed.cluster.virtual.fluid.fluid:MapRun._spill")
@compiled
def _spill(state: State, task: int) -> float:
    """Return the number of bytes that a map writes to spill files and reads back. Mirrors `MapRun._spill`."""
    run = state.tasks[task]
    cost = state.costs[run.cost]
    run.spill_bytes = max(cost.spill, cost.output) if state.jobs[run.job].reduces > 0 else 0
    back = max(0, run.spill_bytes - cost.output) if run.spill_bytes else 0
    return float(run.spill_bytes) + float(back)


@twin_of("schedbed.cluster.virtual.fluid.fluid:MapRun._sort")
@compiled
def _sort(state: State, work: int) -> None:
    """Start the sort phase of a map, which also writes spills and output. Mirrors `MapRun._sort`."""
    entry = state.work[work]
    cost = state.costs[state.tasks[entry.task].cost]
    entry.phase = SORTING
    entry.phase_bytes = entry.phase_moved = 0.0
    spilled = _spill(state, entry.task)
    written_s = spilled / state.nodes[entry.node].disk + _write_seconds(state, work)
    entry.pace = max(max(_core_seconds(state, cost.sort_cpu), written_s), _send_seconds(state, work))
    entry.streams = 1
    _compute(state, work, cost.sort_cpu)
    _use_disk(state, work, spilled)
    _write_output(state, work)
    entry.streams -= 1


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._merge")
@compiled
def _merge(state: State, work: int) -> None:
    """Start the merge phase of a reduce, which follows the shuffle. Mirrors `ReduceRun._merge`."""
    entry = state.work[work]
    cost = state.costs[state.tasks[entry.task].cost]
    state.tasks[entry.task].shuffle_end = state.sec.agenda_s
    entry.phase = SORTING
    entry.phase_bytes = entry.phase_moved = 0.0
    back = entry.on_disk if cost.merges else 0.0
    entry.pace = max(_core_seconds(state, cost.sort_cpu), back / state.nodes[entry.node].disk)
    entry.streams = 1
    _compute(state, work, cost.sort_cpu)
    _use_disk(state, work, back)
    entry.streams -= 1


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._reduce")
@compiled
def _reduce(state: State, work: int) -> None:
    """Start the last phase of a reduce, which writes the output. Mirrors `ReduceRun._reduce`."""
    entry = state.work[work]
    cost = state.costs[state.tasks[entry.task].cost]
    state.tasks[entry.task].sort_end = state.sec.agenda_s
    entry.phase = REDUCING
    entry.phase_bytes = entry.phase_moved = 0.0
    output_s = max(_write_seconds(state, work), _send_seconds(state, work))
    entry.pace = max(_core_seconds(state, cost.cpu), output_s)
    entry.streams = 1
    _compute(state, work, cost.cpu)
    _write_output(state, work)
    entry.streams -= 1


@twin_of("schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun._look")
@compiled
def _all_fetched(state: State, work: int) -> bool:
    """Return whether a reduce has fetched the outputs of all maps. Mirrors a check in `ReduceRun._look`."""
    entry = state.work[work]
    board = board_of(state, entry.node, state.tasks[entry.task].job)
    if board < 0 or entry.fetching:
        return False
    return state.boards[board].all_done > 0 and entry.fetched == state.boards[board].heard


@twin_of(
    "schedbed.cluster.virtual.fluid.fluid:MapRun.phase_over",
    "schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.phase_over",
)
@compiled
def phases(state: State, work: int) -> None:
    """Start the next phase of an attempt if the current one is over, or end the attempt after the last."""
    entry = state.work[work]
    while entry.streams == 0 and not entry.ended:
        if entry.phase == MAPPING and state.costs[state.tasks[entry.task].cost].sort_cpu != 0.0:
            _sort(state, work)
        elif entry.phase == SHUFFLING:
            if not _all_fetched(state, work):
                return
            _merge(state, work)
        elif entry.phase == SORTING and not state.tasks[entry.task].is_map:
            _reduce(state, work)
        else:
            _succeed(state, work)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.stream_over")
@compiled
def stream_over(state: State, work: int) -> None:
    """Count a stream of the phase as ended; the last one starts the next phase."""
    state.work[work].streams -= 1
    phases(state, work)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.succeed")
@compiled
def _succeed(state: State, work: int) -> None:
    """End an attempt successfully, and schedule the report of its end. Mirrors `RunningAttempt.succeed`."""
    entry, now_s = state.work[work], state.sec.agenda_s
    if writes_file(state, entry.task):
        note_file(state, now_s, entry.task, WRITTEN)
    entry.ended = 1
    state.tasks[entry.task].end = now_s
    state.flows[entry.timer].role = END
    at(state, entry.timer, now_s + state.hosts[entry.node].end_latency)


@twin_of("schedbed.cluster.virtual.fluid.running:RunningAttempt.done")
@compiled
def _done(state: State, work: int, now_s: float) -> float:
    """Return the completed share (0 to 1) of an attempt's current phase. Mirrors `RunningAttempt.done`."""
    entry = state.work[work]
    share, moved = 1.0, entry.phase_moved
    for place in range(entry.flows):
        item = state.work_flows[work, place]
        flow = state.flows[item]
        if flow.role == COMPUTE:
            share = 1.0 - left_at(state, item, now_s) / flow.total
        else:
            moved += flow.total - left_at(state, item, now_s)
    return min(share, moved / entry.phase_bytes) if entry.phase_bytes != 0.0 else share


@twin_of(
    "schedbed.cluster.virtual.fluid.running:RunningAttempt.memory_bytes",
    "schedbed.cluster.virtual.fluid.fluid:MapRun.progress",
    "schedbed.cluster.virtual.fluid.reduce_phases:ReduceRun.progress",
)
@compiled
def memory_bytes(state: State, work: int, now_s: float) -> int:
    """Return an attempt's used memory in bytes at `now_s`. Mirrors `RunningAttempt.memory_bytes`."""
    entry = state.work[work]
    if entry.ended or not entry.started:
        return 0
    task = state.tasks[entry.task]
    cost = state.costs[task.cost]
    if entry.phase == SHUFFLING:
        progress = entry.fetched / max(1, state.jobs[task.job].maps) / 3
    elif entry.phase == SORTING:
        progress = 0.95 if task.is_map else 1 / 3
    elif entry.phase == MAPPING:
        progress = _done(state, work, now_s) * (0.95 if cost.sort_cpu != 0.0 else 1.0)
    else:
        progress = (2 + _done(state, work, now_s)) / 3
    return int(cost.peak * progress)

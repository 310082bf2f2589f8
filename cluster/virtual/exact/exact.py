"""Simulation of attempts without contention: each attempt runs as if it were alone on its node.

An attempt has a known duration, or phases at the node's full rates. Used for traces and profiles; `fluid` has
contention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from schedbed.cluster.messages import AttemptReport, AttemptStatus, FetchFailure, MapOutputs, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.boards import AnnouncedOutputs
from schedbed.cluster.virtual.node_model import (
    FAILURES_MAX,
    LOCATE_WAITS_S,
    AttemptPlan,
    Happening,
    Partition,
    Store,
    TaskCost,
    retry_after_s,
)
from schedbed.cluster.virtual.plan_arithmetic import (
    CRASHED,
    PartitionSizes,
    fails_at,
    gave_up,
    no_replica,
    spilled_bytes,
    write_file,
)
from schedbed.tasks.errors import DISK_FULL
from schedbed.tasks.specs import Counters, NodeId, TaskKind


class ExactEmulation:
    """An `Emulation` without contention. `keeps_consumed` records which map attempts each reduce read."""

    def __init__(self, store: Store, keeps_consumed: bool = False) -> None:
        self._store = store
        self._keeps_consumed = keeps_consumed
        self._consumed: dict[str, dict[int, str]] = {}
        self._nodes: dict[NodeId, ExactNode] = {}
        self._costs = ExactCosts(store)
        self._outputs: dict[str, dict[str, None]] = {}  # Map attempts with outputs on any node, by job.
        self._sizes = PartitionSizes()
        self._partition = Partition()
        self._accidents = False  # Map outputs can be missing only after a fault.
        self._heap: list[tuple[float, int, ExactRun]] = []
        self._serial = 0
        self._told: list[Happening] = []
        self._now_s = 0.0

    # ---------------------------------------------------------------- nodes

    def node_up(self, now_s: float, node: NodeSpec) -> None:
        """Start an incarnation (life) of a node. The node has no attempts and no map outputs at first."""
        self._catch_up(now_s)
        self._end_life(node.node)
        self._nodes[node.node] = ExactNode(node, now_s)
        self._costs.specs[node.node] = node

    def node_down(self, now_s: float, node: NodeId) -> None:
        """Remove a node with all its attempts and map outputs."""
        self._catch_up(now_s)
        self._end_life(node)

    def _end_life(self, node: NodeId) -> None:
        gone = self._nodes.pop(node, None)
        if gone is None:
            return
        self._accidents = True
        self._costs.specs.pop(node, None)
        for job in tuple(gone.outputs):
            self._forget_outputs(gone, job)
        for run in gone.runs.values():
            run.due_s = math.nan  # Invalidates the entries in the heap.

    def set_rates(self, now_s: float, node: NodeId, cpu: float, disk: float, network: float) -> None:
        """Set a node's speed to `cpu` times its declared speed. `disk` and `network` are ignored."""
        self._catch_up(now_s)
        where = self._nodes.get(node)
        if where is None:
            return
        for run in where.runs.values():
            where.count(now_s, run)
            run.left_s -= max(0.0, now_s - run.since_s) * where.speed
            run.since_s = max(run.since_s, now_s)
        where.speed = cpu
        for run in where.runs.values():
            if not run.waits:
                self._schedule(run)

    def partition(self, now_s: float, groups: Sequence[Sequence[NodeId]]) -> None:
        """Inject a fault: only nodes of the same group can connect. Empty `groups` remove the fault."""
        self._catch_up(now_s)
        self._partition = self._costs.partition = Partition(groups)
        self._accidents = True

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """Do nothing, because delays and losses do not change the durations of attempts in this model."""

    def fill_disk(self, now_s: float, node: NodeId, full: bool) -> None:
        """Set whether a node's disk is full. Attempts that write output to a full disk fail at their end."""
        self._catch_up(now_s)
        if (where := self._nodes.get(node)) is not None:
            where.full = full

    # ------------------------------------------------------------- attempts

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """Start an attempt on a node, as described by its plan. Do nothing if the node is down."""
        where = self._nodes.get(node)
        if where is None or plan.attempt in where.runs:
            return
        run = where.runs[plan.attempt] = ExactRun(plan, where, now_s)
        if plan.kind is TaskKind.REDUCE:
            run.waits = True
            self._try_reduce(now_s, run)
            return
        try:
            run.work_s, run.counters = self._costs.of_map(where.spec, plan)
        except NoReplica as missing:
            run.left_s, run.failure = sum(LOCATE_WAITS_S), no_replica(missing.block)
        else:
            run.left_s = run.work_s
        self._go(run)

    def crash(self, now_s: float, node: NodeId, attempt: str) -> None:
        """End an attempt as failed, as if its process had crashed. Do nothing if it has already ended."""
        self._stop(now_s, node, attempt, "failed", CRASHED)

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """Kill an attempt for the given reason. Do nothing if the attempt has already ended."""
        self._stop(now_s, node, attempt, "killed", reason)

    def _stop(self, now_s: float, node: NodeId, attempt: str, state: str, reason: str) -> None:
        self._catch_up(now_s)
        where = self._nodes.get(node)
        run = where.runs.pop(attempt, None) if where else None
        if run is None:
            return
        counters = partly(run.counters, run.done(now_s), run.plan.memory_bytes)
        run.node.count(now_s, run)
        run.due_s = math.nan
        start_s = min(run.started_s, now_s)
        report = AttemptReport(
            attempt=attempt, state=state, reason=reason, start_s=start_s, end_s=now_s, counters=counters
        )
        self._told.append((node, report))

    def map_outputs(self, now_s: float, node: NodeId, news: MapOutputs) -> None:
        """Pass newly announced map outputs of a job to the reduces of the job on a node."""
        self._catch_up(now_s)
        where = self._nodes.get(node)
        if where is None:
            return
        board = where.boards.get(news.job)
        if board is None:
            board = where.boards[news.job] = AnnouncedOutputs()
        board.hear(news)
        if board.complete:
            for run in where.runs.values():
                if run.waits and run.plan.job == news.job:
                    run.tries = 0
                    self._try_reduce(now_s, run)

    def forget_job(self, now_s: float, node: NodeId, job: str) -> None:
        """Delete a job's map outputs stored on a node, and the announcements received by the node."""
        where = self._nodes.get(node)
        if where is not None:
            where.boards.pop(job, None)
            self._forget_outputs(where, job)

    def _forget_outputs(self, node: ExactNode, job: str) -> None:
        left = self._outputs.get(job, {})
        for attempt in node.outputs.pop(job, ()):
            del left[attempt]
        if not left:
            self._outputs.pop(job, None)

    def _try_reduce(self, now_s: float, run: ExactRun) -> None:
        """Start a waiting reduce if all outputs can be fetched; otherwise it waits, retries later, or fails."""
        board = run.node.boards.get(run.plan.job)
        if board is None or not board.complete:
            run.due_s = math.inf
            return
        if self._accidents and (missing := self._missing(run.node.spec.node, run.plan.job, board)):
            self._retry(now_s, run, missing)
            return
        run.waits = False
        begin_s = max(now_s, run.started_s)
        run.work_s, run.counters = self._costs.of_reduce(run.node.spec, run.plan, board, begin_s)
        run.left_s, run.since_s = run.work_s, begin_s
        if self._keeps_consumed:
            run.consumed = {i: output.attempt for i, output in board.latest.items()}
        self._go(run)

    def _missing(self, node: NodeId, job: str, board: AnnouncedOutputs) -> list[str]:
        """Return the map attempts of a job whose outputs cannot be fetched by a reduce on `node`."""
        there, joins = self._outputs.get(job, {}), self._partition.joins
        return [
            output.attempt
            for output in board.latest.values()
            if output.attempt not in there or not joins(node, output.node)
        ]

    def _retry(self, now_s: float, run: ExactRun, missing: list[str]) -> None:
        run.tries += 1
        if run.tries > FAILURES_MAX:
            run.waits = False
            board = run.node.boards[run.plan.job]
            where = next(each.node for each in board.latest.values() if each.attempt == missing[0])
            run.failure, run.left_s, run.since_s = gave_up(run.tries, missing[0], where), 0.0, now_s
            self._schedule(run)
            return
        if run.tries > 1:
            node, attempt = run.node.spec.node, run.plan.attempt
            self._told += [(node, FetchFailure(reduce_attempt=attempt, map_attempt=each)) for each in missing]
        run.due_s = max(now_s, run.started_s) + retry_after_s(run.tries)
        self._push(run)

    # ----------------------------------------------------------------- time

    def _go(self, run: ExactRun) -> None:
        """Schedule the end of an attempt after its work, or earlier if the attempt is planned to fail."""
        plan, counters, work_s = run.plan, run.counters, run.work_s
        if counters is not None and work_s:
            run.cpu = counters.cpu_s / work_s
            run.disk_bps = (counters.read_local_bytes + counters.spill_bytes) / work_s
        may_fail = plan.fails_after is not None or plan.cost.memory_peak_bytes > plan.memory_bytes
        if may_fail and not run.failure and (early := fails_at(plan)):
            share, run.failure = early
            run.beyond_s = run.left_s * (1 - share)
            run.left_s *= share
        self._schedule(run)

    def _schedule(self, run: ExactRun) -> None:
        speed = run.node.speed
        run.due_s = run.since_s + run.left_s / speed if speed > 0 else math.inf
        if speed > 0:
            self._push(run)

    def _push(self, run: ExactRun) -> None:
        self._serial += 1
        heappush(self._heap, (run.due_s, self._serial, run))

    def next_s(self) -> float:
        """Return the time of the next event, or infinity if there is none."""
        if self._told:
            return self._now_s
        heap = self._heap
        while heap and heap[0][2].due_s != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def advance(self, now_s: float) -> list[Happening]:
        """Process all events until `now_s`. Return the new attempt reports and fetch failures, in order."""
        self._catch_up(now_s)
        told, self._told = self._told, []
        return told

    def _catch_up(self, now_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now_s:
            at_s, _, run = heappop(heap)
            if run.due_s != at_s:
                continue
            if run.waits:
                self._try_reduce(at_s, run)
            else:
                self._end(at_s, run)
        self._now_s = now_s

    def _end(self, at_s: float, run: ExactRun) -> None:
        plan, node = run.plan, run.node
        del node.runs[plan.attempt]
        node.count(at_s, run)
        run.due_s = math.nan  # The heap may have two entries for the same time.
        name = node.spec.node
        reason = run.failure
        if node.full and not reason and (plan.output is not None or spilled_bytes(plan)):
            reason = DISK_FULL
        if plan.output is not None and not reason:
            reason = write_file(self._store, at_s, name, plan)
        counters, partitions = run.counters or Counters(), ()
        if reason:
            counters = partly(run.counters, run.done(at_s), plan.memory_bytes)
        elif plan.kind is TaskKind.MAP and plan.reduces:
            partitions = self._sizes.of(plan)
            node.outputs.setdefault(plan.job, []).append(plan.attempt)
            self._outputs.setdefault(plan.job, {})[plan.attempt] = None
        elif run.consumed is not None:
            self._consumed[plan.attempt] = run.consumed
        report = AttemptReport(
            attempt=plan.attempt,
            state="failed" if reason else "succeeded",
            reason=reason,
            start_s=run.started_s,
            end_s=at_s,
            counters=counters,
            partitions=partitions,
        )
        self._told.append((name, report))

    # -------------------------------------------------------------- reports

    def statuses(self, now_s: float, node: NodeId) -> Sequence[AttemptStatus]:
        where = self._nodes.get(node)
        return [_status(run, now_s) for run in where.runs.values()] if where else ()

    def usage(self, now_s: float, node: NodeId) -> Usage:
        """Return the use since the last call. Rates of an attempt count as constant during its work."""
        self._catch_up(now_s)
        where = self._nodes.get(node)
        if where is None or now_s <= where.asked_s:
            return Usage()
        memory_bytes, asked_s, speed = 0, where.asked_s, where.speed
        cpu_s, disk_bytes = where.cpu_s, where.disk_bytes
        for run in where.runs.values():
            if run.peak_bytes:
                memory_bytes += int(run.peak_bytes * run.done(now_s))
            since_s = run.since_s
            worked_s = (now_s - (since_s if since_s > asked_s else asked_s)) * speed
            if worked_s > 0.0:  # As in `ExactNode.count`, without a call.
                cpu_s += run.cpu * worked_s
                disk_bytes += run.disk_bps * worked_s
        spec, lasted_s = where.spec, now_s - asked_s
        where.asked_s, where.cpu_s, where.disk_bytes = now_s, 0.0, 0.0
        return Usage(
            cpu_util=min(1.0, cpu_s / (spec.cpu_rate * lasted_s)),
            disk_util=min(1.0, disk_bytes / (spec.disk_bps * lasted_s)),
            memory_bytes=memory_bytes,
        )

    def pop_consumed(self, attempt: str) -> dict[int, str]:
        """Remove and return {map: attempt} that a reduce read, empty without `keeps_consumed`."""
        return self._consumed.pop(attempt, {})


def _status(run: ExactRun, now_s: float) -> AttemptStatus:
    plan, started_s = run.plan, run.started_s if run.started_s <= now_s else None
    phase, progress = "map", run.done(now_s)
    if plan.kind is TaskKind.REDUCE and run.waits:
        board = run.node.boards.get(plan.job)
        told = 0 if board is None or started_s is None else len(board.latest) - board.lost
        phase, progress = "shuffle", told / max(1, plan.maps) / 3
    elif plan.kind is TaskKind.REDUCE:
        phase, progress = "reduce", (2 + progress) / 3
    return AttemptStatus(attempt=plan.attempt, progress=progress, phase=phase, started_s=started_s)


# The state of attempts and nodes in the simulation without contention.


class ExactRun:
    """An attempt without contention. At `since_s` it had `left_s` seconds of work at the declared speed.

    If it is planned to fail, `left_s` is without the last `beyond_s` seconds, which are never done.
    """

    __slots__ = (
        "beyond_s",
        "consumed",
        "counters",
        "cpu",
        "disk_bps",
        "due_s",
        "failure",
        "left_s",
        "node",
        "peak_bytes",
        "plan",
        "since_s",
        "started_s",
        "tries",
        "waits",
        "work_s",
    )

    def __init__(self, plan: AttemptPlan, node: ExactNode, now_s: float) -> None:
        self.plan = plan
        self.peak_bytes = plan.cost.memory_peak_bytes
        self.node = node
        self.started_s = self.since_s = now_s + plan.start_s
        self.due_s = math.inf
        self.work_s = self.left_s = self.beyond_s = 0.0
        self.failure = ""
        self.waits = False  # True for a reduce that waits for map outputs.
        self.tries = 0  # Number of failed fetches.
        self.counters: Counters | None = None
        self.cpu = self.disk_bps = 0.0  # Average rates, once the work is known.
        self.consumed: dict[int, str] | None = None

    def done(self, now_s: float) -> float:
        """Return the share of the attempt's work that is done at `now_s`, from 0 to 1."""
        left_s = self.left_s - max(0.0, now_s - self.since_s) * self.node.speed
        return share_done(self.work_s, left_s + self.beyond_s)


def share_done(work_s: float, left_s: float) -> float:
    return min(1.0, max(0.0, 1.0 - left_s / work_s)) if work_s else 0.0


class ExactNode:
    """A node in one incarnation (life). `speed` is its current CPU speed as a share of its declared speed."""

    __slots__ = ("asked_s", "boards", "cpu_s", "disk_bytes", "full", "outputs", "runs", "spec", "speed")

    def __init__(self, spec: NodeSpec, now_s: float) -> None:
        self.spec = spec
        self.asked_s = now_s  # Time of the last call of `usage`.
        self.cpu_s = self.disk_bytes = 0.0
        self.speed = 1.0
        self.full = False  # True if a fault has filled the disk.
        self.runs: dict[str, ExactRun] = {}
        self.boards: dict[str, AnnouncedOutputs] = {}
        self.outputs: dict[str, list[str]] = {}  # Map attempts with outputs, by job.

    def count(self, now_s: float, run: ExactRun) -> None:
        """Add an attempt's CPU time and disk bytes since the last `usage` to the node's totals."""
        worked_s = (now_s - max(run.since_s, self.asked_s)) * self.speed
        if worked_s > 0.0:
            self.cpu_s += run.cpu * worked_s
            self.disk_bytes += run.disk_bps * worked_s


# Computation of the durations and counters of attempts from their plans, without contention.


class NoReplica(Exception):
    """No node that can be reached stores a replica of the block."""

    def __init__(self, block: str) -> None:
        super().__init__(block)
        self.block = block


class ExactCosts:
    """Computes durations and counters of attempts that do not share resources."""

    def __init__(self, store: Store) -> None:
        self.specs: dict[NodeId, NodeSpec] = {}
        self.partition = Partition()
        self._store = store
        self._last: tuple[TaskCost, float, int, int, int, Counters] | None = None  # shared by equal tasks

    def of_map(self, node: NodeSpec, plan: AttemptPlan) -> tuple[float, Counters]:
        """Return seconds and counters of a map. Raises NoReplica if a block cannot be read."""
        cost, local, remote, remote_s = plan.cost, 0, 0, 0.0
        for block, length in plan.blocks:
            source = self._source(node, plan.index, block)
            if source is node:
                local += length
            else:
                remote += length
                remote_s += length / min(source.disk_bps, source.network_bps, node.network_bps)
        if not plan.blocks:
            local = cost.read_bytes
        counters = self._map_counters(node, plan, local, remote)
        if cost.duration_s is not None:
            return cost.duration_s + remote_s, counters
        spill = spilled_bytes(plan)
        merged = max(0, spill - cost.output_bytes)  # Spills are read again for merging.
        spill_s = (spill + merged) / node.disk_bps
        write_s, send_s = write_seconds(node, plan), send_seconds(node, plan)
        if not cost.sort_cpu_s:  # Computing, reading and writing alternate.
            local_s = local / node.disk_bps
            return max(cost.cpu_s, local_s + spill_s + write_s, remote_s, send_s), counters
        read_s = max(cost.cpu_s, local / node.disk_bps, remote_s)
        return read_s + max(cost.sort_cpu_s, spill_s + write_s, send_s), counters

    def of_reduce(
        self, node: NodeSpec, plan: AttemptPlan, board: AnnouncedOutputs, begin_s: float
    ) -> tuple[float, Counters]:
        """Return seconds and counters of a reduce that fetches from `begin_s` on, with all outputs on `board`."""
        cost, shuffle_s, sort_s = plan.cost, 0.0, 0.0
        if cost.duration_s is None:
            here = sum(1 for output in board.latest.values() if output.node == node.node)
            away = 1 - here / max(1, len(board.latest))  # The share fetched over the network.
            shuffle_s = cost.read_bytes * max((1 - away) / node.disk_bps, away / node.network_bps)
            sort_s = max(cost.sort_cpu_s, 2 * cost.spill_bytes / node.disk_bps)
            output_s = max(write_seconds(node, plan), send_seconds(node, plan))
            work_s = shuffle_s + sort_s + max(cost.cpu_s, output_s)
        else:
            shuffle_s = cost.shuffle_s or 0.0
            work_s = shuffle_s + cost.duration_s
        counters = Counters(
            cpu_s=(cost.cpu_s + cost.sort_cpu_s) * node.core_speed,
            shuffle_bytes=cost.read_bytes,
            spill_bytes=cost.spill_bytes,
            output_bytes=cost.output_bytes,
            shuffle_end=begin_s + shuffle_s,
            sort_end=begin_s + shuffle_s + sort_s,
            records_in=cost.records_in,
            records_out=cost.records_out,
            memory_peak_bytes=cost.memory_peak_bytes,
        )
        return work_s, counters

    def _source(self, node: NodeSpec, turn: int, block: str) -> NodeSpec:
        """Return the node to read a block from; equal distances take turns. Raises NoReplica."""
        holders = self._store.holders(block)
        if node.node in holders:
            return node
        reached = [
            self.specs[name]
            for name in holders
            if name in self.specs and self.partition.joins(node.node, name)
        ]
        near = [spec for spec in reached if spec.rack == node.rack] or reached
        if not near:
            raise NoReplica(block)
        return near[turn % len(near)]

    def _map_counters(self, node: NodeSpec, plan: AttemptPlan, local: int, remote: int) -> Counters:
        cost, last, spill = plan.cost, self._last, spilled_bytes(plan)
        if last is not None and last[0] is cost and last[1:5] == (node.core_speed, local, remote, spill):
            return last[5]
        counters = Counters(
            cpu_s=(cost.cpu_s + cost.sort_cpu_s) * node.core_speed,
            read_local_bytes=local,
            read_remote_bytes=remote,
            spill_bytes=spill,
            output_bytes=cost.output_bytes,
            records_in=cost.records_in,
            records_out=cost.records_out,
            memory_peak_bytes=cost.memory_peak_bytes,
        )
        self._last = cost, node.core_speed, local, remote, spill, counters
        return counters


def partly(whole: Counters | None, done: float, memory_bytes: int) -> Counters:
    """Return the counters after a share of the work. `whole` None: unknown work; `memory_bytes` 0: no limit."""
    if whole is None:
        return Counters()
    return Counters(
        cpu_s=whole.cpu_s * done,
        read_local_bytes=int(whole.read_local_bytes * done),
        read_remote_bytes=int(whole.read_remote_bytes * done),
        shuffle_bytes=whole.shuffle_bytes,
        spill_bytes=int(whole.spill_bytes * done),
        memory_peak_bytes=min(whole.memory_peak_bytes, memory_bytes or whole.memory_peak_bytes),
    )


def write_seconds(node: NodeSpec, plan: AttemptPlan) -> float:
    """Return the seconds to write the output file, 0 without one."""
    return 0.0 if plan.output is None else plan.cost.output_bytes / node.disk_bps


def send_seconds(node: NodeSpec, plan: AttemptPlan) -> float:
    """Return the seconds to send the output file to another replica's node, 0 if there is none."""
    if plan.output is None or plan.replication < 2:
        return 0.0
    return plan.cost.output_bytes / node.network_bps

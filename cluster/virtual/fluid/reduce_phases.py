"""A simulated reduce with contention, which fetches map outputs, merges, computes, and writes a file."""

from __future__ import annotations

from schedbed.cluster.messages import FetchFailure, MapOutput
from schedbed.cluster.virtual.agenda import Item
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource
from schedbed.cluster.virtual.fluid.running import COPY, FETCH, WAIT, RunningAttempt
from schedbed.cluster.virtual.fluid.shared_nodes import SharedCluster, SharedNode
from schedbed.cluster.virtual.node_model import FAILURES_MAX, AttemptPlan, retry_after_s
from schedbed.cluster.virtual.plan_arithmetic import gave_up
from schedbed.tasks.errors import DISK_FULL
from schedbed.tasks.specs import NodeId

PARALLEL_COPIES = 4
BUFFER_MAX_BYTES = 512 * 2**20  # Fetched data in memory; also at most a quarter of the memory limit.
BUFFER_MIN_BYTES = 4 * 2**20


def buffer_bytes(limit_bytes: int) -> int:
    """Return the bytes that a reduce buffers before it writes to disk, by its memory limit (0: none)."""
    if not limit_bytes:
        return BUFFER_MAX_BYTES
    return min(BUFFER_MAX_BYTES, max(BUFFER_MIN_BYTES, limit_bytes // 4))


class Batch:
    """Map outputs on one node that a reduce fetches together, as one flow of `total` bytes."""

    __slots__ = ("outputs", "source", "total")

    def __init__(self, source: NodeId, outputs: list[MapOutput], total: float) -> None:
        self.source = source
        self.outputs = outputs
        self.total = total


class ReduceRun(RunningAttempt):
    """A running reduce, which fetches at most `PARALLEL_COPIES` batches at a time while maps still run.

    All batches share `intake` if the framework limits a reduce's fetching. The twin in compiled code has no
    such limit.
    """

    __slots__ = (
        "buffered",
        "copied",
        "failures",
        "fetched",
        "fetching",
        "handling",
        "intake",
        "known",
        "on_disk",
        "owed_s",
        "pending",
        "picks",
        "retry",
    )

    def __init__(self, world: SharedCluster, host: SharedNode, plan: AttemptPlan) -> None:
        super().__init__(world, host, plan)
        self.phase = "shuffle"
        self.fetched: dict[int, str] = {}  # map index -> attempt
        self.fetching: dict[Item, Batch] = {}
        self.pending: dict[NodeId, list[MapOutput]] = {}  # Outputs to fetch, by source.
        self.failures: dict[int, int] = {}
        self.retry: dict[int, float] = {}  # Time of the next fetch of an output after a failure.
        self.picks = plan.index  # Reduces of a job start with different nodes.
        self.buffered = 0.0
        self.on_disk = 0.0
        self.copied = False
        self.handling: Flow | None = None  # CPU time of the thread that processes fetched data.
        self.owed_s = 0.0  # CPU time to add after `handling`.
        self.known: dict[int, None] = {}  # Maps with announced outputs.
        self.intake = (Resource(world.fetch_bps),) if world.fetch_bps else ()

    # -------------------------------------------------------------- shuffle

    def start(self) -> None:
        self.hear(list(self.host.board(self.plan.job).latest.values()))

    def hear(self, news: list[MapOutput]) -> None:
        """Queue newly announced map outputs for fetching, and drop earlier outputs of the same maps."""
        if self.started_s is None or self.copied or self.report is not None:
            return
        fetched, pending, known = self.fetched, self.pending, self.known
        for output in news:
            index = output.index
            if index in fetched:
                continue
            if index in known:
                self._abandon(index)
            known[index] = None
            if not output.lost:
                there = pending.get(output.node)
                if there is None:
                    pending[output.node] = [output]
                else:
                    there.append(output)
        self._fetch()

    def _abandon(self, index: int) -> None:
        """Cancel fetches and retries of the output of the map with number `index`, which was replaced."""
        self.retry.pop(index, None)
        for source, outputs in list(self.pending.items()):
            kept = [output for output in outputs if output.index != index]
            if len(kept) < len(outputs):
                self.pending[source] = kept
                if not kept:
                    del self.pending[source]
        for item, batch in list(self.fetching.items()):
            batch.outputs = [output for output in batch.outputs if output.index != index]
            if not batch.outputs:
                self._end_batch(item)

    def clear(self) -> None:
        """Cancel all flows and fetches. Fetches of zero bytes have no flows and are canceled separately."""
        for item in list(self.fetching):
            self._end_batch(item)
        super().clear()

    def _end_batch(self, item: Item) -> None:
        del self.fetching[item]
        if isinstance(item, Flow):
            self.drop(item)
        else:
            self.world.agenda.cancel(item)

    def _fetch(self) -> None:
        """Start fetches until `PARALLEL_COPIES` run. End the shuffle if all map outputs have been fetched."""
        pending = self.pending
        while pending and len(self.fetching) < PARALLEL_COPIES:
            sources = list(pending)
            self.picks += 1
            source = sources[self.picks % len(sources)]
            self._fetch_from(source, pending.pop(source))
            if self.report is not None:
                return
        self._look()

    def _fetch_from(self, name: NodeId, outputs: list[MapOutput]) -> None:
        world, plan = self.world, self.plan
        there = world.reached_from(self.host, name)
        at_source = there.outputs.get(plan.job, {}) if there else {}
        found = [output for output in outputs if output.attempt in at_source]
        for output in outputs:
            if output.attempt not in at_source:
                self._failed(output)
        if there is None or not found or self.report is not None:
            return
        index = plan.index
        total = float(sum(at_source[output.attempt][index] for output in found))
        batch = Batch(name, found, total)
        latency_s = len(found) * world.latencies.fetch(self.host.spec.core_speed)
        self._handle(len(found) * plan.cost.fetch_cpu_s + total * plan.cost.fetched_byte_cpu_s)
        if plan.cost.duration_s is not None:
            self._keep(batch)
        elif total:
            way = [*there.drive, *(() if there is self.host else there.way_to(self.host)), *self.intake]
            cap = min(resource.declared for resource in way)
            cap = min(cap, total / latency_s) if latency_s else cap
            self.fetching[self.flow(FETCH, total, cap, way, there)] = batch
        elif latency_s:
            item = Item(self, FETCH)
            self.fetching[item] = batch
            world.agenda.at(world.agenda.now_s + latency_s, item)
        else:
            self._keep(batch)

    def _handle(self, cpu_s: float) -> None:
        """Queue CPU time for processing fetched data, while further data are fetched."""
        self.owed_s += cpu_s
        if self.handling is None and self.owed_s > 0.0:
            self.streams += 1
            self._handle_owed()

    def _handle_owed(self) -> None:
        owed_s, self.owed_s = self.owed_s, 0.0
        self.handling = self.compute_at(owed_s, self.world.latencies.core_share)

    def over(self, flow: Flow) -> None:
        """Process the end of a flow. If fetched data remain to be processed, start a flow of CPU time."""
        if flow is self.handling and self.owed_s > 0.0:
            self._handle_owed()
            return
        if flow is self.handling:
            self.handling = None
        super().over(flow)

    def fire(self, item: Item) -> None:
        """Process the end of a fetch. Other items are passed to `RunningAttempt.fire`."""
        if item.role != FETCH:
            super().fire(item)
            return
        batch = self.fetching[item]
        self._end_batch(item)
        self._keep(batch)
        if self.report is None:
            self._fetch()

    def _keep(self, batch: Batch) -> None:
        """Record fetched outputs, and spill what exceeds the buffer. A full disk fails the reduce."""
        for output in batch.outputs:
            self.fetched[output.index] = output.attempt
            self.failures.pop(output.index, None)
        self.shuffle_bytes += batch.total
        kept = max(0.0, min(batch.total, buffer_bytes(self.plan.memory_bytes) - self.buffered))
        self.buffered += kept
        over = batch.total - kept
        if over and self.host.full:
            self.fail(DISK_FULL)
        elif over:
            self.on_disk += over
            self.streams += 1
            self.flow(COPY, over, self.host.disk.declared, self.host.drive)

    def _look(self) -> None:
        """End the shuffle if all map outputs have been fetched, processed and, if needed, written to disk."""
        board = self.host.board(self.plan.job)
        if (
            board.all_done
            and not self.fetching
            and not self.streams
            and not self.copied
            and len(self.fetched) == len(board.latest)
        ):
            self._merge()

    # ------------------------------------------------------------- failures

    def source_lost(self, flow: Flow) -> None:
        """Handle the loss of a batch's sender: all its outputs are fetched again later."""
        batch = self.fetching[flow]
        self._end_batch(flow)
        for output in batch.outputs:
            if self.report is None:
                self._failed(output)
        if self.report is None:
            self._fetch()

    def _failed(self, output: MapOutput) -> None:
        """Schedule another fetch, or fail after too many. The JobTracker hears of the second failure on, as live."""
        index, now_s = output.index, self.world.agenda.now_s
        count = self.failures[index] = self.failures.get(index, 0) + 1
        if count > FAILURES_MAX:
            self.fail(gave_up(count, output.attempt, output.node))
            return
        if count > 1:
            failure = FetchFailure(reduce_attempt=self.plan.attempt, map_attempt=output.attempt)
            self.world.told.append((self.host.name, failure))
        self.retry[index] = now_s + retry_after_s(count)
        self.timer.role = WAIT
        self.world.agenda.at(min(self.retry.values()), self.timer)

    def waited(self) -> None:
        """Retry failed fetches whose pause is over."""
        now_s, latest = self.world.agenda.now_s, self.host.board(self.plan.job).latest
        for index in [index for index, at_s in self.retry.items() if at_s <= now_s]:
            del self.retry[index]
            output = latest.get(index)  # None if the node has been told to forget the job.
            if output is not None and not output.lost:
                self.pending.setdefault(output.node, []).append(output)
        if self.retry:
            self.world.agenda.at(min(self.retry.values()), self.timer)
        self._fetch()

    # ----------------------------------------------------------- after that

    def phase_over(self) -> None:
        """Start the next of the phases shuffle, sort and reduce, or end."""
        if self.phase == "shuffle":
            self._look()
        elif self.phase == "sort":
            self._reduce()
        else:
            self.succeed()

    def _merge(self) -> None:
        cost, world = self.plan.cost, self.world
        self.copied, self.phase, self.shuffle_end = True, "sort", world.agenda.now_s
        cpu_s = cost.sort_cpu_s * self.share
        self.phase_bytes = self.phase_moved = 0.0
        back = self.on_disk if cost.merges else 0.0
        self.pace_s = max(self.core_seconds(cpu_s), back / self.host.spec.disk_bps)
        self.streams = 1
        if cost.duration_s is None:
            self.compute(cpu_s)
            self.use_disk(0.0, 0.0, back)
        self.stream_over()

    def _reduce(self) -> None:
        cost, share = self.plan.cost, self.share
        self.phase, self.sort_end = "reduce", self.world.agenda.now_s
        self.phase_bytes = self.phase_moved = 0.0
        self.streams = 1
        if cost.duration_s is not None:
            self.take_known(cost.duration_s * share)
        else:
            output_s = max(self.write_seconds(), self.send_seconds())
            self.pace_s = max(self.core_seconds(cost.cpu_s * share), output_s)
            self.compute(cost.cpu_s * share)
            self.write_output()
        if self.report is None:
            self.stream_over()

    def progress(self, now_s: float) -> float:
        """Return the progress from 0 to 1. The phases shuffle, sort and reduce are one third each."""
        if self.phase == "shuffle":
            return len(self.fetched) / max(1, self.plan.maps) / 3
        return 1 / 3 if self.phase == "sort" else (2 + self.done(now_s)) / 3

    def partitions(self) -> tuple[int, ...]:
        """Return nothing, as the output is a file. Note the map attempts read, if `SharedCluster.remembers`."""
        if self.world.remembers:
            self.world.consumed[self.plan.attempt] = self.fetched
        return ()

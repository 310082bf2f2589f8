"""A simulated map with contention, which reads, computes, and writes its output to local disk or a file."""

from __future__ import annotations

from schedbed.cluster.virtual.fluid.max_min import Flow
from schedbed.cluster.virtual.fluid.running import READ, WAIT, RunningAttempt
from schedbed.cluster.virtual.fluid.shared_nodes import SharedCluster, SharedNode
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.cluster.virtual.plan_arithmetic import no_replica, spilled_bytes
from schedbed.cluster.virtual.retries import LOCATE_WAITS_S
from schedbed.tasks.specs import NodeId


class MapRun(RunningAttempt):
    """A running map, which reads and computes, then sorts and writes its output.

    If the plan contains no CPU time for sorting, the map reads, computes and writes at the same time.
    """

    __slots__ = ("block", "input_bytes", "left", "read_all", "tried", "waits")

    def __init__(self, world: SharedCluster, host: SharedNode, plan: AttemptPlan) -> None:
        super().__init__(world, host, plan)
        self.phase = "map"
        self.block = 0  # Index of the block being read.
        self.left = 0.0  # Bytes of the block not read yet.
        self.tried: list[NodeId] = []  # Nodes whose replica of the block failed.
        self.waits = 0  # Pauses so far for lack of replicas of the block.
        self.input_bytes = 0.0
        self.read_all = False  # True when only the known duration remains.

    def start(self) -> None:
        """Start to read the input and to compute. A map whose duration is known only reads at first."""
        plan, cost, spec, share = self.plan, self.plan.cost, self.host.spec, self.share
        blocks = plan.blocks
        self.input_bytes = sum(length for _, length in blocks) * share
        source = self._source() if blocks else self.host
        if cost.duration_s is not None:
            self._read_known()
            return
        local_bytes = 0.0 if blocks else cost.read_bytes * share
        if len(blocks) == 1 and source is self.host:
            local_bytes, blocks = self.input_bytes, ()
        spill, back = self._spill() if not cost.sort_cpu_s else (0.0, 0.0)
        write_s, send_s = (0.0, 0.0) if cost.sort_cpu_s else (self.write_seconds(), self.send_seconds())
        disk_s = (local_bytes + spill + back) / spec.disk_bps + write_s
        if blocks and source is self.host:
            disk_s += self.input_bytes / spec.disk_bps
        away_s = 0.0
        if source is not None and source is not self.host:
            away_s = self.input_bytes / min(source.spec.disk_bps, source.spec.network_bps, spec.network_bps)
        cpu_s = cost.cpu_s * share
        self.pace_s = max(self.core_seconds(cpu_s), disk_s, away_s, send_s)
        self.streams = 1  # Keeps the phase open until all streams have begun.
        self.compute(cpu_s)
        self.use_disk(local_bytes, spill, back)
        if blocks and self.report is None:
            self.streams += 1
            self.phase_bytes += self.input_bytes
            self._read_next()
        if not cost.sort_cpu_s and self.report is None:
            self.write_output()
        if self.report is None:
            self.stream_over()

    def _spill(self) -> tuple[float, float]:
        """Return the bytes that the map writes to the local disk, and the bytes read back for merging."""
        spill = spilled_bytes(self.plan)
        back = max(0, spill - self.plan.cost.output_bytes) if spill else 0
        return spill * self.share, back * self.share

    def phase_over(self) -> None:
        """Start the phase that follows reading and computing, or end the map if there is none.

        This phase is the sort or, for a map whose duration is known, a pause of this duration.
        """
        cost = self.plan.cost
        if self.phase == "sort" or self.read_all:
            self.succeed()
        elif cost.duration_s is not None:
            self.read_all, self.phase_bytes = True, 0.0
            self.take_known(cost.duration_s * self.share)
        elif cost.sort_cpu_s:
            self._sort()
        else:
            self.succeed()

    def _sort(self) -> None:
        self.phase, self.phase_bytes, self.phase_moved = "sort", 0.0, 0.0
        cpu_s = self.plan.cost.sort_cpu_s * self.share
        spill, back = self._spill()
        written_s = (spill + back) / self.host.spec.disk_bps + self.write_seconds()
        self.pace_s = max(self.core_seconds(cpu_s), written_s, self.send_seconds())
        self.streams = 1
        self.compute(cpu_s)
        self.use_disk(0.0, spill, back)
        self.write_output()
        if self.report is None:
            self.stream_over()

    # -------------------------------------------------------------- reading

    def _source(self) -> SharedNode | None:
        block, _ = self.plan.blocks[self.block]
        return self.world.source(self.host, block, self.plan.index, self.tried)

    def _read_next(self) -> None:
        """Start to read the current input block (`self.block`)."""
        self.left = self.plan.blocks[self.block][1] * self.share
        self.tried, self.waits = [], 0
        self._read()

    def _read(self) -> None:
        source = self._source()
        if source is None:
            self._no_source()
            return
        if source is self.host:
            way = list(source.drive)
        else:
            way = [*source.drive, *source.way_to(self.host)]
        if self.left > 0:
            self.flow(READ, self.left, self.cap(self.input_bytes, way), way, source)
        else:
            self._block_over()

    def _no_source(self) -> None:
        if self.waits == len(LOCATE_WAITS_S):
            self.fail(no_replica(self.plan.blocks[self.block][0]))
            return
        self.timer.role = WAIT
        self.world.agenda.at(self.world.agenda.now_s + LOCATE_WAITS_S[self.waits], self.timer)
        self.waits += 1

    def waited(self) -> None:
        """Look again for a replica of the current block, after a pause because there was none."""
        self.tried = []
        self._read()

    def over(self, flow: Flow) -> None:
        """Process the end of a flow of this map. When a block has been read, start to read the next block."""
        if flow.role == READ:
            self._block_over()
        else:
            self.stream_over()

    def _block_over(self) -> None:
        self.block += 1
        if self.plan.cost.duration_s is not None:
            self._read_known()
        elif self.block < len(self.plan.blocks):
            self._read_next()
        else:
            self.stream_over()

    def source_lost(self, flow: Flow) -> None:
        """Continue to read a block from another replica, because the node that sent `flow` was lost."""
        source = flow.detail
        assert isinstance(source, SharedNode)
        self.left = flow.left_at(self.world.agenda.now_s)
        self.drop(flow)
        self.credit(flow, flow.total - self.left)
        self.tried.append(source.name)
        self._read()

    def _read_known(self) -> None:
        """Start to read the input of a map whose duration is known. Blocks on the map's node take no time."""
        self.streams = 1
        blocks = self.plan.blocks
        if not blocks:
            self.read_local += self.plan.cost.read_bytes * self.share
        while self.block < len(blocks) and self._source() is self.host:
            self.read_local += blocks[self.block][1] * self.share
            self.block += 1
        if self.block < len(blocks):
            self.phase_bytes = self.input_bytes
            self._read_next()
        else:
            self.stream_over()

    # ------------------------------------------------------------- accounts

    def progress(self, now_s: float) -> float:
        """Return the progress from 0 to 1. Before a sort, the progress is at most 0.95."""
        if self.plan.cost.duration_s is not None:
            return self.done(now_s) if self.read_all else 0.0
        if self.phase == "sort":
            return 0.95
        return self.done(now_s) * (0.95 if self.plan.cost.sort_cpu_s else 1.0)

    def partitions(self) -> tuple[int, ...]:
        """Make the map's output available on the node. Return the bytes of the output for each reduce."""
        plan = self.plan
        sizes = self.world.sizes.of(plan)
        if sizes:
            self.host.outputs.setdefault(plan.job, {})[plan.attempt] = sizes
        return sizes

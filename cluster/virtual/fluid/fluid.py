"""Simulation of attempts with contention: they share CPU, disk and network by max-min fairness.

A transfer is limited by both nodes and, between racks, by the sender's uplink, the core switch and the
receiver's downlink. `running` has the phases, `max_min` the rates. `scheduler.simulate.compiled.contended` is
a twin in compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.cluster.messages import AttemptStatus, MapOutputs, Usage
from schedbed.cluster.spec import NO_LINK_RATES, LinkRates, NodeSpec
from schedbed.cluster.virtual.agenda import Item
from schedbed.cluster.virtual.fluid.max_min import Flow, Solved
from schedbed.cluster.virtual.fluid.reduce_phases import ReduceRun
from schedbed.cluster.virtual.fluid.running import FETCH, READ, WAIT, WRITE, RunningAttempt
from schedbed.cluster.virtual.fluid.shared_nodes import SharedCluster, SharedNode, Stall
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import LOCATE_WAITS_S, AttemptPlan, Happening, Partition, Store
from schedbed.cluster.virtual.plan_arithmetic import CRASHED, no_replica, spilled_bytes
from schedbed.tasks.specs import NodeId, TaskKind


class FluidEmulation:
    """An `Emulation` with contention. `fetch_bps` limits a reduce's fetching (0: no limit).

    `keeps_consumed` records which map attempts each reduce read, until `pop_consumed`.
    """

    def __init__(
        self,
        store: Store,
        latencies: Latencies | None = None,
        links: LinkRates = NO_LINK_RATES,
        keeps_consumed: bool = False,
        fetch_bps: float = 0.0,
    ) -> None:
        self._world = SharedCluster(store, latencies or Latencies(), links, keeps_consumed, fetch_bps)

    # ---------------------------------------------------------------- nodes

    def node_up(self, now_s: float, node: NodeSpec) -> None:
        """Implement `Emulation`."""
        self.node_down(now_s, node.node)
        self._world.add(node, self)

    def node_down(self, now_s: float, node: NodeId) -> None:
        """Remove a node with all its attempts and map outputs. Transfers from and to the node fail."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.pop(node, None)
        if host is None:
            return
        for run in list(host.runs.values()):
            run.vanish()
        self._lose(host, (READ, FETCH, WRITE))

    def set_rates(self, now_s: float, node: NodeId, cpu: float, disk: float, network: float) -> None:
        """Set a node's current rates, as shares of its declared rates. All are 0 if the node is frozen."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is None:
            return
        sharing = self._world.sharing
        host.cpu_factor, host.disk_factor = cpu, disk
        for flow in (*host.cpu.flows, *host.free_running):
            sharing.recap(flow, flow.nominal * cpu)
        sharing.resize(host.cpu, host.cpu.declared * cpu)
        sharing.resize(host.disk, host.disk_bps())
        for nic in (host.tx, host.rx):
            sharing.resize(nic, nic.declared * network)
        if host.frozen:
            self._world.watch(host)

    def partition(self, now_s: float, groups: Sequence[Sequence[NodeId]]) -> None:
        """Let only nodes of one group connect, or all without groups. Transfers in progress continue."""
        self._world.sharing.advance(now_s)
        self._world.partition = Partition(groups)

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """Delay new connections by seconds, and lose shares of them, by node."""
        self._world.sharing.advance(now_s)
        self._world.delays, self._world.losses = dict(delays), dict(losses)

    def fill_disk(self, now_s: float, node: NodeId, full: bool) -> None:
        """Set whether a node's disk is full. Writes in progress to a disk that becomes full fail."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is None:
            return
        host.full = full
        for flow in list(host.disk.flows) if full else ():
            run = flow.owner
            assert isinstance(run, RunningAttempt)
            if flow in run.flows and run.writes_on(flow, host):
                run.disk_filled(flow, host)

    def _lose(self, host: SharedNode, roles: tuple[int, ...]) -> None:
        """Fail transfers of the given roles between a lost or frozen node and attempts on other nodes."""
        for flow in dict.fromkeys((*host.disk.flows, *host.tx.flows, *host.rx.flows)):
            run = flow.owner
            assert isinstance(run, RunningAttempt)
            if flow.role not in roles or flow not in run.flows or run.host is host:
                continue
            if flow.role == WRITE:
                run.pipeline_broke(flow, host)
            else:
                run.source_lost(flow)

    def fire(self, item: Item) -> None:
        """Let attempts stop waiting for a node that is still frozen at its timeout."""
        assert isinstance(item, Stall)
        if item.host.frozen and self._world.hosts.get(item.host.name) is item.host:
            self._lose(item.host, (READ, FETCH))

    # ------------------------------------------------------------- attempts

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """Start an attempt on a node, as described by its plan. Do nothing if the node is down."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is not None and plan.attempt not in host.runs:
            make = MapRun if plan.kind is TaskKind.MAP else ReduceRun
            self._world.enter(host, make(self._world, host, plan))

    def crash(self, now_s: float, node: NodeId, attempt: str) -> None:
        """End an attempt as failed, as if its process had crashed. Do nothing if it has already ended."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        run = host.runs.get(attempt) if host is not None else None
        if run is not None and run.report is None:
            run.fail(CRASHED)

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """Kill an attempt for the given reason. Do nothing if the attempt has already ended."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is not None and (run := host.runs.get(attempt)):
            run.kill(reason)

    def map_outputs(self, now_s: float, node: NodeId, news: MapOutputs) -> None:
        """Pass newly announced map outputs of a job to the reduces of the job on a node."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is None:
            return
        host.board(news.job).hear(news)
        for run in list(host.runs.values()):
            if run.plan.job == news.job and isinstance(run, ReduceRun):
                run.hear(list(news.outputs))

    def forget_job(self, now_s: float, node: NodeId, job: str) -> None:
        """Delete a job's map outputs stored on a node, and the announcements received by the node."""
        self._world.sharing.advance(now_s)
        host = self._world.hosts.get(node)
        if host is not None:
            host.boards.pop(job, None)
            host.outputs.pop(job, None)

    # ----------------------------------------------------------------- time

    def next_s(self) -> float:
        """Return the time of the next event, or infinity if there is none."""
        world = self._world
        if world.told:
            return world.agenda.now_s
        if not world.sharing.settled:
            world.sharing.settle()
        return world.agenda.next_s()

    def advance(self, now_s: float) -> list[Happening]:
        """Process all events until `now_s`. Return the new attempt reports and fetch failures, in order."""
        world = self._world
        world.sharing.advance(now_s)
        told, world.told = world.told, []
        return told

    @property
    def solved(self) -> Solved:
        """Return the computations of rates so far, and those limited by `REACH`."""
        return self._world.sharing.solved

    # -------------------------------------------------------------- reports

    def statuses(self, now_s: float, node: NodeId) -> Sequence[AttemptStatus]:
        """Return the status of each running attempt on a node."""
        self._settled_at(now_s)
        host = self._world.hosts.get(node)
        return [run.status(now_s) for run in host.runs.values()] if host else ()

    def usage(self, now_s: float, node: NodeId) -> Usage:
        """Return a node's use of CPU, disk, network and memory since the last call of this method."""
        self._settled_at(now_s)
        host = self._world.hosts.get(node)
        return host.usage(now_s) if host else Usage()

    def _settled_at(self, now_s: float) -> None:
        self._world.sharing.advance(now_s)
        if not self._world.sharing.settled:
            self._world.sharing.settle()

    def pop_consumed(self, attempt: str) -> dict[int, str]:
        """Remove and return {map: attempt} that a reduce read, empty without `keeps_consumed`."""
        return self._world.consumed.pop(attempt, {})


# A simulated map with contention, which reads, computes, and writes its output to local disk or a file.


class MapRun(RunningAttempt):
    """A running map: it reads and computes, then sorts and writes, or all at once without sort time."""

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
        """Return the bytes written to the local disk, and those read back for merging."""
        spill = spilled_bytes(self.plan)
        back = max(0, spill - self.plan.cost.output_bytes) if spill else 0
        return spill * self.share, back * self.share

    def phase_over(self) -> None:
        """Start what follows reading: the sort, a pause of the known duration, or the end."""
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
        """Look again for a replica of the current block."""
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

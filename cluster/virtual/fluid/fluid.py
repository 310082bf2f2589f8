"""Simulation of attempts with contention: they share CPU, disk and network by max-min fairness.

The rate of a transfer is limited by both nodes and, between racks, by the uplink of the sender's rack, the
core switch and the downlink of the receiver's rack. See `running` for the phases of an attempt and `max_min`
for the computation of rates. `scheduler.simulate.compiled.contended` is a twin in compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.cluster.messages import AttemptStatus, MapOutputs, Usage
from schedbed.cluster.spec import NO_LINK_RATES, LinkRates, NodeSpec
from schedbed.cluster.virtual.agenda import Item
from schedbed.cluster.virtual.fluid.map_phases import MapRun
from schedbed.cluster.virtual.fluid.max_min import Solved
from schedbed.cluster.virtual.fluid.reduce_phases import ReduceRun
from schedbed.cluster.virtual.fluid.running import FETCH, READ, WRITE, RunningAttempt
from schedbed.cluster.virtual.fluid.shared_nodes import SharedCluster, SharedNode, Stall
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import AttemptPlan, Happening, Store
from schedbed.cluster.virtual.partitions import Partition
from schedbed.cluster.virtual.plan_arithmetic import CRASHED
from schedbed.tasks.specs import NodeId, TaskKind


class FluidEmulation:
    """An implementation of `Emulation` (see `node_model`) with contention for resources.

    `links` contains the rates between racks. `fetch_bps` limits the rate at which a reduce fetches (0: no
    limit). If `keeps_consumed` is True, the emulation records which map attempts' outputs each reduce has
    read, until `pop_consumed` returns the record.
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
        """Start an incarnation (life) of a node. The node has no attempts and no map outputs at first."""
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
        """Inject a fault: only nodes of the same group can open connections. Empty `groups` remove the fault.

        Transfers in progress continue, as in a live run.
        """
        self._world.sharing.advance(now_s)
        self._world.partition = Partition(groups)

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """Inject a fault: delay new connections from and to nodes by `delays` (seconds) and lose some.

        `losses` maps nodes to the share of new connections that fail.
        """
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
        """Fail the transfers between the lost or frozen node `host` and attempts on other nodes.

        Only flows with one of the given roles fail, such as `READ` (reading an input block).
        """
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
        """Process the end of the timeout `item` of a frozen node.

        If the node is still frozen, attempts on other nodes stop waiting for data from it.
        """
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
        """Return the number of computations of flow rates so far, and the number of limited computations.

        A computation is limited if more than `REACH` flows would have to be updated together.
        """
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
        """Remove and return the record of the map outputs that the reduce `attempt` has read.

        The record is a dictionary from map index to map attempt, and is empty if `keeps_consumed` is False.
        """
        return self._world.consumed.pop(attempt, {})

"""Computation of the durations and counters of attempts from their plans, without contention."""

from __future__ import annotations

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.boards import AnnouncedOutputs
from schedbed.cluster.virtual.node_model import AttemptPlan, Store, TaskCost
from schedbed.cluster.virtual.partitions import Partition
from schedbed.cluster.virtual.plan_arithmetic import spilled_bytes
from schedbed.tasks.specs import Counters, NodeId


class NoReplica(Exception):
    """No node that can be reached stores a replica of the block."""

    def __init__(self, block: str) -> None:
        super().__init__(block)
        self.block = block


class ExactCosts:
    """A calculator of the durations and counters of attempts that do not share resources.

    `specs` maps live nodes to their specifications.
    """

    def __init__(self, store: Store) -> None:
        self.specs: dict[NodeId, NodeSpec] = {}
        self.partition = Partition()
        self._store = store
        self._last: tuple[TaskCost, float, int, int, int, Counters] | None = None  # shared by equal tasks

    def of_map(self, node: NodeSpec, plan: AttemptPlan) -> tuple[float, Counters]:
        """Return the duration in seconds and the counters of a map that runs on `node`.

        Raises NoReplica if an input block cannot be read from any node.
        """
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
        """Return the duration in seconds and the counters of a reduce that starts to fetch at `begin_s`.

        `board` must contain the announced outputs of all maps.
        """
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
        """Return the node from which a map on `node` reads the block. Nodes of equal distance take turns.

        Raises NoReplica if no node with a replica can be reached.
        """
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
    """Return the counters of an attempt that has done a share `done` (0 to 1) of its work.

    `whole` are the counters of the complete attempt, or None if the attempt's work is not known yet.
    `memory_bytes` is the most memory that the attempt may use; 0 for any.
    """
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
    """Return the seconds that the node's disk needs to write the attempt's output file; 0 without a file."""
    return 0.0 if plan.output is None else plan.cost.output_bytes / node.disk_bps


def send_seconds(node: NodeSpec, plan: AttemptPlan) -> float:
    """Return the seconds that the node's NIC needs to send the output file to another replica's node.

    The result is 0 if there is no output file or only one replica.
    """
    if plan.output is None or plan.replication < 2:
        return 0.0
    return plan.cost.output_bytes / node.network_bps

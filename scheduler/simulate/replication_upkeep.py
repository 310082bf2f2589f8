"""Simulated messages of the NameNode: orders to nodes, and reports of changed replicas to the JobTracker.

Nodes send heartbeats to it only while it has orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from schedbed.cluster.virtual.node_model import Emulation
from schedbed.scheduler.block_reads import reads_of
from schedbed.scheduler.simulate.event_queue import BLOCKS, COPIED, NAMES, READS, EventQueue
from schedbed.scheduler.simulate.setup import Rows, Setup
from schedbed.scheduler.simulate.storage import Storage
from schedbed.scheduler.simulate.tracked_nodes import Master, SimNode
from schedbed.tasks.specs import NodeId

NAMENODE_HEARTBEAT_S = 2.0
FOLLOW_BLOCKS_S = 1.0
COPY_LATENCY_S = 0.05


class _LinkFaults(Protocol):
    """The method of `virtual_faults.Faults` that this module calls."""

    def is_cut_off(self, node: SimNode) -> bool: ...


class StoringSimulation(Protocol):
    """The attributes and methods of a simulation that `Upkeep` uses."""

    rows: Rows
    setup: Setup
    queue: EventQueue
    nodes: list[SimNode]
    storage: Storage
    emulation: Emulation
    master: Master

    @property
    def node_by_name(self) -> Mapping[NodeId, SimNode]: ...

    @property
    def faults(self) -> _LinkFaults: ...

    def core_changed(self, now_s: float) -> None: ...


class Upkeep:
    """The NameNode's work during a simulation: heartbeats of nodes, copies of blocks, and reports to the
    JobTracker about added and removed replicas."""

    def __init__(self, simulation: StoringSimulation) -> None:
        self._simulation = simulation
        self._storage = simulation.storage
        self._round = 0  # NameNode heartbeats are simulated for all nodes up to this round
        self._has_timer = False
        self._following = False
        self._copies: dict[int, tuple[str, str, str, str, int]] = {}  # event, block, source, target, bytes
        self._serial = 0
        self._incarnations: dict[int, tuple[int, int]] = {}

    def start(self) -> None:
        """Schedule the first messages of and to the NameNode at the start of the run."""
        self.stir()
        if self._simulation.setup.cluster.blocks.replicas is not None:
            self._simulation.queue.push(FOLLOW_BLOCKS_S, READS, 0)

    def note_reads(self, now_s: float, number: int) -> None:
        """Report the reads of each input, and schedule the next report unless no event is left.

        Skipped without a scheme for replicas, or while the JobTracker is down.
        """
        simulation, scheme = self._simulation, self._simulation.setup.cluster.blocks.replicas
        if scheme is not None and simulation.master.is_up:
            self._storage.names.note_reads(now_s, *reads_of(simulation.master.ledger), scheme)
            self.stir()
        if simulation.queue.heap:
            simulation.queue.push((number + 2) * FOLLOW_BLOCKS_S, READS, number + 1)

    def stir(self) -> None:
        """Schedule heartbeats to the NameNode if it has orders, and a report of changed replicas."""
        if not self._has_timer and self._storage.has_orders():
            self._has_timer = True
            self._next_round()
        if not self._following and self._storage.has_replica_changes():
            self._following = True
            number = int(self._simulation.queue.now_s / FOLLOW_BLOCKS_S) + 1
            self._simulation.queue.push(number * FOLLOW_BLOCKS_S, BLOCKS, 0)

    def _next_round(self) -> None:
        """Schedule one heartbeat of each node, spread over `NAMENODE_HEARTBEAT_S` seconds."""
        self._round = max(self._round, int(self._simulation.queue.now_s / NAMENODE_HEARTBEAT_S)) + 1
        self._simulation.queue.push(self._heartbeat_s(0), NAMES, 0)

    def _heartbeat_s(self, index: int) -> float:
        """Return the time of a node's heartbeat in this round."""
        into_round_s = NAMENODE_HEARTBEAT_S * index / len(self._simulation.nodes)
        return self._round * NAMENODE_HEARTBEAT_S + into_round_s

    def heartbeats(self, now_s: float, index: int) -> None:
        """Process the NameNode heartbeats of the nodes from the number `index` on, until another event is due."""
        queue, nodes = self._simulation.queue, self._simulation.nodes
        next_s = self._simulation.emulation.next_s
        self._heartbeat(now_s, nodes[index])
        for later in range(index + 1, len(nodes)):
            at_s = self._heartbeat_s(later)
            if queue.has_before(at_s, NAMES, later) or next_s() <= at_s:
                queue.push(at_s, NAMES, later)
                return
            queue.now_s = at_s
            self._heartbeat(at_s, nodes[later])
        self._has_timer = self._storage.has_orders()
        if self._has_timer:
            self._next_round()

    def _heartbeat(self, now_s: float, node: SimNode) -> None:
        """Carry out the NameNode's orders to the node."""
        if node.up and not node.frozen and not self._simulation.faults.is_cut_off(node):
            for command in self._storage.names.heartbeat(now_s, node.node):
                self._obey(now_s, node.node, command)
        self.stir()

    def _obey(self, now_s: float, node: str, command: dict[str, Any]) -> None:
        names = self._storage.names
        match command["type"]:
            case "delete_block":
                names.block_event(now_s, node, "removed", command["block"], 0)
            case "replicate":
                for target in command["to"]:
                    self._copy(now_s, "added", command["block"], node, target)
            case "report_blocks":
                known = self._simulation.node_by_name[node]
                self._storage.register(now_s, node, known.spec.rack, known.blocks or ())
                known.blocks = None

    def keep(self, now_s: float, block: str, node: str, read_bytes: int) -> None:
        """Copy the rest of a block to a node where a map has read `read_bytes`."""
        holders = self._storage.names.holders(block)
        if holders and node not in holders:
            self._copy(now_s, "kept", block, holders[0], node, read_bytes)

    def _copy(
        self, now_s: float, event: str, block: str, source: str, target: str, there_bytes: int = 0
    ) -> None:
        """Copy a block at the lowest rate of both nodes, without contention; at the end report `event`."""
        nodes = self._simulation.node_by_name
        one, other = nodes[source], nodes[target]
        length = self._storage.names.block_length(block)
        if length is None:
            return
        slowest_bps = min(
            rate
            for node in (one, other)
            for rate in (node.spec.disk_bps * node.rates[1], node.spec.network_bps * node.rates[2])
        )
        self._serial += 1
        self._copies[self._serial] = (event, block, source, target, length)
        self._incarnations[self._serial] = (one.incarnation, other.incarnation)
        took_s = max(0, length - there_bytes) / slowest_bps
        if there_bytes:  # The read bytes must still be written.
            took_s = max(took_s, length / (other.spec.disk_bps * other.rates[1]))
        self._simulation.queue.push(now_s + COPY_LATENCY_S + took_s, COPIED, self._serial)

    def copied(self, now_s: float, serial: int) -> None:
        """Add the copy's replica, unless one of the nodes has restarted since, or the target's disk is full."""
        event, block, source, target, length = self._copies.pop(serial)
        nodes = self._simulation.node_by_name
        lives = self._incarnations.pop(serial)
        if lives != (nodes[source].incarnation, nodes[target].incarnation):
            return
        if nodes[source].up and nodes[target].up and not nodes[target].disk_full:
            self._storage.names.block_event(now_s, target, event, block, length)
            self.stir()

    def follow_blocks(self, now_s: float, _: int) -> None:
        """Report added and removed replicas of inputs to the JobTracker, and write the rows of removed replicas."""
        simulation = self._simulation
        self._following = False
        if not simulation.master.is_up:
            self.stir()
            return
        for block, nodes in self._storage.names.take_replica_changes():
            simulation.master.do(now_s, "replicas_changed", block, tuple(nodes))
        simulation.core_changed(now_s)
        self.take_rows()

    def take_rows(self) -> None:
        """Write the rows of the blocks table that the NameNode has recorded since the last call."""
        while rows := self._storage.rows():
            for row in rows:
                self._simulation.rows.block(row)

    def close(self) -> None:
        """Write the rows of remaining replicas."""
        self.take_rows()
        self._storage.put_living(self._simulation.rows)

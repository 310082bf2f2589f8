"""The part of the NameNode that tracks live nodes and replicas, and sends commands in heartbeat replies.

Replicas are known only from reports. The tree of files is read but never changed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode_journal import NamespaceJournal
from schedbed.cluster.blocks.namespace import File, Namespace
from schedbed.cluster.blocks.placement import hot_nodes
from schedbed.cluster.blocks.replica_schemes import Epoch, NodeChoice, ReadFile
from schedbed.cluster.blocks.replication import CAUSE as DARE
from schedbed.cluster.blocks.replication import Replication
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId

Json = dict[str, Any]


class BlockManager:
    """The live nodes and their replicas. `order` lists the declared nodes; others are appended.

    If `names` contains blocks at the start, the NameNode has restarted: no copies are made until `settle_s`
    seconds after the first registration, since most replicas are not reported yet.
    """

    def __init__(
        self,
        names: Namespace,
        journal: NamespaceJournal | MemoryJournal,
        replication: Replication,
        order: list[NodeId],
        settle_s: float,
    ) -> None:
        self.map = replication.map
        self.order = order
        self._declared = dict.fromkeys(order)  # The same nodes, for fast lookup.
        self._names = names
        self._journal = journal
        self._replication = replication
        self._settle_s = settle_s
        self._changed_inputs: dict[str, None] = {}
        self._input_bytes: dict[str, int] = {}  # Total size of a block's replicas.
        self._inputs_bytes = 0
        self._epoch = Epoch()
        self._wanted: dict[str, int] = {}  # Replicas by input, since the last epoch.
        for block, file in names.owners.items():
            self.map.add_block(block)
            if file.complete:
                self._settle(file, block)
        self._copies_from_s = None if names.owners else 0.0

    def register(self, now_s: float, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Register a node with its replicas {"block", "length"}, which replace all earlier records of it."""
        if self._copies_from_s is None:
            self._copies_from_s = now_s + self._settle_s
        if node not in self._declared:
            self._declared[node] = None
            self.order.append(node)
        self.map.add_node(node, rack, url)
        self._replication.node_came(node)
        held = {raw["block"]: raw["length"] for raw in blocks}
        kept = set(self._journal.living_of(node, DARE))
        with self._journal.together():
            known = [*self.map.nodes[node].blocks, *(block for block, _ in self._journal.living(node))]
            for block in dict.fromkeys(known):
                if block not in held:
                    self._replica_gone(now_s, block, node)
            for block, length in held.items():
                self._replica_came(now_s, block, node, length, DARE if block in kept else "report")

    def node_lost(self, now_s: float, node: NodeId) -> None:
        """Remove a node with all its replicas. Do nothing if the node is unknown."""
        lives = [block for block, _ in self._journal.living(node)]
        held = self.map.remove_node(node)
        self._replication.node_went(node)
        with self._journal.together():
            for block in dict.fromkeys([*held, *lives]):
                self._journal.end_life(block, node, self._file_of(block), now_s)
                self._replicas_changed(block)

    def heartbeat(self, now_s: float, node: NodeId) -> list[Json]:
        """Return a node's commands: `replicate` {block, to}, `delete_block` {block}, or if unknown `report_blocks`."""
        if node not in self.map.nodes:
            return [{"type": "report_blocks"}]
        if not self._replication.may_order(now_s, node):
            return []
        commands: list[Json] = []
        for block in self._replication.deletions(now_s, node):
            commands.append({"type": "delete_block", "block": block})
            if block in self.map.blocks:
                self._drop_replica(now_s, block, node)
        if self._copies_from_s is not None and now_s >= self._copies_from_s:
            commands += self._replication.copies(now_s, node)
        return commands

    def settling(self, now_s: float) -> bool:
        """Return whether block reports are missing: until all have registered, or `settle_s` after the first."""
        if all(node in self.map.nodes for node in self.order):
            return False
        return self._copies_from_s is None or now_s < self._copies_from_s

    def block_event(self, now_s: float, node: NodeId, event: str, block: str, length: int) -> None:
        """Process a node's report on one replica: `added`, `kept` (fetched for a map), `removed` or `corrupt`."""
        if node not in self.map.nodes:
            return  # The node reports all its blocks when it registers.
        if event in ("added", "kept"):
            if block in self.map.blocks:
                self.map.unmark(block, node)  # The block was written again.
            self._replica_came(now_s, block, node, length, DARE if event == "kept" else "repair")
        elif event == "removed":
            self._replica_gone(now_s, block, node)
        elif event == "corrupt" and block in self.map.blocks:
            self._mark(block, node)

    def report_bad(self, block: str, node: NodeId) -> None:
        """Mark a replica that a reader could not use, unless it is the last good one: the reader may be wrong."""
        state = self.map.blocks.get(block)
        if state is not None and any(other != node for other in state.good()):
            self._mark(block, node)

    def keeps(self, node: NodeId, block: str, budget: float) -> bool:
        """Return whether a node keeps a block that it fetched, by DARE. `budget` is a share (0 to 1) of all inputs."""
        state = self.map.blocks.get(block)
        if (
            state is None
            or state.length is None
            or block not in self._input_bytes
            or node not in self.map.nodes
        ):
            return False
        kept = self._replication.kept
        kept.budget_bytes = budget * self._inputs_bytes
        return kept.read(block, state.length) and node not in state.replicas

    def note_reads(
        self,
        now_s: float,
        reading: Mapping[str, int],
        serving: Mapping[NodeId, tuple[float, int]],
        scheme: DynamicReplicas,
    ) -> None:
        """Record the reads, and at an epoch's end set inputs' replicas by the scheme Scarlett or CDRM.

        `reading` maps paths to their reading jobs, `serving` nodes to (requests in progress, slots).
        """
        self._epoch.note(reading, serving)
        if now_s - self._epoch.begin_s < scheme.epoch_s:
            return
        inputs = {file.path: file for file in self._names.files() if file.is_input and file.complete}
        files = {
            path: ReadFile(len(file.blocks), sum(file.blocks.values()), file.replication)
            for path, file in inputs.items()
        }
        epoch, self._epoch = self._epoch, Epoch(now_s)
        wanted = epoch.replicas(scheme, files, len(self.map.nodes), self._inputs_bytes)
        loads: dict[NodeId, float] = {}
        shares: dict[str, float] = {}  # Expected load of each replica of a file's blocks.
        for path, file in inputs.items():
            shares[path] = epoch.most_read.get(path, 0) / max(1, len(file.blocks)) / wanted[path]
            for block in file.blocks:
                for node in self.map.blocks[block].good():
                    loads[node] = loads.get(node, 0.0) + shares[path]
        if scheme.scheme == "cdrm":
            loads = {node: requests / epoch.samples for node, requests in epoch.served.items()}
        self._replication.choice = NodeChoice(scheme.scheme, loads, epoch.slots)
        # Decreases come first, so that copies find the free space and the lower loads.
        for path in sorted(inputs, key=lambda path: wanted[path] - self._wanted.get(path, files[path].base)):
            for block in inputs[path].blocks:
                self._replication.raise_target(
                    block, wanted[path], scheme.scheme, files[path].base, shares[path]
                )
        self._wanted = wanted

    def _mark(self, block: str, node: NodeId) -> None:
        if node in self.map.blocks[block].replicas:
            self.map.mark(block, node)
            self._replication.replica_went(block, node)
            self._replicas_changed(block)

    def _replica_came(
        self, now_s: float, block: str, node: NodeId, length: int, cause: str = "report"
    ) -> None:
        """Record a replica. `cause` counts unless a write or a planned copy has given the reason."""
        if block not in self.map.blocks:
            self._replication.block_unwanted(block, [node])
            return
        expected = self.map.arrived(block, node)
        if self._replication.replica_came(block, node):
            cause = self._replication.copy_cause(block)
        if self.map.add_replica(block, node, length):
            self._journal.begin_life(block, node, length, now_s, expected or cause)
            if cause == DARE and expected is None:
                self._replication.keep(block, node, length)
        if node in self.map.blocks[block].corrupt:
            self._replication.replica_went(block, node)  # The replica has a wrong length.
        self._replicas_changed(block)

    def _replica_gone(self, now_s: float, block: str, node: NodeId) -> None:
        self._replication.replica_went(block, node)
        if block in self.map.blocks:
            self.map.unmark(block, node)
        self._drop_replica(now_s, block, node)

    def _drop_replica(self, now_s: float, block: str, node: NodeId) -> None:
        self._journal.end_life(block, node, self._file_of(block), now_s)
        if block in self.map.blocks:
            self.map.remove_replica(block, node)
            self._replicas_changed(block)

    def _replicas_changed(self, block: str) -> None:
        self._replication.reconsider(block)
        self._input_changed(self._names.owners.get(block), block)

    def _input_changed(self, file: File | None, block: str) -> None:
        if file is not None and file.is_input:
            self._changed_inputs[block] = None

    # -- files ----------------------------------------------------------------------------------------------

    def stored(self, now_s: float, file: File, holders: Mapping[str, Iterable[NodeId]]) -> None:
        """Record a complete file's replicas as its client reports them. Nodes' reports may come before or after."""
        with self._journal.together():
            for block, length in file.blocks.items():
                for node in holders.get(block, ()):
                    if node in self.map.nodes and node not in self.map.blocks[block].replicas:
                        self._replica_came(now_s, block, node, length)
                self._settle(file, block)
                self._replicas_changed(block)

    def stored_whole(self, now_s: float, file: File, places: Sequence[Sequence[NodeId]]) -> None:
        """Record a new file's replicas in a simulation, faster than `stored`. `places` lists each block's
        nodes.

        Of an output, the first node is the writer's. The caller must have added the sizes to the nodes' loads
        (`map.field`).
        """
        begin_life, count = self._journal.begin_life, file.replication
        first, others = ("input", "input") if file.is_input else ("write", "pipeline")
        for (block, length), nodes in zip(file.blocks.items(), places, strict=True):
            self.map.load(block, nodes, length, count)
            for index, node in enumerate(nodes):
                begin_life(block, node, length, now_s, others if index else first)
            self._count_input(file, block)
            if len(nodes) != count:
                self._replication.reconsider(block)

    def _settle(self, file: File, block: str) -> None:
        self._prefer(file, block)
        self._count_input(file, block)
        self.map.settle(block, file.blocks[block], file.replication)

    def _count_input(self, file: File, block: str) -> None:
        if file.is_input and block not in self._input_bytes:
            self._input_bytes[block] = file.blocks[block] * file.replication
            self._inputs_bytes += self._input_bytes[block]

    def _prefer(self, file: File, block: str) -> None:
        if file.skew is not None:
            self._replication.preferred[block] = tuple(hot_nodes(self.order, file.skew))

    def retarget(self, file: File) -> None:
        """Want `file.replication` replicas of each block, and none of those that Scarlett or CDRM ordered."""
        for block in file.blocks:
            self._inputs_bytes -= self._input_bytes.pop(block, 0)
            self._count_input(file, block)
            self._replication.raised.pop(block, None)
            self.map.blocks[block].target = file.replication
            self._replicas_changed(block)

    def forget(self, now_s: float, released: Mapping[str, str]) -> None:
        """Remove blocks (block -> its former file's path) and order the nodes to delete their replicas."""
        for block, path in released.items():
            holders = self.map.forget(block)
            for node in holders:
                self._journal.end_life(block, node, path, now_s)
            self._replication.block_unwanted(block, holders)
            self._replication.raised.pop(block, None)
            self._changed_inputs.pop(block, None)
            self._inputs_bytes -= self._input_bytes.pop(block, 0)

    # -- questions -------------------------------------------------------------------------------------------

    def take_replica_changes(self) -> list[tuple[str, list[NodeId]]]:
        """Return (block, its good nodes) of input blocks whose replicas changed since the last call."""
        changed, self._changed_inputs = self._changed_inputs, {}
        return [(block, self.map.blocks[block].good()) for block in changed]

    def blocks_on(self, node: NodeId) -> list[Json]:
        """Return the good replicas on a node in the format of a block report: {"block", "length"}."""
        state = self.map.nodes.get(node)
        held = [(block, self.map.blocks[block]) for block in state.blocks] if state is not None else []
        return [
            {"block": name, "length": block.replicas[node]}
            for name, block in held
            if node not in block.corrupt
        ]

    def has_orders(self) -> bool:
        """Return whether a heartbeat could be answered with a command, now or after copies or corruption."""
        return self._replication.busy or self.map.has_corrupt

    def has_replica_changes(self) -> bool:
        return bool(self._changed_inputs)

    def close(self) -> None:
        """Write a row of blocks.parquet for each replica that still exists."""
        with self._journal.together():
            paths: dict[str, str] = {}  # By block; blocks of a file share one string.
            for file in self._names.files():
                paths.update(dict.fromkeys(file.blocks, file.path))
            for block, node in self._journal.living():
                self._journal.end_life(block, node, paths.get(block, ""), None)

    def _file_of(self, block: str) -> str:
        file = self._names.owners.get(block)
        return file.path if file is not None else ""

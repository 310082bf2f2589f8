"""The replicas of each block: their nodes, marks of corrupt replicas, and replicas that are being written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.tasks.specs import NodeId


@dataclass(slots=True)
class BlockState:
    """The replicas of one block. While it is being written, `length` is None and `target` is 0."""

    length: int | None = None
    target: int = 0
    replicas: dict[NodeId, int] = field(default_factory=dict)  # node -> length in bytes
    corrupt: dict[NodeId, None] = field(default_factory=dict)  # Marks remain when a node is lost.
    expected: dict[NodeId, tuple[str, int]] = field(default_factory=dict)  # node -> cause, bytes

    def good(self) -> list[NodeId]:
        """Return the nodes whose replica is not marked as corrupt, in the order of the replicas' arrival."""
        if not self.corrupt:
            return list(self.replicas)
        return [node for node in self.replicas if node not in self.corrupt]


@dataclass(slots=True)
class NodeState:
    """A live node and its replicas. `reserved_bytes` is the size of the replicas that are being written."""

    rack: str
    url: str = ""
    blocks: dict[str, None] = field(default_factory=dict)
    used_bytes: int = 0
    reserved_bytes: int = 0


class BlockMap:
    """The replicas of all blocks on live nodes. `field` indexes the nodes by the bytes that each stores."""

    def __init__(self) -> None:
        self.blocks: dict[str, BlockState] = {}
        self.nodes: dict[NodeId, NodeState] = {}
        self.field = NodeIndex()  # The same nodes with their loads.
        self._marked: dict[str, None] = {}  # Blocks with a corrupt mark, for fast lookup.
        self._awaited: dict[str, None] = {}  # All blocks with expected replicas, and perhaps some more.

    def rack(self, node: NodeId) -> str:
        return self.nodes[node].rack

    def load_bytes(self, node: NodeId) -> int:
        """Return the bytes that a live node stores or is being sent."""
        state = self.nodes[node]
        return state.used_bytes + state.reserved_bytes

    def add_node(self, node: NodeId, rack: str, url: str) -> None:
        """Add a node without replicas. For a known node, update the rack and the URL."""
        state = self.nodes.get(node)
        if state is None:
            state = self.nodes[node] = NodeState(rack)
            self.field.add(node, rack)
        elif state.rack != rack:
            self.field.remove(node)
            self.field.add(node, rack, state.used_bytes + state.reserved_bytes)
        state.rack, state.url = rack, url

    def remove_node(self, node: NodeId) -> list[str]:
        """Remove a node with all its replicas. Return the blocks of which the node stored a replica."""
        state = self.nodes.get(node)
        if state is None:
            return []
        held = list(state.blocks)
        for block in held:
            self.remove_replica(block, node)
        for block in self._awaited:
            self.blocks[block].expected.pop(node, None)
        del self.nodes[node]
        self.field.remove(node)
        return held

    def add_block(self, block: str) -> None:
        self.blocks[block] = BlockState()

    def settle(self, block: str, length: int, target: int) -> None:
        """Set the length of a written block. Replicas of another length become corrupt; none is expected any more."""
        state = self.blocks[block]
        state.length, state.target = length, target
        for node in list(state.expected):
            self.arrived(block, node)
        self._awaited.pop(block, None)
        for node, held in state.replicas.items():
            if held != length:
                self.mark(block, node)

    def forget(self, block: str) -> list[NodeId]:
        """Remove a block that belongs to no file. Return the live nodes that still store a replica."""
        state = self.blocks[block]
        holders = list(state.replicas)
        for node in list(state.expected):
            self.arrived(block, node)
        for node in holders:
            self.remove_replica(block, node)
        del self.blocks[block]
        self._marked.pop(block, None)
        self._awaited.pop(block, None)
        return holders

    def expect(self, block: str, node: NodeId, cause: str, length: int) -> None:
        """Record that a replica is being written. `cause` is the reason that blocks.parquet records."""
        self.blocks[block].expected[node] = (cause, length)
        self._awaited[block] = None
        self.nodes[node].reserved_bytes += length
        self.field.charge(node, length)

    def promise(self, block: str, nodes: Sequence[NodeId], cause: str, length: int) -> None:
        """Add a block whose replicas are being written. Unlike `expect`, leaves `field` to the caller."""
        self.blocks[block] = state = BlockState()
        self._awaited[block] = None
        promised = (cause, length)
        for node in nodes:
            state.expected[node] = promised
            self.nodes[node].reserved_bytes += length

    def load(self, block: str, nodes: Sequence[NodeId], length: int, target: int) -> None:
        """Add a block with its replicas. The caller must have added their sizes to `field`."""
        self.blocks[block] = BlockState(length, target, dict.fromkeys(nodes, length))
        for node in nodes:
            holder = self.nodes[node]
            holder.blocks[block] = None
            holder.used_bytes += length

    def arrived(self, block: str, node: NodeId) -> str | None:
        """Stop expecting a replica. Return the cause given to `expect`, or None if none was expected."""
        expected = self.blocks[block].expected.pop(node, None)
        if expected is None:
            return None
        self.nodes[node].reserved_bytes -= expected[1]
        self.field.charge(node, -expected[1])
        return expected[0]

    def add_replica(self, block: str, node: NodeId, length: int) -> bool:
        """Record a replica, corrupt if its length is wrong. Return whether it is new."""
        state, holder = self.blocks[block], self.nodes[node]
        if state.length is not None and length != state.length:
            self.mark(block, node)
        known = state.replicas.get(node)
        state.replicas[node] = length
        holder.blocks[block] = None
        holder.used_bytes += length - (known or 0)
        self.field.charge(node, length - (known or 0))
        return known is None

    def remove_replica(self, block: str, node: NodeId) -> bool:
        """Remove a replica, but not its mark as corrupt. Return whether it was known."""
        state = self.blocks[block]
        if node not in state.replicas:
            return False
        holder = self.nodes[node]
        length = state.replicas.pop(node)
        holder.used_bytes -= length
        self.field.charge(node, -length)
        del holder.blocks[block]
        return True

    def mark(self, block: str, node: NodeId) -> None:
        self.blocks[block].corrupt[node] = None
        self._marked[block] = None

    def unmark(self, block: str, node: NodeId) -> None:
        """Remove the corrupt mark of a replica, which was deleted or written again."""
        marks = self.blocks[block].corrupt
        marks.pop(node, None)
        if not marks:
            self._marked.pop(block, None)

    @property
    def has_corrupt(self) -> bool:
        return bool(self._marked)

    def corrupt_on(self, node: NodeId) -> list[str]:
        """Return the blocks whose replica on a live node is corrupt."""
        held = self.nodes[node].blocks
        return [block for block in self._marked if block in held and node in self.blocks[block].corrupt]

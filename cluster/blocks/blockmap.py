"""The nodes that hold each block at present: replicas, corrupt marks, and replicas that a write will bring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from schedbed.cluster.blocks.live_nodes import Field
from schedbed.tasks.specs import NodeId


@dataclass(slots=True)
class BlockState:
    """The replicas of a block. `length` is None, and `target` 0, while the block is being written."""

    length: int | None = None
    target: int = 0
    replicas: dict[NodeId, int] = field(default_factory=dict)  # node -> bytes it holds
    corrupt: dict[NodeId, None] = field(default_factory=dict)  # outlives the loss of a node
    expected: dict[NodeId, tuple[str, int]] = field(default_factory=dict)  # node -> cause, bytes

    def good(self) -> list[NodeId]:
        """Return the nodes with replicas that are not marked as corrupt, oldest first."""
        if not self.corrupt:
            return list(self.replicas)
        return [node for node in self.replicas if node not in self.corrupt]


@dataclass(slots=True)
class NodeState:
    """A live node and its replicas. `reserved_bytes` are expected from writes that are not complete."""

    rack: str
    url: str = ""
    blocks: dict[str, None] = field(default_factory=dict)
    used_bytes: int = 0
    reserved_bytes: int = 0


class BlockMap:
    """Blocks and live nodes, in both directions. A node that is not in `nodes` holds nothing."""

    def __init__(self) -> None:
        self.blocks: dict[str, BlockState] = {}
        self.nodes: dict[NodeId, NodeState] = {}
        self.field = Field()  # of the same nodes and loads
        self._marked: dict[str, None] = {}  # blocks with a corrupt mark, so that finding them costs nothing

    def rack(self, node: NodeId) -> str:
        """Return the rack of a live node."""
        return self.nodes[node].rack

    def load_bytes(self, node: NodeId) -> int:
        """Return the bytes of blocks that a live node holds or expects."""
        state = self.nodes[node]
        return state.used_bytes + state.reserved_bytes

    def add_node(self, node: NodeId, rack: str, url: str) -> None:
        """Add a node or update its rack and address. Its replicas are added by `add_replica`."""
        state = self.nodes.get(node)
        if state is None:
            state = self.nodes[node] = NodeState(rack)
            self.field.add(node, rack)
        elif state.rack != rack:
            self.field.remove(node)
            self.field.add(node, rack, state.used_bytes + state.reserved_bytes)
        state.rack, state.url = rack, url

    def remove_node(self, node: NodeId) -> list[str]:
        """Remove a node with all its replicas. Return its blocks."""
        state = self.nodes.get(node)
        if state is None:
            return []
        held = list(state.blocks)
        for block in held:
            self.remove_replica(block, node)
        for block in self.blocks.values():
            block.expected.pop(node, None)
        del self.nodes[node]
        self.field.remove(node)
        return held

    def add_block(self, block: str) -> None:
        """Add a block that is about to be written."""
        self.blocks[block] = BlockState()

    def settle(self, block: str, length: int, target: int) -> None:
        """Set the length and the wanted number of replicas of a written block. Replicas of another length are marked
        as corrupt."""
        state = self.blocks[block]
        state.length, state.target = length, target
        for node in list(state.expected):
            self.arrived(block, node)
        for node, held in state.replicas.items():
            if held != length:
                self.mark(block, node)

    def forget(self, block: str) -> list[NodeId]:
        """Remove a block that belongs to no file any more. Return the live nodes that hold it."""
        state = self.blocks[block]
        holders = list(state.replicas)
        for node in list(state.expected):
            self.arrived(block, node)
        for node in holders:
            self.remove_replica(block, node)
        del self.blocks[block]
        self._marked.pop(block, None)
        return holders

    def expect(self, block: str, node: NodeId, cause: str, length: int) -> None:
        """Note that a write will bring a replica of about `length` bytes to a node."""
        self.blocks[block].expected[node] = (cause, length)
        self.nodes[node].reserved_bytes += length
        self.field.charge(node, length)

    def promise(self, block: str, nodes: Sequence[NodeId], cause: str, length: int) -> None:
        """Note expected replicas of a new block, as `expect` does, where the loads of `field` already include the
        bytes."""
        self.blocks[block] = state = BlockState()
        promised = (cause, length)
        for node in nodes:
            state.expected[node] = promised
            self.nodes[node].reserved_bytes += length

    def load(self, block: str, nodes: Sequence[NodeId], length: int, target: int) -> None:
        """Add a new block with all its replicas, where the loads of `field` already include the bytes."""
        self.blocks[block] = BlockState(length, target, dict.fromkeys(nodes, length))
        for node in nodes:
            holder = self.nodes[node]
            holder.blocks[block] = None
            holder.used_bytes += length

    def store(
        self, block: str, nodes: Iterable[NodeId], length: int, target: int
    ) -> list[tuple[NodeId, str | None]]:
        """Store the first replicas of a block and settle it: a faster form of `arrived`, `add_replica` and `settle`.

        Returns each live node among `nodes` with the cause that was expected there.
        """
        state, charge = self.blocks[block], self.field.charge
        came: list[tuple[NodeId, str | None]] = []
        expected, replicas = state.expected, state.replicas
        for node in nodes:
            holder = self.nodes.get(node)
            if holder is None or node in replicas:
                continue
            cause, promised = expected.pop(node, (None, 0))
            replicas[node] = length
            holder.blocks[block] = None
            holder.used_bytes += length
            holder.reserved_bytes -= promised
            if promised != length:
                charge(node, length - promised)
            came.append((node, cause))
        if expected:
            for node in list(expected):
                self.arrived(block, node)
        state.length, state.target = length, target
        return came

    def arrived(self, block: str, node: NodeId) -> str | None:
        """Note that an expected replica has arrived. Return its cause; None if none was expected."""
        expected = self.blocks[block].expected.pop(node, None)
        if expected is None:
            return None
        self.nodes[node].reserved_bytes -= expected[1]
        self.field.charge(node, -expected[1])
        return expected[0]

    def add_replica(self, block: str, node: NodeId, length: int) -> bool:
        """Note a replica on a live node. Return whether it is new. A wrong length marks it as corrupt."""
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
        """Remove a replica. Return whether it was known. A corrupt mark stays until `unmark`."""
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
        """Mark the replica on the node as corrupt."""
        self.blocks[block].corrupt[node] = None
        self._marked[block] = None

    def unmark(self, block: str, node: NodeId) -> None:
        """Remove the corrupt mark of a replica that was deleted or written again."""
        marks = self.blocks[block].corrupt
        marks.pop(node, None)
        if not marks:
            self._marked.pop(block, None)

    def corrupt(self) -> Iterator[str]:
        """Return the blocks with a corrupt mark."""
        return iter(self._marked)

    def corrupt_on(self, node: NodeId) -> Iterator[str]:
        """Return the blocks with a corrupt replica on a live node."""
        marked = [(block, self.blocks[block]) for block in self._marked]
        return (block for block, state in marked if node in state.corrupt and node in state.replicas)

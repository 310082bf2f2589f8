"""Which node holds which block, right now: replicas, corrupt marks and replicas that are on their way by a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from schedbed.cluster.blocks.live_nodes import Field
from schedbed.tasks.specs import NodeId


@dataclass(slots=True)
class BlockState:
    """A block's replicas. `length` is None while the block is being written, and `target` is 0 then."""

    length: int | None = None
    target: int = 0
    replicas: dict[NodeId, int] = field(default_factory=dict)  # node -> bytes it holds
    corrupt: dict[NodeId, None] = field(default_factory=dict)  # outlives the loss of a node
    expected: dict[NodeId, tuple[str, int]] = field(default_factory=dict)  # node -> cause, bytes

    def good(self) -> list[NodeId]:
        """Nodes that hold a replica nobody found fault with, oldest first."""
        if not self.corrupt:
            return list(self.replicas)
        return [node for node in self.replicas if node not in self.corrupt]


@dataclass(slots=True)
class NodeState:
    """A live node and what it holds. `reserved_bytes` are promised by writes that are not done."""

    rack: str
    url: str = ""
    blocks: dict[str, None] = field(default_factory=dict)
    used_bytes: int = 0
    reserved_bytes: int = 0


class BlockMap:
    """Blocks and live nodes, both ways; a node that is not in `nodes` holds nothing."""

    def __init__(self) -> None:
        self.blocks: dict[str, BlockState] = {}
        self.nodes: dict[NodeId, NodeState] = {}
        self.field = Field()  # of the same nodes and loads
        self._marked: dict[str, None] = {}  # blocks with a corrupt mark, so that finding them costs nothing

    def rack(self, node: NodeId) -> str:
        """Return the rack of a live node."""
        return self.nodes[node].rack

    def load_bytes(self, node: NodeId) -> int:
        """Return bytes of blocks that a live node holds or was promised."""
        state = self.nodes[node]
        return state.used_bytes + state.reserved_bytes

    def add_node(self, node: NodeId, rack: str, url: str) -> None:
        """A node lives (again); what it holds is told by `add_replica`."""
        state = self.nodes.get(node)
        if state is None:
            state = self.nodes[node] = NodeState(rack)
            self.field.add(node, rack)
        elif state.rack != rack:
            self.field.remove(node)
            self.field.add(node, rack, state.used_bytes + state.reserved_bytes)
        state.rack, state.url = rack, url

    def remove_node(self, node: NodeId) -> list[str]:
        """A node is gone with all its replicas; the blocks it held."""
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
        """A block that is about to be written."""
        self.blocks[block] = BlockState()

    def settle(self, block: str, length: int, target: int) -> None:
        """A block is written: its length is known, and `target` replicas are wanted from now on.

        A replica of another length is corrupt.
        """
        state = self.blocks[block]
        state.length, state.target = length, target
        for node in list(state.expected):
            self.arrived(block, node)
        for node, held in state.replicas.items():
            if held != length:
                self.mark(block, node)

    def forget(self, block: str) -> list[NodeId]:
        """A block belongs to no file any more; the live nodes that hold it."""
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
        """A write will bring a replica of about `length` bytes to a node."""
        self.blocks[block].expected[node] = (cause, length)
        self.nodes[node].reserved_bytes += length
        self.field.charge(node, length)

    def promise(self, block: str, nodes: Sequence[NodeId], cause: str, length: int) -> None:
        """`expect` on some nodes, for a new block whose bytes the field's loads include already."""
        self.blocks[block] = state = BlockState()
        promised = (cause, length)
        for node in nodes:
            state.expected[node] = promised
            self.nodes[node].reserved_bytes += length

    def store(
        self, block: str, nodes: Iterable[NodeId], length: int, target: int
    ) -> list[tuple[NodeId, str | None]]:
        """A block without replicas gets its first and is settled: as `arrived`, `add_replica` and `settle`.

        Each live node of these, with the cause that was expected there.
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
        """Nothing more is expected there; the cause that was expected, None when nothing was."""
        expected = self.blocks[block].expected.pop(node, None)
        if expected is None:
            return None
        self.nodes[node].reserved_bytes -= expected[1]
        self.field.charge(node, -expected[1])
        return expected[0]

    def add_replica(self, block: str, node: NodeId, length: int) -> bool:
        """A live node holds a block; whether that is news. A wrong length makes it corrupt."""
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
        """A node no longer holds a block; whether it did. A corrupt mark stays until `unmark`."""
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
        """The replica there is corrupt."""
        self.blocks[block].corrupt[node] = None
        self._marked[block] = None

    def unmark(self, block: str, node: NodeId) -> None:
        """The corrupt replica there is gone, or written again."""
        marks = self.blocks[block].corrupt
        marks.pop(node, None)
        if not marks:
            self._marked.pop(block, None)

    def corrupt(self) -> Iterator[str]:
        """Blocks with a corrupt mark."""
        return iter(self._marked)

    def corrupt_on(self, node: NodeId) -> Iterator[str]:
        """Blocks of which a live node holds a corrupt replica."""
        marked = [(block, self.blocks[block]) for block in self._marked]
        return (block for block, state in marked if node in state.corrupt and node in state.replicas)

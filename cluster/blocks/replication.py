"""Decisions about copying and deleting replicas so that each block has its wanted number of replicas.

They use neither the tree of files nor a clock. A replica exists until its deletion is sent, and each deletion
is checked again then: the last good replica of a file's block is never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from schedbed.cluster.blocks.blockmap import BlockMap, BlockState
from schedbed.cluster.blocks.live_nodes import CandidateNode
from schedbed.cluster.blocks.placement import place_hdfs, surplus
from schedbed.cluster.blocks.replica_schemes import NodeChoice
from schedbed.tasks.specs import NodeId

Command = dict[str, Any]

REFUSED_LIMIT = 200
"""Planning stops after this number of blocks with busy holders, to limit the cost of a heartbeat."""


@dataclass(slots=True)
class Copy:
    """A copy of a block from `source`, canceled if unfinished at `until_s`. `sent` means that `source` knows."""

    source: NodeId
    until_s: float
    sent: bool = False


class Replication:
    """Decides which replicas are copied and deleted. Call `reconsider` for each block whose replicas changed.

    Each node sends at most `copies_per_node` copies at a time and receives as many. A copy is canceled after
    `timeout_s` seconds.
    """

    def __init__(self, blocks: BlockMap, *, seed: int, copies_per_node: int, timeout_s: float) -> None:
        self.map = blocks
        self.kept = DareCopies()
        self.raised: dict[
            str, tuple[str, int, float]
        ] = {}  # By block: cause, previous number of replicas, load.
        self.choice: NodeChoice | None = None  # Ranks the nodes for additional replicas.
        self._seed = seed
        self._limit = copies_per_node
        self._timeout_s = timeout_s
        self.preferred: dict[str, tuple[NodeId, ...]] = {}  # Nodes preferred for a block while live.
        self._pending: dict[str, dict[NodeId, Copy]] = {}  # block -> target -> copy
        self._sending: dict[NodeId, int] = {}  # Copies in progress by source.
        self._receiving: dict[NodeId, int] = {}  # Copies in progress by target.
        self._sources: dict[NodeId, None] = {}  # All nodes with commands to send, and perhaps some more.
        self._expires_s = inf  # No planned copy takes too long before this time.
        self._changed = False  # Whether the replicas of a block with planned copies have changed.
        self._plan_again_s = 0.0  # Without changes until then, no further copy can be planned.
        self._tries: dict[str, int] = {}
        self._under: dict[int, dict[str, None]] = {}  # good replicas -> blocks that want more
        self._level: dict[str, int] = {}  # The key in _under by block.
        self._over: dict[str, tuple[NodeId, ...]] = {}  # The nodes of blocks with too many replicas.
        self._over_on: dict[NodeId, dict[str, None]] = {}  # These blocks by node.
        self._parked: dict[str, None] = {}  # No node can take these blocks for now.
        self._unwanted: dict[NodeId, dict[str, None]] = {}  # Blocks without a file, to be deleted.
        self._leaving: dict[str, dict[NodeId, float]] = {}  # Deletions ordered but not confirmed.

    # -- news ------------------------------------------------------------------------------------------------

    def reconsider(self, block: str) -> None:
        """Check whether a block now has too few or too many replicas, because its replicas changed."""
        state = self.map.blocks.get(block)
        if state is not None:
            self.kept.settle(block, state.good(), state.target)
        self._changed = self._changed or block in self._pending
        old = self._level.pop(block, None)
        if old is not None:
            del self._under[old][block]
        for node in self._over.pop(block, ()):
            del self._over_on[node][block]
        self._plan_again_s = 0.0
        self._parked.pop(block, None)
        if state is None or state.target == 0:
            return
        good = len(state.good())
        if good > state.target + self.kept.count(block):
            self._over[block] = tuple(state.replicas)
            for node in state.replicas:
                self._over_on.setdefault(node, {})[block] = None
        elif 0 < good < state.target - len(self._pending.get(block, ())):
            self._level[block] = good
            self._under.setdefault(good, {})[block] = None

    def node_came(self, node: NodeId) -> None:
        """Drop commands for the node's earlier life. Blocks that no node could store are planned again."""
        self._unwanted.pop(node, None)
        self._plan_again_s = 0.0
        for leaving in self._leaving.values():
            leaving.pop(node, None)
        for block in list(self._parked):
            self.reconsider(block)

    def node_went(self, node: NodeId) -> None:
        """Cancel copies from and to a lost node. Afterwards, call `reconsider` for the blocks of the node."""
        self._unwanted.pop(node, None)
        self._plan_again_s = 0.0
        for block, copies in list(self._pending.items()):
            for target, copy in list(copies.items()):
                if node in (target, copy.source):
                    self._end_copy(block, target)

    def replica_came(self, block: str, node: NodeId) -> bool:
        """Process the arrival of a replica on a node. Return whether this completes a planned copy."""
        self._leaving.get(block, {}).pop(node, None)
        ours = node in self._pending.get(block, {})
        if ours:
            self._tries.pop(block, None)
            self._end_copy(block, node)
        return ours

    def raise_target(self, block: str, replicas: int, cause: str, base: int, load: float) -> None:
        """Set a block's wanted replicas by a scheme. `base` is the number without it; `load` ranks nodes."""
        state = self.map.blocks[block]
        if replicas > base:
            self.raised[block] = (cause, base, load)
        else:
            self.raised.pop(block, None)
        if state.target != replicas:
            state.target = replicas
            self.reconsider(block)

    def copy_cause(self, block: str, coming: int = 0) -> str:
        """Return the cause of a block's next copy for blocks.parquet. `coming` copies are in progress."""
        state = self.map.blocks[block]
        good, scheme = len(state.good()) + coming, "repair" if self.choice is None else self.choice.scheme
        if block in self.raised:
            cause, base, _ = self.raised[block]
            return cause if good >= base else "repair"
        return scheme if good >= state.target else "repair"  # The copy was ordered before the target fell.

    def replica_went(self, block: str, node: NodeId) -> None:
        """Cancel copies from a replica that was deleted or is corrupt."""
        self._leaving.get(block, {}).pop(node, None)
        self._end_copies_from(block, node)

    def block_unwanted(self, block: str, holders: list[NodeId]) -> None:
        """Order the nodes in `holders` to delete their replicas of a block that belongs to no file."""
        for target, copy in self._pending.pop(block, {}).items():
            self._count_copy(copy.source, target, -1)
        self._tries.pop(block, None)
        self._leaving.pop(block, None)
        self.preferred.pop(block, None)
        self.kept.forget(block)
        for node in holders:
            self._unwanted.setdefault(node, {})[block] = None
        self.reconsider(block)

    def keep(self, block: str, node: NodeId, length: int) -> None:
        """Keep a fetched block in addition to its replicas (DARE), and delete others above the budget."""
        for evicted in self.kept.add(block, node, length):
            self.reconsider(evicted)

    # -- orders ----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Return whether a copy or deletion is planned or in progress, except of blocks that no node can store."""
        return bool(self._pending or self._level or self._over or self._unwanted)

    def may_order(self, now_s: float, node: NodeId) -> bool:
        """Return whether `deletions` or `copies` may do anything for a live node, or plan copies of others."""
        return (
            (len(self._level) > 0 and now_s >= self._plan_again_s)
            or node in self._sources
            or now_s >= self._expires_s
            or self._changed
            or node in self._unwanted
            or bool(self._over_on.get(node))
            or self.map.has_corrupt
        )

    def deletions(self, now_s: float, node: NodeId) -> list[str]:
        """Return what a node must delete now. The caller removes the replicas from the `BlockMap`."""
        orders = list(self._unwanted.pop(node, ()))
        for block in self.map.corrupt_on(node):
            if self.map.blocks[block].good():
                orders.append(self._order_away(now_s, block, node))
        for block in list(self._over_on.get(node, ())):
            if node in self._surplus(block, self.map.blocks[block]):
                orders.append(self._order_away(now_s, block, node))
        return orders

    def _surplus(self, block: str, state: BlockState) -> list[NodeId]:
        """Return the nodes whose surplus replica may go, those evicted by DARE first, without those it keeps."""
        good, kept = state.good(), self.kept
        many = len(good) - state.target - kept.count(block)
        evicted = [node for node in kept.let_go(block) if node in good][:many]
        if evicted:
            return evicted
        return surplus(self._candidates([n for n in good if not kept.is_copy(block, n)]), state.target)

    def copies(self, now_s: float, node: NodeId) -> list[Command]:
        """Plan copies between all nodes. Return the `replicate` commands for one live node."""
        self._expire(now_s)
        self._plan(now_s)
        orders: list[Command] = []
        if node not in self._sources:
            return orders
        del self._sources[node]
        for block, copies in self._pending.items():
            targets = [to for to, copy in copies.items() if copy.source == node and not copy.sent]
            for target in targets:
                copies[target].sent = True
                orders.append({"type": "replicate", "block": block, "to": [target]})
        return orders

    def _order_away(self, now_s: float, block: str, node: NodeId) -> str:
        self._end_copies_from(block, node)
        self._leaving.setdefault(block, {})[node] = now_s + self._timeout_s
        return block

    def _expire(self, now_s: float) -> None:
        """Cancel copies that take too long, and unsent copies of blocks that have enough replicas again."""
        if now_s < self._expires_s and not self._changed:
            return
        self._changed = False
        for block, copies in list(self._pending.items()):
            state = self.map.blocks[block]
            enough = len(state.good()) >= state.target
            for target, copy in list(copies.items()):
                if copy.until_s <= now_s or (enough and not copy.sent):
                    self._end_copy(block, target)
        left = (copy.until_s for copies in self._pending.values() for copy in copies.values())
        self._expires_s = min(left, default=inf)

    def _end_copies_from(self, block: str, source: NodeId) -> None:
        for target, copy in list(self._pending.get(block, {}).items()):
            if copy.source == source:
                self._end_copy(block, target)

    def _end_copy(self, block: str, target: NodeId) -> None:
        copies = self._pending[block]
        self._count_copy(copies.pop(target).source, target, -1)
        if not copies:
            del self._pending[block]
        self.reconsider(block)

    def _plan(self, now_s: float) -> None:
        """Plan copies, first for blocks with the fewest good replicas, then for those that waited longest."""
        if not self._level or now_s < self._plan_again_s:
            return
        refused = planned = 0
        for block in [block for good in sorted(self._under) for block in self._under[good]]:
            if refused == REFUSED_LIMIT or all(map(self._sends_most, self.map.nodes)):
                break
            while block in self._level and self._plan_one(now_s, block):
                planned += 1
            refused += block in self._level
        if not planned:
            ends_s = (until_s for leaving in self._leaving.values() for until_s in leaving.values())
            self._plan_again_s = min(ends_s, default=inf)

    def _count_copy(self, source: NodeId, target: NodeId, more: int) -> None:
        for counts, node in ((self._sending, source), (self._receiving, target)):
            counts[node] = counts.get(node, 0) + more
            if not counts[node]:
                del counts[node]

    def _sends_most(self, node: NodeId) -> bool:
        return self._sending.get(node, 0) >= self._limit

    def _plan_one(self, now_s: float, block: str) -> bool:
        """Plan a copy if a source and a target are below their limit of copies. Return whether one was planned."""
        taken, nodes = self._taken(now_s, block), self.map.nodes
        if all(node in taken for node in nodes):
            if not self._leaving.get(block):
                del self._under[self._level.pop(block)][block]
                self._parked[block] = None
            return False
        sources = [node for node in self.map.blocks[block].good() if not self._sends_most(node)]
        if not sources:
            return False
        receiving, limit = self._receiving, self._limit
        taken |= {node: None for node, copies in receiving.items() if copies >= limit}
        if all(node in taken for node in nodes):
            return False
        source = min(sources, key=lambda n: (self._sending.get(n, 0), self._load_bytes(n), n))
        target = self._choose(block, taken)
        copy = self._pending.setdefault(block, {})[target] = Copy(source, now_s + self._timeout_s)
        self._sources[source] = None
        self._expires_s = min(self._expires_s, copy.until_s)
        self._count_copy(source, target, 1)
        self.reconsider(block)
        return True

    def _taken(self, now_s: float, block: str) -> dict[NodeId, None]:
        """Return nodes that may not receive a block: they have it, receive it, or have yet to delete it."""
        leaving = self._leaving.get(block, {})
        for node in [node for node, until_s in leaving.items() if until_s <= now_s]:
            del leaving[node]
        return dict.fromkeys((*self.map.blocks[block].replicas, *self._pending.get(block, ()), *leaving))

    def _choose(self, block: str, taken: dict[NodeId, None]) -> NodeId:
        """Choose a live node not in `taken` for a copy, by the scheme that ordered it or else HDFS's rack
        rule.

        There must be such a node. Planned again after a failure, a copy may go to another.
        """
        tries = self._tries[block] = self._tries.get(block, 0) + 1
        state, nodes, field = self.map.blocks[block], self.map.nodes, self.map.field
        choice, coming = self.choice, len(self._pending.get(block, ()))
        if choice is not None and block in self.raised and self.copy_cause(block, coming) != "repair":
            free = [node for node in nodes if node not in taken]
            best = min(free, key=lambda n: (choice.rank(n), self._load_bytes(n), n))
            choice.placed(best, self.raised[block][2])
            return best
        preferred = self.preferred.get(block, ())
        kept = self._candidates([node for node in preferred if node in nodes and node not in taken])
        existing = self._candidates([*state.good(), *self._pending.get(block, ())])
        with field.without(taken):
            [chosen] = place_hdfs(
                kept or field, 1, seed=self._seed, block=f"{block}/{tries}", existing=existing
            )
        return chosen

    def _candidates(self, nodes: list[NodeId]) -> list[CandidateNode]:
        return [CandidateNode(node, self.map.rack(node), self._load_bytes(node)) for node in nodes]

    def _load_bytes(self, node: NodeId) -> int:
        return self.map.load_bytes(node)


# The replication scheme DARE, which keeps blocks that maps had to fetch as additional replicas.
#
# A block that a map fetched from another node stays on the map's node, within a budget. When the budget is
# used up, the copies of the blocks with the fewest fetches are deleted. The budget is a share of the size
# of all inputs including their replicas, for the whole cluster. See the thesis xu2015, section 3.2.2. Its
# section 6.2 proposes the same scheme for the scheduler DTSS.

CAUSE = "dare"
"""The cause in blocks.parquet of a kept copy."""


class DareCopies:
    """The copies that the scheme DARE keeps in addition to replicas, and the fetches of each block.

    A copy replaces an ordinary replica that is lost, and counts as one from then on.
    """

    def __init__(self) -> None:
        self.budget_bytes = inf
        self._copies: dict[str, dict[NodeId, int]] = {}  # block -> node -> bytes, oldest first
        self._let_go: dict[str, dict[NodeId, None]] = {}  # Evicted copies, not yet deleted.
        self._reads: dict[str, int] = {}
        self._used_bytes = 0

    def count(self, block: str) -> int:
        return len(self._copies.get(block, ()))

    def is_copy(self, block: str, node: NodeId) -> bool:
        return node in self._copies.get(block, ())

    def let_go(self, block: str) -> list[NodeId]:
        """Return the nodes whose evicted copy has not been deleted yet."""
        return list(self._let_go.get(block, ()))

    def read(self, block: str, length: int) -> bool:
        """Record a fetch, and return whether the budget allows a copy; copies fetched less often could go."""
        self._reads[block] = reads = self._reads.get(block, 0) + 1
        if self._used_bytes + length <= self.budget_bytes:
            return True
        less_read = (
            copies
            for other, copies in self._copies.items()
            if other != block and self._reads.get(other, 0) < reads
        )
        return (
            sum(sum(copies.values()) for copies in less_read) + self.budget_bytes >= self._used_bytes + length
        )

    def add(self, block: str, node: NodeId, length: int) -> list[str]:
        """Record a copy, evict those with the fewest fetches while over budget, and return their blocks."""
        self._copies.setdefault(block, {})[node] = length
        self._used_bytes += length
        evicted: list[str] = []
        while self._used_bytes > self.budget_bytes:
            least = min(self._copies, key=lambda each: self._reads.get(each, 0))
            oldest = next(iter(self._copies[least]))
            self._let_go.setdefault(least, {})[oldest] = None
            self.drop(least, oldest)
            evicted.append(least)
        return evicted

    def settle(self, block: str, good: list[NodeId], target: int) -> None:
        """Update a block's copies to its `good` nodes: forget those that are lost or now replace a lost replica."""
        copies = list(self._copies.get(block, ()))
        there = [node for node in copies if node in good]
        # The oldest copies replace lost replicas, so that copies are always additional to the target.
        adopted = there[: max(0, len(there) - max(0, len(good) - target))]
        for node in copies:
            if node not in there or node in adopted:
                self.drop(block, node)
        for node in self.let_go(block):
            if node not in good or len(good) <= target:
                self._forget_eviction(block, node)

    def drop(self, block: str, node: NodeId) -> None:
        """Remove a copy from the records, and subtract the size of the copy from the used budget."""
        copies = self._copies[block]
        self._used_bytes -= copies.pop(node)
        if not copies:
            del self._copies[block]

    def _forget_eviction(self, block: str, node: NodeId) -> None:
        evicted = self._let_go[block]
        del evicted[node]
        if not evicted:
            del self._let_go[block]

    def forget(self, block: str) -> None:
        self.settle(block, [], 0)
        self._reads.pop(block, None)

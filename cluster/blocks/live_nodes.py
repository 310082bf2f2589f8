"""An index of the live nodes by name and rack, for fast random choices of nodes for new replicas."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from schedbed.tasks.specs import NodeId


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A live node that may receive a replica. `load_bytes` is the size of the replicas on the node."""

    node: NodeId
    rack: str
    load_bytes: int = 0


class NodeIndex:
    """The live nodes with rack and load, the bytes of replicas. Node names are sorted, in all and by rack."""

    def __init__(self, candidates: Iterable[CandidateNode] = ()) -> None:
        self.names: list[NodeId] = []  # Sorted, so that the order of registration has no effect.
        self.by_rack: dict[str, list[NodeId]] = {}
        self.racks: dict[NodeId, str] = {}
        self.load_bytes: dict[NodeId, int] = {}
        self.total_bytes = 0
        for candidate in candidates:
            self.add(candidate.node, candidate.rack, candidate.load_bytes)

    def add(self, node: NodeId, rack: str, load_bytes: int = 0) -> None:
        """Add a node that is not in the index yet. `load_bytes` is the size of the replicas on the node."""
        insort(self.names, node)
        insort(self.by_rack.setdefault(rack, []), node)
        self.racks[node] = rack
        self.load_bytes[node] = load_bytes
        self.total_bytes += load_bytes

    def remove(self, node: NodeId) -> None:
        """Remove a node from the index, with its load."""
        rack = self.racks.pop(node)
        for names in (self.names, self.by_rack[rack]):
            del names[bisect_left(names, node)]
        if not self.by_rack[rack]:
            del self.by_rack[rack]
        self.total_bytes -= self.load_bytes.pop(node)

    @contextmanager
    def without(self, nodes: Iterable[NodeId]) -> Iterator[None]:
        """Remove nodes from the index for the `with` block, in which their loads must not change."""
        out = [
            CandidateNode(node, self.racks[node], self.load_bytes[node])
            for node in dict.fromkeys(nodes)
            if node in self.racks
        ]
        for each in out:
            self.remove(each.node)
        try:
            yield
        finally:
            for each in out:
                self.add(each.node, each.rack, each.load_bytes)

    def charge(self, node: NodeId, change_bytes: int) -> None:
        self.load_bytes[node] += change_bytes
        self.total_bytes += change_bytes

    def charge_all(self, nodes: Sequence[NodeId], change_bytes: int) -> None:
        """Add `change_bytes` to the load of each of the nodes."""
        load_bytes = self.load_bytes
        for node in nodes:
            load_bytes[node] += change_bytes
        self.total_bytes += change_bytes * len(nodes)

    def candidates(self, exclude: Iterable[NodeId] = ()) -> list[CandidateNode]:
        """Return the nodes that are not in `exclude`, sorted by name."""
        left_out = dict.fromkeys(exclude)
        return [
            CandidateNode(node, self.racks[node], self.load_bytes[node])
            for node in self.names
            if node not in left_out
        ]

    def mean_bytes(self, without: Iterable[NodeId]) -> float:
        """Return the mean load in bytes of the nodes not in `without`, or 0 if there are no such nodes."""
        left_out = [node for node in dict.fromkeys(without) if node in self.racks]
        count = len(self.names) - len(left_out)
        total_bytes = self.total_bytes - sum(self.load_bytes[node] for node in left_out)
        return total_bytes / count if count else 0.0

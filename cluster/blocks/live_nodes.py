"""The live nodes as placement sees them: kept up to date while they change, so that a choice costs a few draws."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from schedbed.tasks.specs import NodeId


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A live node. `load_bytes` are the bytes of blocks that it holds or was promised."""

    node: NodeId
    rack: str
    load_bytes: int = 0


class Field:
    """Nodes by name, in all and by rack, with their loads."""

    def __init__(self, candidates: Iterable[CandidateNode] = ()) -> None:
        self.names: list[NodeId] = []  # sorted, so that the order in which nodes came means nothing
        self.by_rack: dict[str, list[NodeId]] = {}
        self.racks: dict[NodeId, str] = {}
        self.load_bytes: dict[NodeId, int] = {}
        self.total_bytes = 0
        for candidate in candidates:
            self.add(candidate.node, candidate.rack, candidate.load_bytes)

    def add(self, node: NodeId, rack: str, load_bytes: int = 0) -> None:
        """A node that is not in it comes."""
        insort(self.names, node)
        insort(self.by_rack.setdefault(rack, []), node)
        self.racks[node] = rack
        self.load_bytes[node] = load_bytes
        self.total_bytes += load_bytes

    def remove(self, node: NodeId) -> None:
        """A node goes."""
        rack = self.racks.pop(node)
        for names in (self.names, self.by_rack[rack]):
            del names[bisect_left(names, node)]
        if not self.by_rack[rack]:
            del self.by_rack[rack]
        self.total_bytes -= self.load_bytes.pop(node)

    def charge(self, node: NodeId, change_bytes: int) -> None:
        """A node's load changes."""
        self.load_bytes[node] += change_bytes
        self.total_bytes += change_bytes

    def candidates(self, exclude: Iterable[NodeId] = ()) -> list[CandidateNode]:
        """Return the nodes but some, by name."""
        left_out = dict.fromkeys(exclude)
        return [
            CandidateNode(node, self.racks[node], self.load_bytes[node])
            for node in self.names
            if node not in left_out
        ]

    def mean_bytes(self, without: Iterable[NodeId]) -> float:
        """Return the mean load of the nodes but some; 0 when there are none."""
        left_out = [node for node in dict.fromkeys(without) if node in self.racks]
        count = len(self.names) - len(left_out)
        total_bytes = self.total_bytes - sum(self.load_bytes[node] for node in left_out)
        return total_bytes / count if count else 0.0

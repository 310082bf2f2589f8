"""What may go wrong with an emulated cluster, as values: live and simulated drivers play the same faults alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import NodeId

LIVES = ("kill", "freeze")
STATES = ("slow", "partition", "cut_off", "delay", "loss", "lose_requests", "lose_replies", "fill_disk")
BLOWS = ("kill_attempt", "corrupt_replica", "delete_replica", "kill_tracker")
MASTERS = ("crash_jobtracker", "restart_namenode")
KINDS = (*LIVES, *STATES, *BLOWS, *MASTERS)
"""A node stands still or is gone; is in a state; something of it is struck once; a master dies and comes back."""

RESTART_S = 1.5
"""About what a process of ours takes until it is back: how long a crash lasts that names no time of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """Something goes wrong at `at_s` (seconds since the run's start); `until_s` None lasts to the run's end.

    `kind` is one of KINDS. `nodes` are hit (all, of message faults, when empty); a partition keeps them from the
    rest, a `cut_off` from the masters. A slow node keeps the shares `cpu`, `disk`, `network` of its rates. `share`
    of the messages is lost: heartbeats to the JobTracker (`lose_requests`), their answers (`lose_replies`), or both
    and connections between nodes too (`loss`); `by_s` is what each takes longer (`delay`). `target` is the attempt or
    task to kill, or the block or file whose replica is struck; chosen by `luck`, 0 to 1, when it is empty or leaves a
    choice. A JobTracker that crashes is back at `until_s` with its journal replayed; a NameNode restarts at once and
    takes its nodes' block reports.
    """

    at_s: float
    kind: str
    nodes: tuple[NodeId, ...] = ()
    until_s: float | None = None
    cpu: float = 1.0
    disk: float = 1.0
    network: float = 1.0
    share: float = 0.0
    by_s: float = 0.0
    target: str = ""
    luck: float = 0.0

    @property
    def shown(self) -> str:
        """What is hit, for tables: nodes, or the one thing."""
        if self.kind in MASTERS:
            return self.kind.partition("_")[2]
        return self.target or ",".join(self.nodes)

    @property
    def back_s(self) -> float | None:
        """When it is over; a blow is over at once, but what it killed needs its time to come back."""
        if self.until_s is None and self.kind in ("crash_jobtracker", "kill_tracker"):
            return self.at_s + RESTART_S
        return self.until_s

    def hits(self, node: NodeId) -> bool:
        """Whether the node is among those hit."""
        return not self.nodes or node in self.nodes


def by_nature(nodes: Iterable[NodeSpec]) -> tuple[PlannedFault, ...]:
    """What the nodes' NICs do to messages: as faults that are always in force, of which no table says anything."""
    found: list[PlannedFault] = []
    for node in nodes:
        if node.latency_s:
            found.append(PlannedFault(at_s=0.0, kind="delay", nodes=(node.node,), by_s=node.latency_s))
        if node.loss:
            found.append(PlannedFault(at_s=0.0, kind="loss", nodes=(node.node,), share=node.loss))
    return tuple(found)


class Conditions:
    """The faults in force, some of them `always`, and what they make of each node together."""

    def __init__(self, nodes: Sequence[NodeId], always: Sequence[PlannedFault] = ()) -> None:
        self._nodes = tuple(nodes)
        self._active: list[PlannedFault] = list(always)

    def begin(self, fault: PlannedFault) -> None:
        """It is in force."""
        self._active.append(fault)

    def end(self, fault: PlannedFault) -> None:
        """It is over."""
        self._active.remove(fault)

    def _of(self, kind: str, node: NodeId) -> list[PlannedFault]:
        return [fault for fault in self._active if fault.kind == kind and fault.hits(node)]

    def has(self, kind: str, node: NodeId) -> bool:
        """Whether a fault of that kind is in force on the node."""
        return bool(self._of(kind, node))

    def rates(self, node: NodeId) -> dict[str, float]:
        """The shares of its declared rates that a node keeps: `cpu`, `disk`, `network`."""
        kept = {"cpu": 1.0, "disk": 1.0, "network": 1.0}
        for fault in self._of("slow", node):
            kept = {name: factor * getattr(fault, name) for name, factor in kept.items()}
        return kept

    def groups(self) -> list[list[NodeId]]:
        """Nodes that partitions leave together, the groups that are apart; empty without a partition."""
        cuts = [set(fault.nodes) for fault in self._active if fault.kind == "partition"]
        sides: dict[tuple[bool, ...], list[NodeId]] = {}
        for node in self._nodes if cuts else ():
            sides.setdefault(tuple(node in cut for cut in cuts), []).append(node)
        return list(sides.values())

    def blocked(self, node: NodeId) -> list[NodeId]:
        """The nodes from which partitions keep this one."""
        own = next((group for group in self.groups() if node in group), self._nodes)
        return [other for other in self._nodes if other not in own]

    def share(self, kind: str, node: NodeId) -> float:
        """The share of the node's messages of that kind (lose_requests, lose_replies or loss) that is lost."""
        kinds = (kind,) if kind == "loss" else (kind, "loss")
        return max((fault.share for each in kinds for fault in self._of(each, node)), default=0.0)

    def delay_s(self, node: NodeId) -> float:
        """What each of the node's messages takes longer."""
        return sum(fault.by_s for fault in self._of("delay", node))

    def delays(self) -> dict[NodeId, float]:
        """`delay_s` of the nodes that have one."""
        return {node: by_s for node in self._nodes if (by_s := self.delay_s(node))}

    def losses(self) -> dict[NodeId, float]:
        """The share of connections lost, of the nodes that lose any."""
        return {node: share for node in self._nodes if (share := self.share("loss", node))}

    def orders(self, node: NodeId) -> Mapping[str, dict[str, Any]]:
        """All that a live TaskTracker must be told of its node's state: arguments by the kind of the order."""
        return {
            "rates": self.rates(node),
            "partition": {"blocked": self.blocked(node)},
            "network": {"delays": self.delays(), "losses": self.losses()},
            "disk": {"full": self.has("fill_disk", node)},
            "messages": {
                "cut_off": self.has("cut_off", node),
                "delay_s": self.delay_s(node),
                "lose_requests": self.share("lose_requests", node),
                "lose_replies": self.share("lose_replies", node),
            },
        }


USUAL = Conditions(()).orders("")
"""The orders of a node of which no fault is in force."""

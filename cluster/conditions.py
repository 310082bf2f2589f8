"""The faults in force, their combined effect on each node, and the orders sent to nodes about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import NodeId

Order = Mapping[str, Any]
"""What a live node is told of one side of its state: the arguments."""

ENDS = {"kill": "restart", "freeze": "thaw"}
"""Kinds that a node is told of by a word, and the word that ends each."""


def by_nature(nodes: Iterable[NodeSpec]) -> tuple[PlannedFault, ...]:
    """Return the permanent message delays and losses that nodes declare, as faults that appear in no table."""
    found: list[PlannedFault] = []
    for node in nodes:
        if node.latency_s:
            found.append(PlannedFault(at_s=0.0, kind="delay", nodes=(node.node,), by_s=node.latency_s))
        if node.loss:
            found.append(PlannedFault(at_s=0.0, kind="loss", nodes=(node.node,), share=node.loss))
    return tuple(found)


def foreground_slowdowns(nodes: Iterable[NodeSpec]) -> list[PlannedFault]:
    """Return the nodes' foreground loads as faults that slow the CPU, each until the time of the next load."""
    return [
        PlannedFault(at_s=at_s, kind="slow", nodes=(node.node,), until_s=until_s, cpu=1.0 - share)
        for node in nodes
        for (at_s, share), (until_s, _) in pairwise((*node.foreground, (None, 0.0)))
        if share and at_s is not None
    ]


class Conditions:
    """The faults in force, some of them `always`, and their combined effect on each node."""

    def __init__(self, nodes: Sequence[NodeId], always: Sequence[PlannedFault] = ()) -> None:
        self._nodes = tuple(nodes)
        self._active: list[PlannedFault] = list(always)

    def begin(self, fault: PlannedFault) -> None:
        """Put a fault into force."""
        self._active.append(fault)

    def end(self, fault: PlannedFault) -> None:
        """Take a fault out of force."""
        self._active.remove(fault)

    def _of(self, kind: str, node: NodeId) -> list[PlannedFault]:
        return [fault for fault in self._active if fault.kind == kind and fault.hits(node)]

    def has(self, kind: str, node: NodeId) -> bool:
        """Return whether a fault of that kind is in force on the node."""
        return bool(self._of(kind, node))

    def rates(self, node: NodeId) -> dict[str, float]:
        """Return the shares of its declared rates that a node has: `cpu`, `disk`, `network`."""
        kept = {"cpu": 1.0, "disk": 1.0, "network": 1.0}
        for fault in self._of("slow", node):
            kept = {name: factor * getattr(fault, name) for name, factor in kept.items()}
        return kept

    def groups(self) -> list[list[NodeId]]:
        """Return the groups of nodes that partitions separate; empty without a partition."""
        cuts = [set(fault.nodes) for fault in self._active if fault.kind == "partition"]
        sides: dict[tuple[bool, ...], list[NodeId]] = {}
        for node in self._nodes if cuts else ():
            sides.setdefault(tuple(node in cut for cut in cuts), []).append(node)
        return list(sides.values())

    def blocked(self, node: NodeId) -> list[NodeId]:
        """Return the nodes that partitions separate from this one."""
        own = next((group for group in self.groups() if node in group), self._nodes)
        return [other for other in self._nodes if other not in own]

    def share(self, kind: str, node: NodeId) -> float:
        """Return the lost share of the node's messages of that kind (lose_requests, lose_replies or loss)."""
        kinds = (kind,) if kind == "loss" else (kind, "loss")
        return max((fault.share for each in kinds for fault in self._of(each, node)), default=0.0)

    def delay_s(self, node: NodeId) -> float:
        """Return the additional delay of each message of the node, in seconds."""
        return sum(fault.by_s for fault in self._of("delay", node))

    def delays(self) -> dict[NodeId, float]:
        """Return `delay_s` of the nodes with a delay."""
        return {node: by_s for node in self._nodes if (by_s := self.delay_s(node))}

    def losses(self) -> dict[NodeId, float]:
        """Return the lost share of connections of the nodes that lose any."""
        return {node: share for node in self._nodes if (share := self.share("loss", node))}

    def orders(self, node: NodeId) -> dict[str, Order]:
        """Return the whole state of a live node as orders to its TaskTracker, by name."""
        return {
            **{kind: {"on": self.has(kind, node)} for kind in ENDS},
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


UNTOUCHED = Conditions(()).orders("")
"""The orders of a node of which no fault is in force: what a node need not be told."""


class NodeOrders:
    """Sends nodes their state: calls `tell(node, order, arguments)` for every order that a node has not received.

    `tell` raises MasterGone if the node cannot be reached; the order is then sent at a later `settle`.
    """

    def __init__(
        self,
        nodes: Sequence[NodeId],
        conditions: Conditions,
        tell: Callable[[NodeId, str, Order], object],
    ) -> None:
        self._conditions = conditions
        self._tell = tell
        self._told: dict[NodeId, Mapping[str, Order]] = dict.fromkeys(nodes, UNTOUCHED)
        self._is_stale = True

    def change(self) -> None:
        """Note that the conditions have changed."""
        self._is_stale = True

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """Note that the TaskTrackers of these nodes have restarted and know nothing."""
        for node in nodes:
            self._told[node] = UNTOUCHED
            self._is_stale = True

    def settle(self) -> None:
        """Send every node the orders that it has not received. Does nothing if there are none."""
        if self._is_stale:
            heard = [self._bring_up_to_date(node) for node in self._told]
            self._is_stale = not all(heard)

    def _bring_up_to_date(self, node: NodeId) -> bool:
        for order, arguments in self._conditions.orders(node).items():
            if arguments == self._told[node][order]:
                continue
            try:
                if order in ENDS:
                    self._tell(node, order if arguments["on"] else ENDS[order], {})
                else:
                    self._tell(node, order, arguments)
            except MasterGone:
                return False
            self._told[node] = {**self._told[node], order: arguments}
        return True

    def frozen(self) -> list[NodeId]:
        """Return the nodes that were ordered to freeze."""
        return [node for node, told in self._told.items() if told["freeze"]["on"]]

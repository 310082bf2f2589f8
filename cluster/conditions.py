"""The active faults, their combined effect on each node, and the messages that apply it to live nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import NodeId

Order = Mapping[str, Any]
"""The arguments of an order: a message that sets one part of the fault state of a live node."""

ENDS = {"kill": "restart", "freeze": "thaw"}
"""Kinds of faults that are orders without arguments, each with the order that ends the fault."""


def by_nature(nodes: Iterable[NodeSpec]) -> tuple[PlannedFault, ...]:
    """Return delays and losses that nodes declare, as permanent faults without rows in faults.parquet."""
    found: list[PlannedFault] = []
    for node in nodes:
        if node.latency_s:
            found.append(PlannedFault(at_s=0.0, kind="delay", nodes=(node.node,), by_s=node.latency_s))
        if node.loss:
            found.append(PlannedFault(at_s=0.0, kind="loss", nodes=(node.node,), share=node.loss))
    return tuple(found)


def foreground_slowdowns(nodes: Iterable[NodeSpec]) -> list[PlannedFault]:
    """Return other programs' loads that nodes declare as faults that slow the CPU, each until the next one."""
    return [
        PlannedFault(at_s=at_s, kind="slow", nodes=(node.node,), until_s=until_s, cpu=1.0 - share)
        for node in nodes
        for (at_s, share), (until_s, _) in pairwise((*node.foreground, (None, 0.0)))
        if share and at_s is not None
    ]


class Conditions:
    """The active faults and their combined effect on each of `nodes`. Faults in `always` are active from the start."""

    def __init__(self, nodes: Sequence[NodeId], always: Sequence[PlannedFault] = ()) -> None:
        self._nodes = tuple(nodes)
        self._active: dict[str, list[PlannedFault]] = {}  # By kind.
        for fault in always:
            self.begin(fault)

    def begin(self, fault: PlannedFault) -> None:
        self._active.setdefault(fault.kind, []).append(fault)

    def end(self, fault: PlannedFault) -> None:
        self._active[fault.kind].remove(fault)

    def _of(self, kind: str, node: NodeId) -> list[PlannedFault]:
        return [fault for fault in self._active.get(kind, ()) if fault.hits(node)]

    def has(self, kind: str, node: NodeId) -> bool:
        return bool(self._of(kind, node))

    def rates(self, node: NodeId) -> dict[str, float]:
        """Return the fractions of the node's declared rates (`cpu`, `disk`, `network`) that faults leave."""
        kept = {"cpu": 1.0, "disk": 1.0, "network": 1.0}
        for fault in self._of("slow", node):
            kept = {name: factor * getattr(fault, name) for name, factor in kept.items()}
        return kept

    def groups(self) -> list[list[NodeId]]:
        """Return the groups of nodes that active partitions separate, none without partitions."""
        cuts = [set(fault.nodes) for fault in self._active.get("partition", ())]
        sides: dict[tuple[bool, ...], list[NodeId]] = {}
        for node in self._nodes if cuts else ():
            sides.setdefault(tuple(node in cut for cut in cuts), []).append(node)
        return list(sides.values())

    def blocked(self, node: NodeId) -> list[NodeId]:
        own = next((group for group in self.groups() if node in group), self._nodes)
        return [other for other in self._nodes if other not in own]

    def share(self, kind: str, node: NodeId) -> float:
        """Return the largest fraction of messages lost by `kind`; `loss` also loses requests and replies."""
        kinds = (kind,) if kind == "loss" else (kind, "loss")
        return max((fault.share for each in kinds for fault in self._of(each, node)), default=0.0)

    def delay_s(self, node: NodeId) -> float:
        """Return the seconds that faults add to each message from and to the node."""
        return sum(fault.by_s for fault in self._of("delay", node))

    def delays(self) -> dict[NodeId, float]:
        return {node: by_s for node in self._nodes if (by_s := self.delay_s(node))}

    def losses(self) -> dict[NodeId, float]:
        return {node: share for node in self._nodes if (share := self.share("loss", node))}

    def orders(self, node: NodeId) -> dict[str, Order]:
        """Return the orders (name -> arguments) that put a live node into the state of the active faults."""
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
"""The orders for a node without active faults. They describe the state of a new node, which needs none of them."""


class NodeOrders:
    """Keeps live nodes in the state of the active faults by orders, of which it stores those received.

    `tell(node, order, arguments)` sends one. If it raises MasterGone, a later `settle` sends the order again.
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
        """Note that the active faults have changed, for the next `settle`."""
        self._is_stale = True

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """Note that TaskTrackers have restarted; the next `settle` sends them the state of all faults.

        Ended faults are sent as well: what they changed, such as a file, may have outlived the process.
        """
        for node in nodes:
            self._told[node] = {}
            self._is_stale = True

    def settle(self) -> None:
        """Send each node the orders that it has not received yet. Do nothing if there are none."""
        if self._is_stale:
            heard = [self._bring_up_to_date(node) for node in self._told]
            self._is_stale = not all(heard)

    def _bring_up_to_date(self, node: NodeId) -> bool:
        for order, arguments in self._conditions.orders(node).items():
            if arguments == self._told[node].get(order):
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
        return [node for node, told in self._told.items() if told.get("freeze") == {"on": True}]

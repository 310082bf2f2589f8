"""Random drawing of faults from a seed: their times, kinds and nodes.

With the setting `spare`, the drawn faults always leave an available replica of each block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedbed.cluster.faults import KINDS, STATE, FaultKind, PlannedFault
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.fault_models import RandomFaults
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.specs import NodeId

# Time after a fault until the node serves its blocks again or other nodes have copies of them; not scaled.
SETTLE_S = 10.0
FAULTS_MAX = 10_000


@dataclass(slots=True)
class _Unavailable:
    """The periods in which faults make replicas unavailable.

    `spans` has for each such fault the begin, the end and the node. At most `spared` nodes may be affected at
    the same time.
    """

    spared: int  # the most nodes that may be affected at a time
    spans: list[tuple[float, float, NodeId]] = field(default_factory=list)

    def allows(self, node: NodeId, begin_s: float, end_s: float) -> bool:
        """Return whether a fault may hit the node between the times `begin_s` and `end_s` of the run.

        The node must have no other fault in this period. Including this node, at most `spared` nodes may have
        a fault at a time.
        """
        over = [other for begin, end, other in self.spans if begin < end_s and begin_s < end]
        return node not in over and len(set(over)) < self.spared


def draw_faults(
    asked: RandomFaults, cluster: ClusterSpec, seed: int, scale: float, beside: Sequence[PlannedFault] = ()
) -> list[PlannedFault]:
    """Draw random faults and return them in order of time. Equal arguments give equal faults.

    `asked` is the scenario's key `random` of `faults`. Times are multiplied by `scale`. `beside` are the
    scenario's faults at fixed times, which also make replicas unavailable. If a drawn fault would make too
    many replicas unavailable, another node or another kind of fault is drawn. If none is possible, the fault
    is left out.
    """
    names = list(asked.nodes or [node.node for node in cluster.nodes])
    spared = cluster.blocks.replication - 1 if asked.spare else len(cluster.nodes)
    wounded = _Unavailable(spared)
    for fault in beside:
        kind = KINDS[fault.kind]
        if kind.hides_replicas:
            back_s = _back_s(kind, fault.back_s)
            wounded.spans += [(fault.at_s, back_s, node) for node in fault.nodes]
    found: list[PlannedFault] = []
    for number, at_s in enumerate(_times(asked, seed, scale)):
        luck = chance(seed, "random fault", number)
        lasts_s = asked.for_ * scale * luck.uniform(0.5, 1.5)
        fault = _draw(luck, asked, names, at_s, at_s + lasts_s, wounded, scale)
        if fault is not None:
            found.append(fault)
    return found


def _times(asked: RandomFaults, seed: int, scale: float) -> Iterator[float]:
    """Yield the start times of random faults in s, multiplied by `scale`.

    They form a Poisson process if the scenario has a rate. Otherwise they are `count` uniformly distributed
    times.
    """
    luck = chance(seed, "random fault times")
    if asked.count is not None:
        yield from sorted(luck.uniform(asked.from_, asked.until) * scale for _ in range(asked.count))
        return
    at, rate = asked.from_, asked.rate or 0.0
    for _ in range(FAULTS_MAX):
        at += luck.expovariate(rate)
        if at >= asked.until:
            return
        yield at * scale


def _draw(
    luck: Coin,
    asked: RandomFaults,
    names: list[NodeId],
    at_s: float,
    until_s: float,
    wounded: _Unavailable,
    scale: float,
) -> PlannedFault | None:
    for name in luck.sample(asked.kinds, len(asked.kinds)):
        kind = KINDS[name]
        for node in luck.sample(names, len(names)):
            back_s = _back_s(kind, until_s)
            if kind.hides_replicas:
                if not wounded.allows(node, at_s, back_s):
                    continue
                wounded.spans.append((at_s, back_s, node))
            fault = PlannedFault(
                at_s=at_s,
                kind=name,
                nodes=() if kind.hits_master else (node,),
                until_s=until_s if kind.duration == STATE else None,
                luck=luck.random(),
            )
            drawn: dict[str, Any] = kind.draw(luck, scale) if kind.draw else {}
            return replace(fault, **drawn)
    return None


def _back_s(kind: FaultKind, until_s: float | None) -> float:
    """Return the time in s at which a node's replicas are available again after a fault of this kind.

    The fault ends at `until_s`, or lasts until the end of the run if that is None. Return infinity if the
    replicas do not become available again.
    """
    return math.inf if until_s is None or kind.harms_for_good else until_s + SETTLE_S

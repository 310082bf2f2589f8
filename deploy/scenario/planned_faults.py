"""Planning of a scenario's faults and of faults given by hand: nodes are checked and times are scaled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedbed.cluster.faults import KINDS, STATE, FaultKind, PlannedFault
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.check import Complaints, check_as
from schedbed.deploy.scenario.fault_models import Fault, FaultNow, RandomFaults, entries
from schedbed.deploy.scenario.models import Scenario
from schedbed.deploy.scenario.yaml_file import KeyPath, from_values
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.specs import NodeId
from schedbed.tasks.units import format_duration

ANY = "any"


def resolve_faults(
    scenario: Scenario, cluster: ClusterSpec, complaints: Complaints
) -> tuple[PlannedFault, ...]:
    """Return the scenario's faults in order of time, at fixed times and random, with times scaled.

    An error for each unknown node is added to `complaints`.
    """
    planned: list[PlannedFault] = []
    given = entries(scenario.faults)
    for place, (below, fault) in enumerate(given):
        if isinstance(fault, Fault):
            luck = chance(scenario.seed, "fault", place).random()
            planned.append(_resolve(fault, ("faults", *below), cluster, scenario.scale, luck, complaints))
    for below, many in given:
        if isinstance(many, RandomFaults):
            _check_nodes(many.nodes or (), cluster, ("faults", *below, "nodes"), complaints)
            seed = scenario.seed if many.seed is None else many.seed
            planned += draw_faults(many, cluster, seed, scenario.scale, planned)
    return tuple(sorted(planned, key=lambda fault: fault.at_s))


def fault_now(given: Mapping[str, Any], cluster: ClusterSpec, *, now_s: float, luck: float) -> PlannedFault:
    """Return the planned form of a fault given by hand, such as {"kill": "n3", "for": "30s"}.

    Its times count from `now_s` (of the run's clock) and are not scaled, since a person who watches expects
    30 s to last 30 s. If several targets match later, `luck` (0 to 1) selects one. Raises BadInput in one
    line.
    """
    document = from_values(dict(given), "fault")
    fault = check_as(FaultNow, document, "kill")
    complaints = Complaints(document)
    planned = _resolve(fault, (), cluster, 1.0, luck, complaints, now_s)
    complaints.raise_if_any()
    return planned


def _resolve(
    fault: Fault,
    path: KeyPath,
    cluster: ClusterSpec,
    scale: float,
    luck: float,
    complaints: Complaints,
    now_s: float = 0.0,
) -> PlannedFault:
    key, kind = fault.key, fault.kind
    value: str | list[str] = getattr(fault, key)
    nodes, target = (), ""
    if isinstance(value, list):
        nodes = () if value == ["all"] and kind.may_hit_all else tuple(dict.fromkeys(value))
        _check_nodes(nodes, cluster, (*path, key), complaints)
    elif not kind.hits_master:
        target = "" if value == ANY else value
        nodes = () if fault.node is None else (fault.node,)
        _check_nodes(nodes, cluster, (*path, "node"), complaints)
    if fault.for_ is not None and fault.for_ <= 0:
        complaints.add((*path, "for"), f"a fault of {format_duration(fault.for_)} is none, expected above 0")
    at_s = now_s + fault.at * scale
    given = {each: getattr(fault, each.name) for each in kind.parameters}
    return PlannedFault(
        at_s=at_s,
        kind=kind.name,
        nodes=nodes,
        until_s=None if fault.for_ is None else at_s + fault.for_ * scale,
        target=target,
        luck=luck,
        **{
            each.field: value * scale if each.unit == "time" else value
            for each, value in given.items()
            if value is not None
        },
    )


def _check_nodes(nodes: Iterable[str], cluster: ClusterSpec, path: KeyPath, complaints: Complaints) -> None:
    known = {node.node for node in cluster.nodes}
    shown = cluster.nodes[0].node if len(known) == 1 else f"n1 to n{len(known)}"
    for node in nodes:
        if node not in known:
            complaints.add(path, f"no node {node!r}, the nodes are {shown}")


# Random drawing of faults from a seed: their times, kinds and nodes.
#
# With the setting `spare`, the drawn faults always leave an available replica of each block.

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
        """Return whether a fault may hit the node: it has no other in this time, and at most `spared` nodes have."""
        over = [other for begin, end, other in self.spans if begin < end_s and begin_s < end]
        return node not in over and len(set(over)) < self.spared


def draw_faults(
    asked: RandomFaults, cluster: ClusterSpec, seed: int, scale: float, beside: Sequence[PlannedFault] = ()
) -> list[PlannedFault]:
    """Draw random faults in order of time, equal for equal arguments, with times multiplied by `scale`.

    `beside` are those at fixed times, which make replicas unavailable, too. If a drawn fault would leave too
    few replicas, another node or kind is drawn; if none is possible, the fault is left out.
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
    """Yield start times of faults in s, scaled: a Poisson process if there is a rate, else `count` uniform ones."""
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
    """Return when replicas are available again after a fault of this kind, or infinity.

    `until_s` is None for a fault that lasts to the end of the run.
    """
    return math.inf if until_s is None or kind.harms_for_good else until_s + SETTLE_S

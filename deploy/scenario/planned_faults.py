"""Planning of a scenario's faults and of faults given by hand: nodes are checked and times are scaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.check import Complaints, check_as
from schedbed.deploy.scenario.fault_models import Fault, FaultNow, RandomFaults, entries
from schedbed.deploy.scenario.models import Scenario
from schedbed.deploy.scenario.random_faults import draw_faults
from schedbed.deploy.scenario.yaml_file import KeyPath, from_values
from schedbed.tasks.chance import chance
from schedbed.tasks.units import format_duration

ANY = "any"


def resolve_faults(
    scenario: Scenario, cluster: ClusterSpec, complaints: Complaints
) -> tuple[PlannedFault, ...]:
    """Return the faults of the scenario in order of time: those at fixed times and those drawn at random.

    Times are multiplied by the scenario's key `scale`. An error for each unknown node name is added to
    `complaints`.
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

    The fault's times count from `now_s` (seconds of the run's clock) and are not scaled, since a person who
    watches the run expects 30 s to last 30 s. If several targets match the fault later, `luck`, a random
    number from 0 to 1, selects one. Raises BadInput with the error in one line.
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

"""Assignment of the hosts in a trace to emulated nodes. It is deterministic and preserves racks if possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schedbed.tasks.specs import NodeId
from schedbed.tasks.traces.trace import Host


def map_hosts(hosts: Iterable[Host], nodes: Mapping[NodeId, str]) -> dict[Host, NodeId]:
    """Assign hosts to nodes: those of a traced rack, sorted, to one rack in turn.

    If the trace has fewer racks than the cluster, they go to all nodes in turn.
    """
    ordered = sorted(set(hosts))
    traced, ours = sorted({rack for rack, _ in ordered}), list(dict.fromkeys(nodes.values()))
    if len(traced) < len(ours):
        return dict(zip(ordered, _cycle(list(nodes), len(ordered)), strict=True))
    mapped: dict[Host, NodeId] = {}
    for index, rack in enumerate(traced):
        inside = [node for node, its_rack in nodes.items() if its_rack == ours[index % len(ours)]]
        members = [host for host in ordered if host[0] == rack]
        offset = index // len(ours)  # Otherwise all racks with one host share the first node.
        for place, host in enumerate(members):
            mapped[host] = inside[(place + offset) % len(inside)]
    return mapped


def replica_nodes(
    hosts: Sequence[Host], mapped: Mapping[Host, NodeId], nodes: Sequence[NodeId], count: int
) -> tuple[NodeId, ...]:
    """Return `count` nodes for a block's replicas: those of its hosts, then the next in `nodes`; none without hosts."""
    wanted = list(dict.fromkeys(mapped[host] for host in hosts))[:count]
    if not wanted:
        return ()
    place = nodes.index(wanted[-1]) + 1
    while len(wanted) < min(count, len(nodes)):
        node = nodes[place % len(nodes)]
        if node not in wanted:
            wanted.append(node)
        place += 1
    return tuple(wanted)


def _cycle(nodes: Sequence[NodeId], count: int) -> list[NodeId]:
    return [nodes[index % len(nodes)] for index in range(count)]

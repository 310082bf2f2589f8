"""Conversion of a scenario's keys `cluster` and `blocks` to the specification of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from schedbed.cluster.spec import BlockSettings, ClusterSpec, DynamicReplicas, NodeSpec
from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.models import Blocks, ClusterModel, NodeGroup, Scenario, Skewed
from schedbed.deploy.scenario.sections import (
    Cdrm,
    CdrmChoice,
    Dare,
    DareChoice,
    Scarlett,
    ScarlettChoice,
    disk_of,
    foreground_of,
    memory_of,
)
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.trace import Host

NODES_MAX = 100_000


HEARTBEAT_MIN_S = 0.001

RATE_LIKELY_BPS = 1000.0  # a lower rate of a disk or NIC was probably given without a unit


def resolve_cluster(scenario: Scenario, base: Path, complaints: Complaints) -> ClusterSpec:
    """Return the cluster: nodes n1 to nN with racks, and block settings.

    Block sizes and times are scaled. A relative topology file (hosts by rack) starts from `base`. Errors are
    added to `complaints`, but BadInput is raised at once if that file cannot be used.
    """
    hosts = topology_hosts(scenario.cluster, base, complaints)
    complaints.raise_if_any()
    nodes = tuple(_nodes(scenario, [rack for rack, _ in hosts]))
    _check_nodes(scenario, nodes, complaints)
    cluster = scenario.cluster
    if cluster.heartbeat <= 0:
        complaints.add(("cluster", "heartbeat"), "a heartbeat of 0 is not possible, expected such as 500ms")
    elif cluster.heartbeat < HEARTBEAT_MIN_S:
        complaints.add(
            ("cluster", "heartbeat"), f"below {HEARTBEAT_MIN_S * 1000:g}ms, expected such as 500ms"
        )
    return ClusterSpec(
        nodes=nodes,
        heartbeat_s=cluster.heartbeat,
        uplink_bps=cluster.uplink,
        downlink_bps=cluster.downlink,
        core_switch_bps=cluster.core_switch,
        limits=cluster.limits,
        blocks=_blocks(scenario, len(nodes), complaints),
    )


def tiny_rates(cluster: ClusterSpec) -> Iterator[str]:
    """Yield a warning for each disk or network rate that is so low that its unit was probably forgotten."""
    for key, rates in (
        ("disk", {node.disk_bps for node in cluster.nodes}),
        ("network", {node.network_bps for node in cluster.nodes}),
    ):
        for rate in sorted(rate for rate in rates if 0 < rate < RATE_LIKELY_BPS):
            yield f"cluster.node.{key}: {rate:g} is {rate:g} bytes per second; for megabytes write {rate:g}MB/s"


def topology_hosts(cluster: ClusterModel, base: Path, complaints: Complaints) -> tuple[Host, ...]:
    """Return the hosts in `cluster.topology`, in the order of n1 to nN; empty without it or after an error."""
    if cluster.topology is None:
        return ()
    place, path = ("cluster", "topology"), base / Path(cluster.topology).expanduser()
    for key in ("nodes", "racks"):
        if key in cluster.model_fields_set:
            complaints.add(("cluster", key), "the topology says which nodes there are: give one of the two")
    if "\0" in str(path) or not path.is_file():
        hint = "give its path with --set cluster.topology=PATH"
        complaints.add(place, f"no topology file {cluster.topology!r} (looked for {path}); {hint}")
        return ()
    from schedbed.tasks.traces.detect import read_trace

    try:
        topology = read_trace(path).topology
    except BadInput as error:
        complaints.add(place, str(error))
        return ()
    if topology is None:
        complaints.add(place, f"{path} holds jobs, expected a Rumen topology or an SLS node file")
        return ()
    return tuple(sorted(set(topology.hosts)))


def _nodes(scenario: Scenario, racks: Sequence[str]) -> Iterator[NodeSpec]:
    """Yield the nodes n1 to nN, in the topology file's `racks` or, without any, as in `cluster.nodes`."""
    cluster, number = scenario.cluster, 0
    groups = [NodeGroup(count=cluster.nodes)] if isinstance(cluster.nodes, int) else cluster.nodes
    if racks:
        groups = [NodeGroup(rack=rack) for rack in racks]
    for group in groups:
        special = {key: value for key, value in group if key not in ("count", "rack") and value is not None}
        have = cluster.node.model_copy(update=special)
        disk, memory = disk_of(have.disk), memory_of(have.memory)
        foreground = foreground_of(have.foreground, scenario.scale)
        for _ in range(min(group.count, NODES_MAX + 1 - number)):
            number += 1
            yield NodeSpec(
                node=f"n{number}",
                rack=group.rack or _rack(cluster.racks, number),
                cores=have.cores,
                core_speed=have.core_speed,
                memory_bytes=memory.size,
                disk_bps=disk.rate,
                network_bps=have.network,
                latency_s=have.latency,
                loss=have.loss,
                host=have.host or "",
                map_slots=have.map_slots,
                reduce_slots=have.reduce_slots,
                seek=disk.seek,
                paging=memory.paging,
                shared_disk=have.shared_disk or "",
                foreground=foreground,
                idle_watts=0.0 if have.power is None else have.power.idle_watts,
                busy_watts=0.0 if have.power is None else have.power.busy_watts,
            )


def _rack(racks: int | str, number: int) -> str:
    return racks if isinstance(racks, str) else f"r{(number - 1) % racks + 1}"


def _check_nodes(scenario: Scenario, nodes: tuple[NodeSpec, ...], complaints: Complaints) -> None:
    if len(nodes) > NODES_MAX:
        complaints.add(("cluster", "nodes"), f"more than {NODES_MAX:,} nodes")
    if (
        isinstance(scenario.cluster.nodes, int)
        and not scenario.cluster.topology
        and isinstance(scenario.cluster.racks, int)
        and scenario.cluster.racks > len(nodes)
    ):
        message = f"{scenario.cluster.racks} racks for {len(nodes)} nodes, expected at most one a node"
        complaints.add(("cluster", "racks"), message)
    for name, value in (("disk", "disk_bps"), ("network", "network_bps"), ("memory", "memory_bytes")):
        if any(getattr(node, value) <= 0 for node in nodes):
            complaints.add(
                ("cluster", "node", name), f"a node without {name} is not possible, expected above 0"
            )
    _check_shared_disks(nodes, complaints)
    if all(node.map_slots == 0 for node in nodes):
        complaints.add(("cluster", "node", "map_slots"), "no node has a map slot: nothing could run")


def _replicas(blocks: Blocks, scale: float) -> DynamicReplicas | None:
    """Return the settings of a scheme that changes replicas periodically (Scarlett or CDRM), None for others."""
    match blocks.dynamic:
        case "scarlett" | ScarlettChoice():
            given = Scarlett() if isinstance(blocks.dynamic, str) else blocks.dynamic.scarlett
            return DynamicReplicas(
                scheme="scarlett", epoch_s=given.epoch * scale, delta=given.delta, budget=given.budget
            )
        case "cdrm" | CdrmChoice():
            asked = Cdrm() if isinstance(blocks.dynamic, str) else blocks.dynamic.cdrm
            return DynamicReplicas(
                scheme="cdrm",
                epoch_s=asked.epoch * scale,
                availability=asked.availability,
                failure=asked.failure,
            )
        case _:
            return None


def _check_shared_disks(nodes: tuple[NodeSpec, ...], complaints: Complaints) -> None:
    first: dict[str, NodeSpec] = {}
    for node in nodes:
        if not node.shared_disk:
            continue
        other = first.setdefault(node.shared_disk, node)
        if (node.disk_bps, node.seek) != (other.disk_bps, other.seek):
            message = f"{other.node} and {node.node} share {node.shared_disk} and declare different disks"
            complaints.add(("cluster", "node", "shared_disk"), f"{message}, expected the same rate and seek")
            return


def _blocks(scenario: Scenario, nodes: int, complaints: Complaints) -> BlockSettings:
    blocks = scenario.blocks
    asked = blocks.replication if "replication" in blocks.model_fields_set else min(blocks.replication, nodes)
    if asked > nodes:
        complaints.add(
            ("blocks", "replication"), f"{asked} replicas of a block need as many nodes, there are {nodes}"
        )
    if blocks.size <= 0:
        complaints.add(("blocks", "size"), "a block of 0 bytes is not possible, expected such as 64MiB")
    skew = blocks.placement.skewed if isinstance(blocks.placement, Skewed) else None
    dare = Dare() if blocks.dynamic == "dare" else None
    if isinstance(blocks.dynamic, DareChoice):
        dare = blocks.dynamic.dare
    return BlockSettings(
        size_bytes=max(1, round(blocks.size * scenario.scale)),
        replication=asked,
        placement=blocks.placement if isinstance(blocks.placement, str) else "skewed",
        skew=skew,
        keep_share=dare.p if dare is not None else 0.0,
        keep_budget=(dare or Dare()).budget,
        replicas=_replicas(blocks, scenario.scale),
    )

"""The stretch (real seconds per emulated second) of a scenario.

A scenario sets a number, or asks for the least stretch at which this host provides the declared resources.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

from schedbed.cluster.machines.host_abilities import probe_host
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.errors import BadInput

CPU_SHARE = 0.7  # Share of the host's cores for busy nodes; the emulation and the host need the others.
STEP = 0.1


def least_stretch(cluster: ClusterSpec, cores: float, disk_bps: float | None) -> float:
    """Return the least stretch, at least 1, at which a host can provide the declared resources of all nodes.

    The host has `cores` cores, and its disk writes `disk_bps` bytes/s (None if not measured). For a cluster
    with `limits: off` the stretch is 1.
    """
    if cluster.limits == "off":
        return 1.0
    wanted = sum(node.cpu_rate for node in cluster.nodes) / (CPU_SHARE * cores)
    if disk_bps:
        wanted = max(wanted, sum(node.disk_bps for node in cluster.nodes) / disk_bps)
    return max(1.0, math.ceil(wanted / STEP - 1e-9) * STEP)


def on_this_host(scenario: ResolvedScenario) -> ResolvedScenario:
    """Return the scenario with rates and heartbeat interval converted from emulated to real seconds.

    The key `stretch`, the number of real seconds per emulated second, is 1 in the result.
    """
    cluster, stretch = scenario.cluster, scenario.cluster.stretch
    nodes = tuple(node.stretched(stretch) for node in cluster.nodes)
    heartbeat_s = cluster.heartbeat_s * stretch
    held = replace(cluster, nodes=nodes, heartbeat_s=heartbeat_s, stretch=1.0)
    return replace(scenario, cluster=held.with_links(cluster.links.slowed(stretch)))


def settled(scenario: ResolvedScenario, address: str | None = None) -> ResolvedScenario:
    """Return the scenario with a number as the value of its key `stretch` (real seconds per emulated second).

    The value `auto` is replaced by the least stretch that is possible on this host. Raises BadInput for this
    value if `address`, a Ray cluster, is given, since only this host can be measured.
    """
    if not scenario.auto_stretch:
        return scenario
    if address is not None:
        raise BadInput(f"stretch: auto measures this host only, expected a number with --address {address}")
    probe = probe_host(Path(tempfile.gettempdir()))
    stretch = round(least_stretch(scenario.cluster, probe.cores, probe.disk_write_bps), 1)
    return replace(scenario, cluster=replace(scenario.cluster, stretch=stretch), auto_stretch=False)

"""Measure how well nodes are limited to their declared CPU, memory, disk and network.

    python tests/bench/isolation.py [--repeats 5] [--limits software cgroup docker] [--seconds 6]

The benchmark starts machines without Ray: processes under either kind of limit, or containers. It runs
attempts of `synthetic` on one node and on six at once, as `schedbed doctor --measure` does. Every figure is
achieved / declared, for six nodes that of the node furthest from 1. CPU is measured in two ways. For an
attempt alone, its own CPU time over its elapsed time is compared with one emulated core. A node with twice as
many attempts as cores is measured by the CPU clocks of its attempts.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed import run
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.deploy.doctor.achieved import loads_on, nodes_alone
from schedbed.deploy.doctor.loads import LoadedNode, Loads, Ratios
from schedbed.deploy.doctor.verdicts import TOLERANCE
from schedbed.tasks.errors import BadInput
from tests.bench.figures import Figure, parser, publish, say

NODES = 6
NODE = {"cores": 2, "core_speed": 0.1, "memory_bytes": 2**29, "disk_bps": 40e6, "network_bps": 12.5e6}
SOFTWARE = {"cpu": 0.05, "disk": 0.1, "network": 0.1, "memory": 0.0}
MODES = {"software": SOFTWARE, "cgroup": TOLERANCE, "docker": TOLERANCE}
"""How nodes are held, with how far off they may be."""

Load = Callable[[Sequence[LoadedNode]], Awaitable[Ratios]]


def worst(ratios: Sequence[float]) -> float:
    """Return the ratio that is furthest from 1."""
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def cluster(limits: str) -> ClusterSpec:
    """Return a cluster of six nodes in one rack whose limits are enforced by `limits`."""
    names = [f"n{number + 1}" for number in range(NODES)]
    nodes = tuple(NodeSpec(node=name, rack="r1", map_slots=2, reduce_slots=1, **NODE) for name in names)
    return ClusterSpec(nodes=nodes, limits=limits, heartbeat_s=0.2)


async def measure(mode: str, repeats: int, seconds: float) -> list[Figure]:
    """Return all figures of `mode`: software limits, cgroups, or containers. Each load lasts `seconds`."""
    machines, limits = ("docker", "auto") if mode == "docker" else ("process", mode)
    with nodes_alone(cluster(limits), machines) as config:
        async with loads_on(config, seconds) as loads:
            return await _measure(loads, mode, repeats)


async def _measure(loads: Loads, mode: str, repeats: int) -> list[Figure]:
    of: list[tuple[str, str, Load]] = [
        ("memory", "memory of an attempt", loads.memory),
        ("cpu", "CPU of an attempt / one emulated core", loads.core),
        ("cpu", "CPU of a node, 4 attempts on 2 cores", loads.cpu),
        ("disk", "disk of a node, a reader and a writer", loads.disk),
        ("network", "NIC of a node", loads.network),
    ]
    found: dict[tuple[str, str, int], list[float]] = {}
    for repeat in range(repeats):
        for resource, name, load in of:
            for busy in (1, NODES):
                ratio = worst([each.per_s for each in (await load(loads.nodes[:busy])).values()])
                found.setdefault((resource, name, busy), []).append(ratio)
                say(f"{mode}, repeat {repeat + 1}: {name}, {busy} busy: {ratio:.3f}")
    by = loads.nodes[0].hello.limits
    return [
        Figure(
            name=f"{name}; {busy} busy; by {by[resource]}",
            values=values,
            low=1 - MODES[mode][resource],
            high=1 + MODES[mode][resource],
        )
        for (resource, name, busy), values in found.items()
    ]


def overload() -> Figure:
    """Run a cluster declared with three times the host's CPU, and return whether the run is reported as not
    trusted.
    """
    cores = os.cpu_count() or 1
    node = {"cores": cores, "core_speed": 0.5, "map_slots": cores, "reduce_slots": 1}
    burn = {"app": "synthetic", "maps": 6 * cores, "map": {"cpu": "5s"}, "user": "ana"}
    scenario = {"name": "overload", "cluster": {"nodes": 6, "node": node}, "workload": {"jobs": [burn]}}
    fidelity = run(scenario, policies=["fifo"], check=False).summary["fidelity"]
    why = " ".join(fidelity["why"])
    asked = f"{3 * cores} host cores asked of {cores}: reported as not trusted (1 = yes)"
    return Figure(name=asked, values=[float(not fidelity["trusted"])], low=1, note=why)


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--limits", nargs="+", choices=list(MODES), default=list(MODES))
    options.add_argument("--seconds", type=float, default=6.0, help="how long each load lasts (default 6)")
    asked = options.parse_args()
    figures: list[Figure] = []
    for mode in asked.limits:
        try:
            figures += asyncio.run(measure(mode, asked.repeats, asked.seconds))
        except BadInput as error:
            say(f"{mode}: left out: {error}")
    figures.append(overload())
    publish("isolation", "Isolation: achieved / declared", figures, asked.out)


if __name__ == "__main__":
    main()

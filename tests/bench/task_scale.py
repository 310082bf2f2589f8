"""Measure whether limits are right for short work: transfers of 1 to 16 MB, and tasks of one second.

    python tests/bench/task_scale.py [--repeats 5] [--limits software cgroup docker]

The benchmark starts two nodes without Ray, as `schedbed doctor --measure` does, and runs one attempt at a
time, so that disk and NIC are idle before. Transfers run at half a host core, so that their CPU time does not
matter. The task of one emulated second runs at a twentieth of a core. Every figure is the attempt's time
divided by size / rate (or by one second). From a transfer's time 3 ms are subtracted, the time of an attempt
that does nothing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.deploy.doctor.achieved import KINDS, MEGABYTE, PAUSE_S, SIZES, START_S, loads_on, nodes_alone
from schedbed.deploy.doctor.loads import Loads, Message, Work
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost
from tests.bench.figures import Figure, parser, publish, say

MODES = ("software", "cgroup", "docker")
FAST, SLOW = 0.5, 0.05  # host cores


def cluster(limits: str, core_speed: float) -> ClusterSpec:
    """Return a cluster of two nodes in one rack."""
    nodes = tuple(
        NodeSpec(
            node=name,
            rack="r1",
            cores=2,
            core_speed=core_speed,
            memory_bytes=2**29,
            disk_bps=40e6,
            network_bps=12.5e6,
            map_slots=2,
            reduce_slots=1,
        )
        for name in ("n1", "n2")
    )
    return ClusterSpec(nodes=nodes, limits=limits, heartbeat_s=0.2)


async def took(loads: Loads, work: Work, repeats: int) -> list[float]:
    """Run an attempt of `work` several times, each after a pause, and return its times in seconds."""
    found: list[float] = []
    for _ in range(repeats):
        await asyncio.sleep(PAUSE_S)
        reports: list[Message] = await loads.run([work])
        found.append(reports[0]["end_s"] - reports[0]["start_s"])
    return found


async def transfers(mode: str, repeats: int) -> list[Figure]:
    """Return figures of transfers of each kind and size under `mode`: software limits, cgroups, or
    containers.
    """
    machines, limits = ("docker", "auto") if mode == "docker" else ("process", mode)
    figures: list[Figure] = []
    with nodes_alone(cluster(limits, FAST), machines) as config:
        async with loads_on(config, 8.0) as loads:
            node, source = loads.nodes
            for kind in KINDS:
                by = node.hello.limits[kind.resource]
                for size in SIZES:
                    wanted_s = size / kind.rate_bps(node, source)
                    seconds = await took(loads, kind.work(node, source, size), repeats)
                    name = f"{kind.resource}, {kind.name} of {size // MEGABYTE} MB; by {by}, {mode}"
                    values = [(each - START_S) / wanted_s for each in seconds]
                    figures.append(Figure(name=name, values=values, unit="x", low=0.9, high=1.1))
                    say(f"{name}: {values}")
    return figures


async def task(mode: str, repeats: int) -> Figure:
    """Return the figure of a task that needs one emulated second of CPU."""
    machines, limits = ("docker", "auto") if mode == "docker" else ("process", mode)
    with nodes_alone(cluster(limits, SLOW), machines) as config:
        async with loads_on(config, 8.0) as loads:
            node = loads.nodes[0]
            values = await took(loads, (node, Cost(cpu_s=1.0), None), repeats)
            name = f"a task of 1 s at {SLOW} host cores; by {node.hello.limits['cpu']}, {mode}"
            say(f"{name}: {values}")
            return Figure(name=name, values=values, unit="x", low=0.99, high=1.01)


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--limits", nargs="+", choices=MODES, default=list(MODES))
    asked = options.parse_args()
    figures: list[Figure] = []
    for mode in asked.limits:
        try:
            figures += asyncio.run(transfers(mode, asked.repeats))
            figures.append(asyncio.run(task(mode, asked.repeats)))
        except BadInput as error:
            say(f"{mode}: left out: {error}")
    publish("task_scale", "Limits at the scale of a task: achieved / declared time", figures, asked.out)


if __name__ == "__main__":
    main()

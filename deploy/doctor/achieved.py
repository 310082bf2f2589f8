"""Measures the resources that a scenario's nodes achieve under load, to compare them with the declared ones.

All nodes are loaded at the same time, without a scheduler.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import machines_ready, make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.doctor.host_load import HostClock
from schedbed.deploy.doctor.loads import LoadedNode, Loads, Ratios, connected
from schedbed.deploy.doctor.short import short_rows
from schedbed.deploy.doctor.verdicts import TOLERANCE, Achieved
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.workspace import scratch

SECONDS = 8.0


def measure(scenario: ResolvedScenario, machines: str, seconds: float = SECONDS) -> list[Achieved]:
    """Start the scenario's nodes, put all of them under load, and return the resources that each achieves.

    `machines` is the kind of machine that each node is, such as `docker`. Memory, CPU, disk and network are
    loaded one after another for `seconds` each, since each load also needs CPU. Short loads follow: transfers
    and tasks as short as those of a run. Raises BadInput if machines of that kind do not work on this host,
    RunFailed if a node does not start.
    """
    with nodes_alone(scenario.cluster, machines) as config:
        try:
            return asyncio.run(_measure(config, seconds))
        except MachineFailed as error:
            raise RunFailed(str(error)) from None


@contextmanager
def nodes_alone(cluster: ClusterSpec, machines: str) -> Iterator[RunConfig]:
    """Yield a run configuration with which the cluster's nodes are started without Ray and masters.

    `machines` is the kind of machine of the nodes, such as `docker`. The files of the configuration are
    deleted at the end.
    """
    with machines_ready(machines), scratch() as base:
        config = RunConfig(
            run_id=f"{base.name}-measure",
            policy="",
            given="fifo",
            scale=1.0,
            seed=1,
            epoch_s=time.time(),
            token=secrets.token_hex(32),
            work=base / "measure",
            cluster=cluster,
            machines=machines,
        )
        config.make_work()
        yield config


@asynccontextmanager
async def loads_on(config: RunConfig, seconds: float) -> AsyncIterator[Loads]:
    """Start all nodes of `config`, and yield `Loads` that put the nodes under load for `seconds` at a time.

    The nodes are stopped at the end.
    """
    specs = config.cluster.nodes
    machines = [make_machine(config, spec, config.epoch_s) for spec in specs]
    async with connected(machines, specs, config.token, seconds) as loads:
        yield loads


async def _measure(config: RunConfig, seconds: float) -> list[Achieved]:
    async with loads_on(config, seconds) as loads:
        rows = await _steady_rows(loads)
        return sorted(rows, key=lambda row: loads.names.index(row.node)) + await short_rows(loads)


async def _steady_rows(loads: Loads) -> list[Achieved]:
    """Measure each resource of each node under a load of several seconds. Return a row per measurement."""
    stream = f"cooperating attempts, {loads.seconds:g} s stream"
    tests: list[tuple[str, str, Callable[[Sequence[LoadedNode]], Awaitable[Ratios]]]] = [
        ("memory", "an attempt at its limit, one beyond", loads.memory),
        ("cpu", f"cooperating attempts, two a core, {loads.seconds:g} s", loads.cpu),
        ("disk", stream, loads.disk),
        ("network", stream, loads.network),
    ]
    rows: list[Achieved] = []
    for resource, load, test in tests if len(loads.nodes) > 1 else tests[:3]:
        before = HostClock.read()
        ratios = await test(loads.nodes)
        busy = before.busy_until(HostClock.read())
        for node in loads.nodes:
            found, by = ratios[node.spec.node], node.hello.limits[resource]
            row = Achieved(node.spec.node, resource, found.per_s, by, load, TOLERANCE[resource])
            rows.append(replace(row, resolution=found.resolution, busy=busy))
    return rows

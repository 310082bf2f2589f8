"""Whether the nodes of a scenario get what they are declared: measured on all of them at once, without a scheduler."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import machines_ready, make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.doctor.loads import Loads, Ratios, connected
from schedbed.deploy.doctor.short import short_rows
from schedbed.deploy.doctor.verdicts import TOLERANCE, Achieved
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.workspace import scratch

SECONDS = 8.0


def measure(scenario: ResolvedScenario, machines: str, seconds: float = SECONDS) -> list[Achieved]:
    """Start the scenario's nodes and put all of them under load; return what they achieved.

    One resource after the other is loaded for `seconds` each, since each load needs CPU as well; then come transfers
    and tasks as short as those of a run. Raises BadInput when machines of that kind cannot be had, RunFailed when one
    does not come up.
    """
    with nodes_alone(scenario.cluster, machines) as config:
        try:
            return asyncio.run(_measure(config, seconds))
        except MachineFailed as error:
            raise RunFailed(str(error)) from None


@contextmanager
def nodes_alone(cluster: ClusterSpec, machines: str) -> Iterator[RunConfig]:
    """Where nodes of that kind can be started without Ray and masters; nothing of them is left afterwards."""
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
    """All nodes of the configuration, up and ready for loads of about `seconds`."""
    specs = config.cluster.nodes
    machines = [make_machine(config, spec, config.epoch_s) for spec in specs]
    async with connected(machines, specs, config.token, seconds) as loads:
        yield loads


async def _measure(config: RunConfig, seconds: float) -> list[Achieved]:
    async with loads_on(config, seconds) as loads:
        rows = [
            Achieved(
                node.spec.node,
                resource,
                ratios[node.spec.node],
                node.hello.limits[resource],
                load,
                TOLERANCE[resource],
            )
            for (resource, load), ratios in (await _ratios(loads)).items()
            for node in loads.nodes
        ]
        return sorted(rows, key=lambda row: loads.names.index(row.node)) + await short_rows(loads)


async def _ratios(loads: Loads) -> dict[tuple[str, str], Ratios]:
    """By resource and what it was tested with."""
    stream = f"cooperating attempts, {loads.seconds:g} s stream"
    found = {
        ("memory", "an attempt at its limit, one beyond"): await loads.memory(loads.nodes),
        ("cpu", f"cooperating attempts, two a core, {loads.seconds:g} s"): await loads.cpu(loads.nodes),
        ("disk", stream): await loads.disk(loads.nodes),
    }
    if len(loads.nodes) > 1:
        found["network", stream] = await loads.network(loads.nodes)
    return found

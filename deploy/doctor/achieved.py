"""Whether the nodes of a scenario get what they are declared: measured on all of them at once, without a scheduler."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import machines_ready, make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.deploy.doctor.loads import Loads, Ratios, connected, memory_limit
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.workspace import scratch
from schedbed.tasks.units import format_bytes, format_rate

SECONDS = 8.0
TOLERANCE = {"cpu": 0.03, "disk": 0.05, "network": 0.05, "memory": 0.0}
"""How far a node may be off, as a share of what is declared."""


@dataclass(frozen=True, slots=True)
class Achieved:
    """One resource of one node: `ratio` of achieved to declared, and what holds it to that."""

    node: str
    resource: str
    ratio: float
    by: str

    @property
    def error(self) -> float:
        """How far off, as a share."""
        return self.ratio - 1

    @property
    def holds(self) -> bool:
        """Within the tolerance."""
        return abs(self.error) <= TOLERANCE[self.resource]


def measure(scenario: ResolvedScenario, machines: str, seconds: float = SECONDS) -> list[Achieved]:
    """Starts the scenario's nodes and puts all of them under load: one resource after the other for `seconds` each,
    since each load needs CPU as well. Raises BadInput when machines of that kind cannot be had, RunFailed when one does
    not come up.
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
        return [
            Achieved(node.spec.node, resource, ratios[node.spec.node], node.hello.limits[resource])
            for resource, ratios in (await _ratios(loads)).items()
            for node in loads.nodes
        ]


async def _ratios(loads: Loads) -> dict[str, Ratios]:
    found = {"memory": await loads.memory(loads.nodes), "cpu": await loads.cpu(loads.nodes)}
    found["disk"] = await loads.disk(loads.nodes)
    if len(loads.nodes) > 1:
        found["network"] = await loads.network(loads.nodes)
    return found


def show(found: list[Achieved], nodes: tuple[NodeSpec, ...], console: Console) -> None:
    """Prints configured and achieved for each node and resource; RunFailed when one is outside its tolerance."""
    table = Table(
        "node", "resource", "configured", "achieved", "error", "by", "", title="Achieved, all nodes busy"
    )
    declared = {node.node: node for node in nodes}
    for each in sorted(found, key=lambda each: (list(declared).index(each.node), each.resource)):
        node = declared[each.node]
        value = _declared(node, each.resource)
        row = (_shown(each.resource, value), _shown(each.resource, value * each.ratio), f"{each.error:+.1%}")
        table.add_row(each.node, each.resource, *row, each.by, "holds" if each.holds else "does not hold")
    console.print(table)
    outside = [each for each in found if not each.holds]
    if outside:
        worst = max(outside, key=lambda each: abs(each.error))
        raise RunFailed(
            f"{len(outside)} of {len(found)} limits do not hold, the worst is {worst.resource} of {worst.node} "
            f"({worst.error:+.1%}, at most {TOLERANCE[worst.resource]:.0%}): is the host busy with something else?"
        )


def _declared(node: NodeSpec, resource: str) -> float:
    memory = memory_limit(node)  # of an attempt
    return {"cpu": node.cpu_rate, "disk": node.disk_bps, "network": node.network_bps, "memory": memory}[
        resource
    ]


def _shown(resource: str, value: float) -> str:
    if resource == "cpu":
        return f"{value:.3f} cores"
    return format_bytes(value) if resource == "memory" else format_rate(value)

"""Measures what a scenario's nodes, all loaded at once without a scheduler, achieve of their declared resources."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from statistics import median

from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import machines_ready, make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.doctor.host_load import HostClock
from schedbed.deploy.doctor.loads import LoadedNode, Loads, Message, Ratios, Work, connected
from schedbed.deploy.doctor.verdicts import TOLERANCE, Achieved
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.workspace import scratch
from schedbed.tasks.specs import Cost

SECONDS = 8.0


def measure(scenario: ResolvedScenario, machines: str, seconds: float = SECONDS) -> list[Achieved]:
    """Start the nodes, load all, and return what each achieves. Raises BadInput, RunFailed.

    Memory, CPU, disk and network follow one another for `seconds` each, since each also needs CPU; then
    transfers and tasks as short as a run's.
    """
    with nodes_alone(scenario.cluster, machines) as config:
        try:
            return asyncio.run(_measure(config, seconds))
        except MachineFailed as error:
            raise RunFailed(str(error)) from None


@contextmanager
def nodes_alone(cluster: ClusterSpec, machines: str) -> Iterator[RunConfig]:
    """Yield a configuration to start nodes without Ray and masters. Its files are deleted at the end."""
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
    """Start all nodes, and yield loads of `seconds` on them. The nodes are stopped at the end."""
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


# Loads as short as real tasks: transfers of 1 to 16 MB after a pause, and tasks of one CPU second.

MEGABYTE = 10**6
SIZES = tuple(megabytes * MEGABYTE for megabytes in (1, 2, 4, 8, 16))
REPEATS = 3  # Number of measurements, of which the median is used.
PAUSE_S = 0.3  # Pause before each load: an idle bucket must not save capacity.
TRANSFER_TOLERANCE = 0.10
TASK_TOLERANCE = 0.02
TASK_CPU_S = 1.0  # Emulated core-seconds.
CPU_SHARE = 0.4
START_S = 0.003  # Duration of an empty attempt (files and reports), which no limit applies to.


@dataclass(frozen=True, slots=True)
class Transfer:
    """A kind of transfer: its name, the resource that limits it, and whether the data stay on one node."""

    name: str
    resource: str
    local: bool

    def work(self, node: LoadedNode, source: LoadedNode, size: int) -> Work:
        """Return work for `Loads.run`: an attempt that moves `size` bytes, from `source` if not local."""
        if self.name == "write":
            return node, Cost(write_bytes=size), None
        return node, Cost(read_bytes=size), node if self.local else source

    def rate_bps(self, node: LoadedNode, source: LoadedNode) -> float:
        """Return the declared rate that limits this transfer, from `source` if not local."""
        if self.local:
            return node.spec.disk_bps
        return min(node.spec.network_bps, source.spec.network_bps, source.spec.disk_bps)


KINDS = (Transfer("read", "disk", True), Transfer("write", "disk", True), Transfer("read", "network", False))


async def short_rows(loads: Loads) -> list[Achieved]:
    """Measure transfers of each kind and size, and short tasks; each row is the node most off its rate."""
    rows = [_worst(await _tasks(loads))]
    for kind in KINDS if len(loads.nodes) > 1 else KINDS[:2]:
        for size in SIZES:
            if all(size / kind.rate_bps(node, node) <= loads.seconds for node in loads.nodes):
                rows.append(_worst(await _transfers(loads, kind, size)))
    return rows


async def _tasks(loads: Loads) -> list[Achieved]:
    """Run attempts of `TASK_CPU_S` on each node, several times. Return the achieved cores."""
    work = [(node, Cost(cpu_s=TASK_CPU_S), None) for node in loads.nodes]
    before = HostClock.read()
    took = await _took(loads, work)
    busy = before.busy_until(HostClock.read())
    return [
        Achieved(
            node.spec.node,
            "cpu",
            TASK_CPU_S / median(_seconds(report) for report in reports),
            node.hello.limits["cpu"],
            f"a task of {TASK_CPU_S:g} s",
            TASK_TOLERANCE,
            busy=busy,
        )
        for node, reports in zip(loads.nodes, took, strict=True)
    ]


async def _transfers(loads: Loads, kind: Transfer, size: int) -> list[Achieved]:
    """Let each node's attempt move `size` bytes, and return the achieved rates.

    If an attempt's CPU time on one emulated core exceeds `CPU_SHARE` of the declared time, its row says so
    and gets no verdict.
    """
    sources = loads.next_of()
    before = HostClock.read()
    took = await _took(loads, [kind.work(node, sources[node.spec.node], size) for node in loads.nodes])
    busy, rows = before.busy_until(HostClock.read()), []
    for node, reports in zip(loads.nodes, took, strict=True):
        moving_s = size / kind.rate_bps(node, sources[node.spec.node])
        computing_s = median(report["counters"]["cpu_s"] for report in reports) / node.spec.core_speed
        load, tolerance = f"{kind.name} of {size // MEGABYTE} MB", TRANSFER_TOLERANCE
        if computing_s > CPU_SHARE * moving_s:
            load, tolerance = f"{load} + {1000 * computing_s:.0f} ms of CPU", None
        ratio = moving_s / median(max(_seconds(report) - START_S, 1e-6) for report in reports)
        by = node.hello.limits[kind.resource]
        rows.append(Achieved(node.spec.node, kind.resource, ratio, by, load, tolerance, busy=busy))
    return rows


async def _took(loads: Loads, work: Sequence[Work]) -> list[list[Message]]:
    """Run all work at once, `REPEATS` times. Return each attempt's reports."""
    made: list[list[Message]] = []
    for _ in range(REPEATS):
        await asyncio.sleep(PAUSE_S)
        made.append(await loads.run(work))
    return [list(reports) for reports in zip(*made, strict=True)]


def _seconds(report: Message) -> float:
    return report["end_s"] - report["start_s"]


def _worst(rows: Sequence[Achieved]) -> Achieved:
    return max(rows, key=lambda row: abs(row.error))

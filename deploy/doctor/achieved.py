"""Measures the resources that a scenario's nodes achieve under load, to compare them with the declared ones.

All nodes are loaded at the same time, without a scheduler.
"""

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
        """Return the work for `Loads.run` to start: an attempt on `node` that reads or writes `size` bytes.

        A read that is not local gets its data from the node `source`.
        """
        if self.name == "write":
            return node, Cost(write_bytes=size), None
        return node, Cost(read_bytes=size), node if self.local else source

    def rate_bps(self, node: LoadedNode, source: LoadedNode) -> float:
        """Return the declared rate in bytes/s that limits this transfer on `node`.

        A read that is not local gets its data from the node `source`.
        """
        if self.local:
            return node.spec.disk_bps
        return min(node.spec.network_bps, source.spec.network_bps, source.spec.disk_bps)


KINDS = (Transfer("read", "disk", True), Transfer("write", "disk", True), Transfer("read", "network", False))


async def short_rows(loads: Loads) -> list[Achieved]:
    """Measure each kind of transfer with each size, and short tasks, on all nodes at the same time.

    Return a row for each measurement, with the node that deviates most from its declared rate.
    """
    rows = [_worst(await _tasks(loads))]
    for kind in KINDS if len(loads.nodes) > 1 else KINDS[:2]:
        for size in SIZES:
            if all(size / kind.rate_bps(node, node) <= loads.seconds for node in loads.nodes):
                rows.append(_worst(await _transfers(loads, kind, size)))
    return rows


async def _tasks(loads: Loads) -> list[Achieved]:
    """Run one attempt of `TASK_CPU_S` CPU seconds on each node, several times.

    Return a row per node with the achieved CPU rate in cores.
    """
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
    """Let one attempt per node move `size` bytes, and return a row for each node with the achieved rate.

    An attempt also needs CPU time. If its CPU time on one emulated core is more than the share `CPU_SHARE` of
    the time that the declared rate allows for the bytes, the row mentions the CPU time and gets no verdict.
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
    """Run all attempts of `work` at the same time, and repeat this until there are `REPEATS` runs.

    Return a list for each attempt in `work`. It contains, for each run, the report that the node sent about
    the attempt.
    """
    made: list[list[Message]] = []
    for _ in range(REPEATS):
        await asyncio.sleep(PAUSE_S)
        made.append(await loads.run(work))
    return [list(reports) for reports in zip(*made, strict=True)]


def _seconds(report: Message) -> float:
    return report["end_s"] - report["start_s"]


def _worst(rows: Sequence[Achieved]) -> Achieved:
    return max(rows, key=lambda row: abs(row.error))

"""Loads as short as real tasks: transfers of 1 to 16 MB after a pause, and tasks of one CPU second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from schedbed.deploy.doctor.host_load import HostClock
from schedbed.deploy.doctor.loads import LoadedNode, Loads, Message, Work
from schedbed.deploy.doctor.verdicts import Achieved
from schedbed.tasks.specs import Cost

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

"""Loads that test whether nodes achieve their declared resources, by attempts sent to the agents directly."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

import aiohttp

from schedbed.cluster.machines.machine import Machine, StartedMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.doctor.host_load import ahead_of_others
from schedbed.deploy.doctor.rate_fit import LEAST_READINGS, FittedRate, fit_rate
from schedbed.deploy.doctor.verdicts import attempt_memory
from schedbed.deploy.failures import RunFailed
from schedbed.tasks.specs import AttemptSpec, BlockRange, Cost, TaskKind, task_id

BLOCK_BYTES = 8 * 2**20
ROOM_BYTES = 24 * 2**20  # Memory that an attempt needs for its interpreter.
BEYOND_BYTES = 4 * 2**20  # An attempt may have freed memory that it held at its start.
WARM_S = 1.5
READ_S = 0.03
PATIENCE_S = 30.0  # Longest wait for a heartbeat of each node.
PATIENCE = 12  # Factor on the expected duration of a load.

Message = dict[str, Any]
Ratios = dict[str, FittedRate]
"""Achieved rate divided by declared rate, by node name."""


@dataclass
class LoadedNode:
    """A running node, with the agent's control connection, which a TaskTracker has during a run.

    `reports` has the agent's reports of ended attempts, `heartbeats` the use that it reported.
    """

    spec: NodeSpec
    machine: Machine
    hello: StartedMachine
    socket: aiohttp.ClientWebSocketResponse
    reports: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    heartbeats: list[Message] = field(default_factory=list)
    cpu_counts: list[tuple[float, float]] = field(default_factory=list)
    """Readings of the kernel's counter of CPU time: (time in s, core-seconds)."""

    async def listen(self) -> None:
        """Read the agent's messages until the connection ends, and store them in `reports` and `heartbeats`."""
        async for message in self.socket:
            said = message.json()
            if said["type"] == "ended":
                self.reports.put_nowait(said)
            elif said["type"] == "beat":
                self.heartbeats.append(said["usage"])

    def count_cpu(self) -> None:
        """Append time and CPU time so far to `cpu_counts`, if the kernel counts it."""
        if (used_s := self.machine.totals().cpu_s) is not None:
            self.cpu_counts.append((time.monotonic(), used_s))

    def cpu_ratio(self) -> FittedRate:
        """Return achieved / declared CPU rate, by `cpu_counts` if there are enough, or heartbeats."""
        if len(self.cpu_counts) >= LEAST_READINGS:
            return fit_rate(self.cpu_counts).times(1 / self.spec.cpu_rate)
        return FittedRate(mean(heartbeat["cpu_util"] for heartbeat in self.heartbeats))

    async def send(self, type_: str, **message: Any) -> None:
        await self.socket.send_json({"type": type_, **message})


Work = tuple[LoadedNode, Cost, LoadedNode | None]
"""An attempt: its node, its cost, and the node whose block it reads."""


class Loads:
    """Puts nodes under load, with one kind of load at a time, for about `seconds` each."""

    def __init__(self, nodes: Sequence[LoadedNode], session: aiohttp.ClientSession, seconds: float) -> None:
        self.nodes = list(nodes)
        self._session = session
        self.seconds = seconds
        self._jobs = 0

    @property
    def names(self) -> list[str]:
        return [node.spec.node for node in self.nodes]

    def next_of(self) -> dict[str, LoadedNode]:
        """Return each node's next one in a ring: all send and receive if each reads from it."""
        return dict(zip(self.names, self.nodes[1:] + self.nodes[:1], strict=True))

    async def prepare(self) -> None:
        """Send each node the addresses of all nodes, and store on each node a block for loads to read."""
        urls = {node.spec.node: node.hello.url for node in self.nodes}
        racks = {node.spec.node: node.spec.rack for node in self.nodes}
        for node in self.nodes:
            await node.send("peers", peers=urls, racks=racks)
            url = f"{node.hello.url}/blocks/b_{node.spec.node}?unpaced=1"
            async with self._session.put(url, data=io.BytesIO(os.urandom(BLOCK_BYTES))) as response:
                response.raise_for_status()

    async def core(self, nodes: Sequence[LoadedNode]) -> Ratios:
        """Run one attempt on each node. Return each node's CPU rate divided by the declared speed of a core."""
        made = await self.run([(node, Cost(cpu_s=self.seconds), None) for node in nodes])
        return {
            node.spec.node: FittedRate(report["counters"]["cpu_s"] / _span_s([report]) / node.spec.core_speed)
            for node, report in zip(nodes, made, strict=True)
        }

    async def cpu(self, nodes: Sequence[LoadedNode]) -> Ratios:
        """Return achieved / declared CPU rates, with two attempts per core.

        The kernel counts if possible, otherwise the agent.
        """
        work = [(node, Cost(cpu_s=1e6), None) for node in nodes for _ in range(2 * node.spec.cores)]
        launched = await self.launch(work)
        await asyncio.sleep(WARM_S)
        for node in nodes:
            node.heartbeats.clear()
            node.cpu_counts.clear()
        await asyncio.to_thread(self._count_cpu, nodes)
        async with asyncio.timeout(PATIENCE_S):
            while not all(node.heartbeats for node in nodes):
                await asyncio.sleep(READ_S)
        found = {node.spec.node: node.cpu_ratio() for node in nodes}
        for node, spec in launched:
            await node.send("kill", attempt=spec.attempt, reason="measured")
        await self.reports(launched)
        return found

    async def disk(self, nodes: Sequence[LoadedNode]) -> Ratios:
        """Return achieved / declared disk rates: one attempt reads a block, another writes a map output."""
        work = []
        for node in nodes:
            half = int(node.spec.disk_bps * self.seconds / 2)
            work += [(node, Cost(read_bytes=half), node), (node, Cost(write_bytes=half), node)]
        made = await self.run(work)
        found = {}
        for node, pair in zip(nodes, zip(made[::2], made[1::2], strict=True), strict=True):
            moved = sum(r["counters"]["read_local_bytes"] + r["counters"]["spill_bytes"] for r in pair)
            together_bps = node.spec.disk_bps / (1.0 if node.spec.shared_disk else 1.0 + node.spec.seek)
            found[node.spec.node] = FittedRate(moved / _span_s(pair) / together_bps)
        return found

    async def network(self, nodes: Sequence[LoadedNode]) -> Ratios:
        """Return achieved / possible network rates, with an attempt per core: a single one may lack CPU.

        Each node reads from the next, at its full rate or at that node's if that is lower.
        """
        sources = self.next_of()
        work, rates = [], {}
        for node in nodes:
            source = sources[node.spec.node]
            rate = rates[node.spec.node] = min(node.spec.network_bps, source.spec.network_bps)
            cost = Cost(read_bytes=int(rate * self.seconds / node.spec.cores))
            work += [(node, cost, source)] * node.spec.cores
        made = iter(await self.run(work))
        found = {}
        for node in nodes:
            own = [next(made) for _ in range(node.spec.cores)]
            moved = sum(report["counters"]["read_remote_bytes"] for report in own)
            found[node.spec.node] = FittedRate(moved / _span_s(own) / rates[node.spec.node])
        return found

    async def memory(self, nodes: Sequence[LoadedNode]) -> Ratios:
        """Return 1 for each node that enforces its memory limit.

        Of two attempts, the one slightly below the limit must succeed (otherwise below 1), the one above must
        be killed (otherwise above 1).
        """
        launched = []
        for node in nodes:
            limit = attempt_memory(node.spec)
            near, beyond = (limit - ROOM_BYTES) >> 20, (limit + BEYOND_BYTES) >> 20
            launched += await self.launch(
                [(node, Cost(cpu_s=0.5), None), (node, Cost(), None)], (near, beyond)
            )
        made = await self.reports(launched)
        found = {}
        for node, (kept, dead) in zip(nodes, zip(made[::2], made[1::2], strict=True), strict=True):
            room = ROOM_BYTES / attempt_memory(node.spec)
            too_little, too_much = kept["state"] != "succeeded", "over its memory limit" not in dead["reason"]
            found[node.spec.node] = FittedRate(1.0 - room * too_little + room * too_much)
        return found

    def _count_cpu(self, nodes: Sequence[LoadedNode]) -> None:
        """Record the CPU time of `nodes` every READ_S seconds, for about the duration of a load."""
        with ahead_of_others():
            end_s, rounds = time.monotonic() + self.seconds, 0
            while time.monotonic() < end_s or rounds < LEAST_READINGS:
                for node in nodes:
                    node.count_cpu()
                time.sleep(READ_S)
                rounds += 1

    # ------------------------------------------------------------- attempts

    async def run(self, work: Sequence[Work]) -> list[Message]:
        made = await self.reports(await self.launch(work))
        for report in made:
            if report["state"] != "succeeded":
                raise RunFailed(f"{report['attempt']} {report['state']}: {report['reason']}")
        return made

    async def launch(
        self, work: Sequence[Work], hold_mib: Sequence[int] = ()
    ) -> list[tuple[LoadedNode, AttemptSpec]]:
        """Launch an attempt for each (node, cost, node of its block). `hold_mib` has MiB of memory to occupy."""
        self._jobs += 1
        job = f"job_{self._jobs:04d}"
        launched = []
        for number, (node, cost, source) in enumerate(work):
            spec = probe(node.spec, job, number, cost, source.spec.node if source else None)
            if hold_mib:
                spec = replace(spec, params={"hold_mib": hold_mib[number]})
            launched.append((node, spec))
            await node.send("launch", spec=spec.to_json())
        return launched

    async def reports(self, launched: Sequence[tuple[LoadedNode, AttemptSpec]]) -> list[Message]:
        """Wait for all attempts, delete their files, and return the agents' reports in order."""
        reports: dict[str, Message] = {}
        async with asyncio.timeout(PATIENCE * self.seconds + 60):
            for node, _ in launched:
                report = await node.reports.get()
                reports[report["attempt"]] = report
        for node, spec in launched:
            await node.send("forget_job", job=spec.job)
        return [reports[spec.attempt] for _, spec in launched]


def _span_s(reports: Sequence[Message]) -> float:
    """Return the seconds from the first start to the last end of the attempts that the agents' reports describe."""
    return max(report["end_s"] for report in reports) - min(report["start_s"] for report in reports)


def probe(node: NodeSpec, job: str, number: int, cost: Cost, source: str | None) -> AttemptSpec:
    """Return a test attempt, a synthetic map that reads the block on `source`, or nothing."""
    task = task_id(job, TaskKind.MAP, number)
    made = AttemptSpec(
        attempt=f"{task}_0",
        task=task,
        job=job,
        kind=TaskKind.MAP,
        index=number,
        app="synthetic",
        params={},
        seed=1,
        maps=1,
        reduces=1,
        memory_bytes=attempt_memory(node),
        cost=cost,
    )
    if source is None:
        return made
    block = BlockRange(block=f"b_{source}", offset=0, length=BLOCK_BYTES, nodes=(source,))
    whole = {"length": BLOCK_BYTES, "file_length": BLOCK_BYTES}
    return replace(made, file=f"/in/{source}", blocks=(block,), **whole)


@contextlib.asynccontextmanager
async def connected(
    machines: Sequence[Machine], specs: Sequence[NodeSpec], token: str, seconds: float
) -> AsyncIterator[Loads]:
    """Start machines, and yield loads on their nodes. They are stopped at the end. Raises MachineFailed."""
    listening: list[asyncio.Task[None]] = []
    try:
        hellos = await asyncio.gather(*(machine.start() for machine in machines))
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
            nodes = []
            for spec, machine, hello in zip(specs, machines, hellos, strict=True):
                socket = await session.ws_connect(f"{hello.url}/control", max_msg_size=0)
                nodes.append(LoadedNode(spec, machine, hello, socket))
                listening.append(asyncio.create_task(nodes[-1].listen()))
            loads = Loads(nodes, session, seconds)
            await loads.prepare()
            yield loads
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*(machine.stop() for machine in machines))
        await asyncio.gather(*(machine.dispose() for machine in machines))

"""Real agents driven by a few lines that play JobTracker and NameNode: enough to run a job's attempts live."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import aiohttp

from schedbed.cluster.machines.process import ProcessMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import AttemptSpec, BlockRange, TaskKind

TOKEN = "a-token-for-tests"
PLAIN_NODE = NodeSpec(
    node="n1", rack="a", cores=2, core_speed=1.0, memory_bytes=4 * 2**30, disk_bps=1e9, network_bps=1e9,
    map_slots=2, reduce_slots=2,
)  # fmt: skip


class MiniCluster:
    """`async with MiniCluster(...)`: agents up. `files` maps a path to its blocks."""

    def __init__(self, root: Path, count: int = 1, limits: str = "off", **node: Any) -> None:
        nodes = [replace(PLAIN_NODE, node=f"n{index + 1}", **node) for index in range(count)]
        self.epoch_s = time.time()
        self.machines = [
            ProcessMachine(
                each,
                root / each.node,
                token=TOKEN,
                epoch_s=self.epoch_s,
                heartbeat_s=0.5,
                limits=limits,
                run_id="mini",
            )
            for each in nodes
        ]
        self.names = [each.node for each in nodes]
        self.roots = {each.node: root / each.node for each in nodes}
        self.files: dict[str, list[BlockRange]] = {}
        self.urls: dict[str, str] = {}
        self.pids: list[int] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._numbers = itertools.count(1)
        self._sockets: dict[str, aiohttp.ClientWebSocketResponse] = {}
        self._ended: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def __aenter__(self) -> MiniCluster:
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            for name, machine in zip(self.names, self.machines, strict=True):
                hello = await machine.start()
                self.urls[name] = hello.url
                self.pids.append(hello.pid)
                self._sockets[name] = await self._session.ws_connect(f"{hello.url}/control", max_msg_size=0)
        except BaseException:
            await self.__aexit__()
            raise
        self._listening = [asyncio.create_task(self._listen(name)) for name in self.names]
        for socket in self._sockets.values():
            racks = dict.fromkeys(self.names, "a")
            await socket.send_json({"type": "peers", "peers": self.urls, "racks": racks})
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in getattr(self, "_listening", []):
            task.cancel()
        await self._session.close()
        for machine in self.machines:
            await machine.stop()

    async def put(self, path: str, blocks: Sequence[bytes], nodes: Sequence[str]) -> None:
        """Store a file; each block goes to all of `nodes`."""
        offset, ranges = 0, []
        for data in blocks:
            block = f"blk_{next(self._numbers)}"
            for node in nodes:
                url = f"{self.urls[node]}/blocks/{block}?unpaced=1"
                async with self._session.put(url, data=data, headers={"X-Node": node}) as answer:
                    answer.raise_for_status()
            ranges.append(BlockRange(block=block, offset=offset, length=len(data), nodes=tuple(nodes)))
            offset += len(data)
        self.files[path] = ranges

    def read(self, path: str) -> bytes:
        """A file, straight from the disk of the first node of each block."""
        return b"".join((self.roots[b.nodes[0]] / "blocks" / b.block).read_bytes() for b in self.files[path])

    def other_replica(self, block: BlockRange) -> BlockRange:
        """The block as its last node has it."""
        return replace(block, nodes=block.nodes[::-1])

    async def run(self, spec: AttemptSpec, node: str) -> dict[str, Any]:
        """Launch an attempt and wait for its report."""
        self._ended[spec.attempt] = asyncio.get_running_loop().create_future()
        await self._sockets[node].send_json({"type": "launch", "spec": spec.to_json()})
        return await self._ended[spec.attempt]

    async def job(
        self, app: str, reduces: int, maps_at_once: int = 2, **changes: Any
    ) -> list[dict[str, Any]]:
        """Run a job over /in, a map a block, maps and then reduces spread over the nodes; all reports."""
        blocks = self.files["/in"]
        size = sum(block.length for block in blocks)
        common = {
            "app": app, "maps": len(blocks), "reduces": reduces, "file": "/in", "file_length": size,
            "block_bytes": 64 * 2**20, **changes,
        }  # fmt: skip
        specs = [
            attempt_spec(
                TaskKind.MAP,
                index,
                offset=b.offset,
                length=b.length,
                blocks=_around(blocks, index),
                **common,
            )
            for index, b in enumerate(blocks)
        ]
        gate = asyncio.Semaphore(maps_at_once)
        reports = await asyncio.gather(*(self._map(spec, gate) for spec in specs))
        for socket in self._sockets.values():
            await socket.send_json({"type": "outputs", "job": "job_0001", "outputs": [], "all_done": True})
        reduce_specs = [
            attempt_spec(TaskKind.REDUCE, index, output=f"/out/{index}", **common) for index in range(reduces)
        ]
        runs = (self.run(spec, self.names[spec.index % len(self.names)]) for spec in reduce_specs)
        return [*reports, *await asyncio.gather(*runs)]

    async def _map(self, spec: AttemptSpec, gate: asyncio.Semaphore) -> dict[str, Any]:
        node = self.names[spec.index % len(self.names)]
        async with gate:
            report = await self.run(spec, node)
        if report["state"] != "succeeded":
            return report
        output = {"index": spec.index, "attempt": spec.attempt, "node": node, "lost": False}
        for socket in self._sockets.values():
            await socket.send_json(
                {"type": "outputs", "job": spec.job, "outputs": [output], "all_done": False}
            )
        return report

    async def _listen(self, name: str) -> None:
        socket = self._sockets[name]
        async for message in socket:
            said = json.loads(message.data)
            if said["type"] == "ended":
                self._ended[said["attempt"]].set_result(said)
            elif said["type"] == "call":
                self.calls.append((said["method"], said["args"]))
                result = getattr(self, f"_{said['method']}")(name, said["args"])
                await socket.send_json({"type": "answer", "id": said["id"], "result": result})

    def _allocate(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        others = [other for other in self.names if other != name]
        return {"block": f"blk_{next(self._numbers)}", "nodes": [name, *others][: args["replication"]]}

    def _complete(self, _name: str, args: dict[str, Any]) -> dict[str, Any]:
        offset, ranges = 0, []
        for raw in args["blocks"]:
            ranges.append(BlockRange(offset=offset, **{**raw, "nodes": tuple(raw["nodes"])}))
            offset += raw["length"]
        self.files[args["path"]] = ranges
        return {}

    def _locate(self, _name: str, args: dict[str, Any]) -> list[dict[str, Any]]:
        end = args["offset"] + args["length"]
        return [
            asdict(b)
            for b in self.files[args["path"]]
            if b.offset < end and args["offset"] < b.offset + b.length
        ]

    def _report_bad(self, _name: str, _args: dict[str, Any]) -> dict[str, Any]:
        return {}


def _around(blocks: list[BlockRange], index: int) -> tuple[BlockRange, ...]:
    return tuple(blocks[max(0, index - 1) : index + 2])


def attempt_spec(kind: TaskKind, index: int, **changes: Any) -> AttemptSpec:
    """An attempt of job_0001."""
    task = f"job_0001_{kind[0]}_{index:06d}"
    plain = {"attempt": f"{task}_0", "task": task, "job": "job_0001", "params": {}, "seed": 7, "maps": 1}
    return AttemptSpec(kind=kind, index=index, **{"memory_bytes": 2**30, **plain, **changes})

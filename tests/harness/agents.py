"""Real agents for tests, stopped at the end.

A `Rig` gives fake attempts to agents, as a TaskTracker does. A `MiniCluster` runs jobs of real attempts, with
a few lines in place of the JobTracker and the NameNode.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from schedbed.cluster.agent.config import RUNNER as REAL_RUNNER
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.machines.machine import StartedMachine
from schedbed.cluster.machines.process import ProcessMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.specs import AttemptSpec, BlockRange, TaskKind
from tests.harness.memory_node import a_spec

TOKEN = "secret"
PATIENCE_S = 60.0  # Timeout for events that take milliseconds on an idle host.
RUNNER = "tests.harness.fake_attempt:run_attempt"
ROOT = str(Path(__file__).parents[2])
# Agents and warm processes do not import from the working folder, so the fake runner must be on PYTHONPATH.
if ROOT not in (search := os.environ.get("PYTHONPATH", "")).split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, search]))
Message = dict[str, Any]


def node_spec(name: str = "n1", **changes: Any) -> NodeSpec:
    """Return a fast node; `changes` replace fields."""
    plain: dict[str, Any] = {
        "node": name,
        "rack": "r1",
        "cores": 2,
        "core_speed": 0.5,
        "memory_bytes": 2**30,
        "disk_bps": 1e9,
        "network_bps": 1e9,
        "map_slots": 2,
        "reduce_slots": 1,
    }
    return NodeSpec(**plain | changes)


def attempt_spec(attempt: str = "job_0001_m_000000_0", do: str = "nothing", **params: Any) -> AttemptSpec:
    """Return an attempt of the fake runtime, which carries out the action `do`."""
    task = attempt.rpartition("_")[0]
    return AttemptSpec(
        attempt=attempt,
        task=task,
        job="_".join(task.split("_")[:2]),
        kind=TaskKind.MAP,
        index=0,
        app="fake",
        params={"do": do, **params},
        seed=1,
        maps=1,
        reduces=0,
        memory_bytes=params.get("memory_bytes", 64 * 2**20),
    )


@dataclass
class Talk:
    """A running agent, the control connection to it, and all messages received from it."""

    machine: ProcessMachine
    hello: StartedMachine
    session: aiohttp.ClientSession
    socket: aiohttp.ClientWebSocketResponse
    first: Message
    heard: list[Message] = field(default_factory=list)

    async def send(self, type_: str, **message: Any) -> None:
        await self.socket.send_json({"type": type_, **message})

    async def launch(self, spec: AttemptSpec) -> None:
        await self.send("launch", spec=spec.to_json())

    async def hear(self, type_: str, timeout_s: float = PATIENCE_S, **having: Any) -> Message:
        """Return the next message of a type with the given fields.

        All received messages are kept in `heard`.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self.socket.receive_json()
                self.heard.append(message)
                if message["type"] == type_ and having.items() <= message.items():
                    return message

    async def run(self, spec: AttemptSpec) -> Message:
        """Launch an attempt and return its report."""
        await self.launch(spec)
        return await self.hear("ended", attempt=spec.attempt)

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        async with self.session.get(self.hello.url + path, headers=headers) as response:
            return response.status, await response.read()

    async def put(self, path: str, data: Any, **headers: str) -> tuple[int, Any]:
        if isinstance(data, bytes):
            data = io.BytesIO(data)  # aiohttp warns about large bytes objects.
        async with self.session.put(self.hello.url + path, data=data, headers=headers) as response:
            json = response.content_type == "application/json"
            return response.status, await (response.json() if json else response.text())


class Rig:
    """Starts agents in subfolders of one folder; `close` stops them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_id = f"test-{uuid.uuid4().hex[:8]}"
        self._open = contextlib.AsyncExitStack()

    def machine(
        self, spec: NodeSpec | None = None, limits: str = "software", **changes: Any
    ) -> ProcessMachine:
        spec = spec or node_spec()
        plain: dict[str, Any] = {
            "node": spec,
            "root": self.root / spec.node,
            "token": TOKEN,
            "epoch_s": time.time(),
            "heartbeat_s": 0.2,
            "limits": limits,
            "run_id": self.run_id,
            "runner": RUNNER,
        }
        return ProcessMachine(AgentConfig(**plain | changes))

    async def start(self, spec: NodeSpec | None = None, limits: str = "software", **changes: Any) -> Talk:
        return await self.connect(self.machine(spec, limits, **changes), changes.get("tls"))

    async def connect(self, machine: ProcessMachine, tls: Tls | None = None) -> Talk:
        self._open.push_async_callback(machine.stop)
        hello = await machine.start()
        session = await self._open.enter_async_context(agent_session(TOKEN, tls))
        # A frozen or killed agent does not answer a close.
        soon = aiohttp.ClientWSTimeout(ws_close=0.2)  # pyright: ignore[reportCallIssue]
        socket = await session.ws_connect(f"{hello.url}/control", max_msg_size=0, timeout=soon)
        talk = Talk(machine, hello, session, socket, await socket.receive_json())
        self._open.push_async_callback(lambda: talk.socket.close())
        return talk

    async def introduce(self, *talks: Talk) -> None:
        """Tell each agent the addresses of all agents, and wait until each agent knows them."""
        urls = {talk.machine.node.node: talk.hello.url for talk in talks}
        racks = {talk.machine.node.node: talk.machine.node.rack for talk in talks}
        for talk in talks:
            await talk.send("peers", peers=urls, racks=racks)
            await talk.send("report_blocks")
            await talk.hear("blocks")

    async def close(self) -> None:
        await self._open.aclose()


def alive(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(*pids: int, timeout_s: float = PATIENCE_S) -> bool:
    """Return whether all of the processes end within the timeout."""
    give_up = time.monotonic() + timeout_s
    while any(map(alive, pids)) and time.monotonic() < give_up:
        await asyncio.sleep(0.01)
    return not any(map(alive, pids))


def below(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


Story = Callable[[Rig], Awaitable[None]]


class MiniCluster:
    """A cluster of real agents, an async context manager. `files` is a dictionary from path to blocks."""

    def __init__(
        self, root: Path, count: int = 1, limits: str = "off", tls: Tls | None = None, **node: Any
    ) -> None:
        plain: dict[str, Any] = {"rack": "a", "core_speed": 1.0, "memory_bytes": 4 * 2**30, "reduce_slots": 2}
        self.nodes = [node_spec(f"n{index + 1}", **(plain | node)) for index in range(count)]
        self.names = [each.node for each in self.nodes]
        self.roots = {name: root / name for name in self.names}
        self.files: dict[str, list[BlockRange]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.talks: dict[str, Talk] = {}
        self._limits, self._tls = limits, tls
        self._rig = Rig(root)
        self._numbers = itertools.count(1)
        self._ended: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._listening: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> MiniCluster:
        try:
            for node in self.nodes:
                how: dict[str, Any] = {"runner": REAL_RUNNER, "heartbeat_s": 0.5, "tls": self._tls}
                talk = await self._rig.start(node, self._limits, **how)
                self.talks[node.node] = talk
            await self._rig.introduce(*self.talks.values())
        except BaseException:
            await self.__aexit__()
            raise
        self._listening = [asyncio.create_task(self._listen(name)) for name in self.names]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._listening:
            task.cancel()
        await self._rig.close()

    async def put(self, path: str, blocks: Sequence[bytes], nodes: Sequence[str]) -> None:
        """Store a file of the given blocks; each block is stored on all of `nodes`."""
        offset, ranges = 0, []
        for data in blocks:
            block = f"blk_{next(self._numbers)}"
            for node in nodes:
                to = f"/blocks/{block}?unpaced=1"
                status, said = await self.talks[node].put(to, data, **{"X-Node": node})
                assert status == 200, said
            ranges.append(BlockRange(block=block, offset=offset, length=len(data), nodes=tuple(nodes)))
            offset += len(data)
        self.files[path] = ranges

    def read(self, path: str) -> bytes:
        """Return a file's content, read from the disk of the first node of each block."""
        return b"".join((self.roots[b.nodes[0]] / "blocks" / b.block).read_bytes() for b in self.files[path])

    def other_replica(self, block: BlockRange) -> BlockRange:
        """Return the block with its nodes in reverse order, so that another replica is read first."""
        return replace(block, nodes=block.nodes[::-1])

    async def run(self, spec: AttemptSpec, node: str) -> dict[str, Any]:
        """Launch an attempt on a node and return its report."""
        self._ended[spec.attempt] = asyncio.get_running_loop().create_future()
        await self.talks[node].launch(spec)
        return await self._ended[spec.attempt]

    async def job(
        self, app: str, reduces: int, maps_at_once: int = 2, **changes: Any
    ) -> list[dict[str, Any]]:
        """Run a job over the file /in with one map per block, spread over the nodes; return all reports."""
        blocks = self.files["/in"]
        size = sum(block.length for block in blocks)
        common = {
            "app": app, "maps": len(blocks), "reduces": reduces, "file": "/in", "file_length": size,
            "block_bytes": 64 * 2**20, "memory_bytes": 2**30, **changes,
        }  # fmt: skip
        specs = [
            a_spec(
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
        for talk in self.talks.values():
            await talk.send("outputs", job="job_0001", outputs=[], all_done=True)
        reduce_specs = [
            a_spec(TaskKind.REDUCE, index, output=f"/out/{index}", **common) for index in range(reduces)
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
        for talk in self.talks.values():
            await talk.send("outputs", job=spec.job, outputs=[output], all_done=False)
        return report

    async def _listen(self, name: str) -> None:
        socket = self.talks[name].socket
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

"""A rig for live agents: started for real, spoken to as a TaskTracker does, and gone when the test ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from schedbed.cluster.machines.machine import Hello
from schedbed.cluster.machines.process import ProcessMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import AttemptSpec, TaskKind

TOKEN = "secret"
PATIENCE_S = 60.0  # until something happens that takes milliseconds on an idle host
RUNNER = "tests.harness.fake_attempt:run_attempt"
Message = dict[str, Any]


def node_spec(name: str = "n1", **changes: Any) -> NodeSpec:
    """A node that is fast unless told otherwise."""
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
    """An attempt of the fake runtime."""
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
    """A running agent, the control connection to it, and all that it has said."""

    machine: ProcessMachine
    hello: Hello
    session: aiohttp.ClientSession
    socket: aiohttp.ClientWebSocketResponse
    first: Message
    heard: list[Message] = field(default_factory=list)

    async def send(self, type_: str, **message: Any) -> None:
        await self.socket.send_json({"type": type_, **message})

    async def launch(self, spec: AttemptSpec) -> None:
        await self.send("launch", spec=spec.to_json())

    async def hear(self, type_: str, timeout_s: float = PATIENCE_S, **having: Any) -> Message:
        """The next message of that type with these fields; the others are kept in `heard`."""
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self.socket.receive_json()
                self.heard.append(message)
                if message["type"] == type_ and having.items() <= message.items():
                    return message

    async def run(self, spec: AttemptSpec) -> Message:
        """Launches and waits for the report."""
        await self.launch(spec)
        return await self.hear("ended", attempt=spec.attempt)

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        async with self.session.get(self.hello.url + path, headers=headers) as response:
            return response.status, await response.read()

    async def put(self, path: str, data: Any, **headers: str) -> tuple[int, Any]:
        async with self.session.put(self.hello.url + path, data=data, headers=headers) as response:
            json = response.content_type == "application/json"
            return response.status, await (response.json() if json else response.text())


class Rig:
    """Starts agents below one folder; `close` stops them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_id = f"test-{uuid.uuid4().hex[:8]}"
        self._open = contextlib.AsyncExitStack()

    def machine(
        self, spec: NodeSpec | None = None, limits: str = "software", **changes: Any
    ) -> ProcessMachine:
        spec = spec or node_spec()
        plain: dict[str, Any] = {
            "token": TOKEN,
            "epoch_s": time.time(),
            "heartbeat_s": 0.2,
            "limits": limits,
            "run_id": self.run_id,
            "runner": RUNNER,
        }
        return ProcessMachine(spec, self.root / spec.node, **plain | changes)

    async def start(self, spec: NodeSpec | None = None, limits: str = "software", **changes: Any) -> Talk:
        return await self.connect(self.machine(spec, limits, **changes))

    async def connect(self, machine: ProcessMachine) -> Talk:
        self._open.push_async_callback(machine.stop)
        hello = await machine.start()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        session = await self._open.enter_async_context(aiohttp.ClientSession(headers=headers))
        socket = await session.ws_connect(f"{hello.url}/control", max_msg_size=0)
        return Talk(machine, hello, session, socket, await socket.receive_json())

    async def introduce(self, *talks: Talk) -> None:
        """Tells each where all are; on return they know."""
        urls = {talk.machine.node.node: talk.hello.url for talk in talks}
        racks = {talk.machine.node.node: talk.machine.node.rack for talk in talks}
        for talk in talks:
            await talk.send("peers", peers=urls, racks=racks)
            await talk.send("report_blocks")
            await talk.hear("blocks")

    async def close(self) -> None:
        await self._open.aclose()


Story = Callable[[Rig], Awaitable[None]]


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(*pids: int, timeout_s: float = PATIENCE_S) -> bool:
    """Whether all of these processes end within that time."""
    give_up = time.monotonic() + timeout_s
    while any(map(alive, pids)) and time.monotonic() < give_up:
        await asyncio.sleep(0.01)
    return not any(map(alive, pids))


def below(pid: int) -> list[int]:
    """All processes under this one."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]

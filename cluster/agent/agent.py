"""The agent of a node: a process that starts attempts and stores blocks. It ends when its standard input closes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from schedbed.cluster.agent.attempts import Attempts, UsageMeter
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.datanode import DataNode
from schedbed.cluster.agent.folder import AgentDir, BadRequest, RootInUse
from schedbed.cluster.agent.http_server import (
    Control,
    LocalEndpoints,
    OutputBoard,
    ShuffleServer,
    make_app,
    make_gate,
)
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.link_budgets import Peers
from schedbed.cluster.agent.node_groups import PROCESSES
from schedbed.cluster.agent.replica_keeper import Keeper
from schedbed.cluster.agent.transfer import Sender
from schedbed.cluster.agent.warm import fork
from schedbed.cluster.agent.warm.zygote_link import ZygoteDied, ZygoteLink
from schedbed.cluster.clock import RunClock
from schedbed.cluster.priority import raise_priority
from schedbed.cluster.wire.port_range import listen_at
from schedbed.cluster.wire.tls import scheme_of
from schedbed.tasks.context import NodeContext
from schedbed.tasks.errors import BadInput
from schedbed.tasks.pacing import socket_bytes

log = logging.getLogger(__name__)

Message = dict[str, Any]
EXIT_BAD_INPUT = 2
EXIT_FAILED = 1
CLOSE_S = 0.5


class Agent:
    """The agent of one incarnation of a node. `lock` is the descriptor that locks its folder `where`."""

    def __init__(self, config: AgentConfig, where: AgentDir, lock: int, link: ZygoteLink) -> None:
        self._config = config
        self._where = where
        self._link = link
        self._clock = RunClock(config.epoch_s, config.stretch)
        self._limits = NodeLimits(config, where)
        self._peers = Peers(config.node.node)
        self._sender = Sender(config.token, self._peers, self._limits, config.node, config.tls)
        self._control = Control(self._hello, self._hear)
        self._data = DataNode(where, self._limits, self._peers, self._sender, self._control.say)
        self._keeper = Keeper(where, self._limits, self._sender, self._data)
        self._board = OutputBoard()
        self._shuffle = ShuffleServer(where, self._peers, self._data)
        self._local = LocalEndpoints(self._control, self._board, self._peers)
        self._usage = UsageMeter(config.node, self._limits.budget)
        self._attempts = Attempts(
            where,
            self._limits,
            self._clock,
            start_zygote=lambda: ZygoteLink.start(lock),
            setup=self._setup,
            publish=lambda report: self._control.say({"type": "ended", **report}),
            on_fatal=self._fail,
        )
        self._url = ""
        self._over = asyncio.Event()
        self._failed = False
        self._launches = 0  # Launches that the TaskTracker has sent.

    async def run(self) -> int:
        """Run the parts of the agent until standard input closes, SIGTERM or a `shutdown` message arrives.

        Return the exit code of the process.
        """
        runner = await self._listen()
        heartbeats = None
        try:
            await self._attempts.open(self._link)
            print(json.dumps(self._greeting()), flush=True)
            heartbeats = asyncio.create_task(self._send_heartbeats())
            self._watch()
            await self._over.wait()
        finally:
            if heartbeats is not None:
                heartbeats.cancel()
            await self._attempts.close()
            await self._control.close()
            await self._keeper.close()
            await self._sender.close()
            with contextlib.suppress(TimeoutError):  # Requests still in progress are aborted.
                await asyncio.wait_for(runner.cleanup(), CLOSE_S)
            self._limits.remove()
        return EXIT_FAILED if self._failed else 0

    async def _listen(self) -> web.AppRunner:
        gate = make_gate(self._config.token)
        app = make_app(gate, self._control, self._data, self._keeper, self._shuffle, self._local)
        runner = await gate.serve(app, self._socket(), tls=self._config.tls, read_bufsize=2**18)
        self._url = "{}://{}:{}".format(scheme_of(self._config.tls), *runner.addresses[0][:2])
        self._peers.meet(
            {self._config.node.node: self._url}, {self._config.node.node: self._config.node.rack}
        )
        return runner

    def _socket(self) -> socket.socket:
        """Return the HTTP server's socket. Connections inherit its buffer sizes, which depend on the rate limit."""
        listening = listen_at(self._config.listen, self._config.port, self._config.ports)
        paced = self._limits.budget is not None and not self._config.shaped
        size = socket_bytes(self._config.node.network_bps) if paced else 0
        if size:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                listening.setsockopt(socket.SOL_SOCKET, option, size)
        return listening

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        loop.add_reader(sys.stdin.fileno(), self._on_input)

    def _on_input(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._over.set()

    def _fail(self, reason: str) -> None:
        log.error("%s", reason)
        self._failed = True
        self._over.set()

    async def _send_heartbeats(self) -> None:
        """Report to the TaskTracker every `heartbeat_s` seconds. A late report does not delay the later ones."""
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + self._config.heartbeat_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())
            self._attempts.end_silent(time.monotonic() / self._config.stretch)
            if self._control.ready:
                usage = self._usage.read(time.monotonic(), self._attempts.cpu_s(), self._attempts.pids())
                launch_cpu_s = self._attempts.launch_cpu_s()
                heartbeat = {
                    "launches": self._launches,
                    "running": self._attempts.statuses(),
                    "usage": asdict(usage),
                    "launch_cpu_s": launch_cpu_s,
                    "disk_full": self._where.disk_is_full,
                }
                self._control.say({"type": "beat", **heartbeat})

    # ------------------------------------------------------------- messages sent

    def _greeting(self) -> Message:
        return {"url": self._config.url or self._url, "pid": os.getpid(), "limits": self._limits.report}

    def _hello(self) -> Message:
        return {"type": "hello", **self._greeting(), "blocks": self._data.report()}

    def _setup(self) -> Message:
        config = self._config
        context = NodeContext(
            node=config.node.node,
            rack=config.node.rack,
            agent_url=self._url,
            token=config.token,
            authority="" if config.tls is None else config.tls.authority,
            root=config.root,
            peers=self._peers.urls,
            racks=self._peers.racks,
            epoch_s=self._clock.epoch_s,
            core_speed=config.node.core_speed,
            stretch=config.stretch,
            budget=self._where.budget if self._limits.budget is not None else None,
            shared_disk=self._limits.shared_disk,
            pace_cpu=self._limits.pace_cpu,
        )
        raw = asdict(context) | {"root": str(context.root)}
        for name in ("budget", "shared_disk"):
            raw[name] = None if raw[name] is None else str(raw[name])
        return {
            "context": raw,
            "runner": config.runner,
            "limit_memory": self._limits.limit_memory,
            "processes": PROCESSES,
        }

    # ------------------------------------------------------------ messages received

    def _hear(self, message: Message) -> None:
        handlers: dict[str, Callable[[Message], None]] = {
            "launch": self._launch,
            "kill": lambda said: self._attempts.kill(said["attempt"], said["reason"]),
            "outputs": lambda said: self._board.add(said["job"], said["outputs"], said["all_done"]),
            "forget_job": lambda said: self._forget_job(said["job"]),
            "answer": self._local.answer,
            "replicate": lambda said: self._data.replicate(said["block"], said["to"]),
            "delete_block": lambda said: self._data.delete(said["block"]),
            "report_blocks": lambda _: self._control.say({"type": "blocks", "blocks": self._data.report()}),
            "peers": self._meet,
            "rates": self._set_rates,
            "partition": self._cut_off,
            "network": self._disturb,
            "disk": lambda said: self._where.fill_disk(said["full"]),
            "kill_attempt": lambda said: self._attempts.crash(said["attempt"]),
            "corrupt_block": lambda said: self._data.corrupt(said["block"]),
            "shutdown": lambda _: self._over.set(),
        }
        handler = handlers.get(message.get("type", ""))
        if handler is None:
            raise BadRequest(f"unknown type {message.get('type')!r}")
        handler(message)

    def _launch(self, message: Message) -> None:
        self._launches += 1
        self._attempts.launch(message["spec"])

    def _forget_job(self, job: str) -> None:
        self._board.forget(job)
        self._shuffle.forget_job(job)
        self._where.forget_job(job)

    def _meet(self, message: Message) -> None:
        own = self._config.node.node
        self._peers.meet({**message["peers"], own: self._url}, message["racks"])
        if message.get("epoch_s") and message["epoch_s"] != self._clock.epoch_s:
            self._clock.begin(float(message["epoch_s"]))
        self._attempts.meet(self._peers.urls, self._peers.racks, self._clock.epoch_s)

    def _set_rates(self, message: Message) -> None:
        factors = {name: float(message.get(name, 1.0)) for name in ("cpu", "disk", "network")}
        if not all(factor > 0 for factor in factors.values()):
            raise BadRequest(f"rates: {factors}, expected factors above 0")
        self._limits.set_factors(**factors)

    def _disturb(self, message: Message) -> None:
        delays_s = {node: self._clock.real_s(by_s) for node, by_s in message["delays"].items()}
        self._peers.disturb(delays_s, message["losses"])

    def _cut_off(self, message: Message) -> None:
        self._peers.blocked = frozenset(str(node) for node in message["blocked"])


async def _live(config: AgentConfig, where: AgentDir, lock: int, link: ZygoteLink) -> int:
    return await Agent(config, where, lock, link).run()


def main(first_zygote: Callable[[int], ZygoteLink] = ZygoteLink.start) -> int:
    """Run the agent. `first_zygote(lock)` starts the first zygote while this process has only one thread."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    raise_priority()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that holds this standard input handles Ctrl-C.
    fork.prctl(fork.PR_SET_DUMPABLE, 0)  # Attempts of the same user must not trace this process.
    try:
        config = AgentConfig.from_line(_read_line())
        fork.name_process(f"agent {config.node.node}")
        where = AgentDir(config.root, config.quick)
        lock = where.lock()
        where.prepare()
        link = first_zygote(lock)  # Started first: the zygote imports modules while this process continues.
        if config.tls is not None:
            config = config.with_secret(_read_line())  # Read late, to keep the key out of the fork's memory.
        return asyncio.run(_live(config, where, lock, link))
    except (BadInput, RootInUse, ZygoteDied, ValueError, TypeError, KeyError, OSError) as error:
        log.exception("cannot start")
        print(json.dumps({"error": str(error)}), flush=True)
        return EXIT_BAD_INPUT if isinstance(error, BadInput) else EXIT_FAILED


def _read_line() -> str:
    """Return the next line of standard input without buffering anything after it."""
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
        return raw.readline().decode()


if __name__ == "__main__":
    sys.exit(main())

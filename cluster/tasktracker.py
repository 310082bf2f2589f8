"""The TaskTracker of live runs: it starts the machine, sends heartbeats and carries out the replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

import aiohttp

from schedbed.cluster.clock import RunClock
from schedbed.cluster.conditions import UNTOUCHED
from schedbed.cluster.faulty_link import FaultyLink
from schedbed.cluster.host_clock import HostScale
from schedbed.cluster.machines.machine import KernelTotals, Machine
from schedbed.cluster.masters import Answer, MasterGone, Masters, NameNodeDoor
from schedbed.cluster.messages import (
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    ForgetJob,
    KillAttempt,
    Launch,
    MapOutputs,
    Reregister,
    Usage,
)
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.tasks.errors import DISK_FULL, BadInput
from schedbed.tasks.specs import Counters, NodeId

log = logging.getLogger(__name__)

NAMENODE_HEARTBEAT_S = 2.0
RETRY_S = 0.1


class TaskTracker:
    """The TaskTracker of one node in a live run. It starts a new machine for each incarnation.

    While `epoch_s`, the run's start, is 0, the node only stores blocks. `scale` converts the host's times and
    CPU seconds to the run's. `open_session` returns an HTTP client for agents. If the agent hangs, no
    heartbeats are sent. Unless `out_of_band`, ends are reported with the next regular heartbeat. Reduces learn of
    map outputs `news_after_s` emulated seconds after the reply.
    """

    def __init__(
        self,
        node: NodeSpec,
        make_machine: Callable[[float], Machine],
        masters: Masters,
        *,
        epoch_s: float,
        open_session: Callable[[], aiohttp.ClientSession],
        seed: int = 0,
        stretch: float = 1.0,
        scale: HostScale | None = None,
        out_of_band: bool = True,
        news_after_s: float = 0.0,
    ) -> None:
        self.node = node
        self._scale = scale or HostScale()
        self._make_machine = make_machine
        self._masters = masters
        self._clock = RunClock(epoch_s, stretch)
        self._open_session = open_session
        self._machine: Machine | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._session: aiohttp.ClientSession | None = None
        self._tracker = Tracker(node.node, 0)
        self._due = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._life: asyncio.Task[None] | None = None
        self._out_of_band, self._news_after_s = out_of_band, news_after_s
        self._stopping = False
        self._joined = -1  # the incarnation registered with the JobTracker
        self._down = False  # killed by a fault, not to be restarted
        self._frozen = False  # by a fault, which a new machine does not end
        self._link = FaultyLink(node.node, seed, self._clock.real_s)
        self._orders: dict[str, dict[str, Any]] = {}  # arguments of the agent's fault orders, by kind
        self._launches = 0  # Launches sent to the agent.
        # By attempt, the number of a launch that the agent has not heard of.
        self._on_the_way: dict[str, int] = {}
        self._peers: dict[str, Any] = {}
        self._real_node = node.on_host(self._scale.speed).stretched(stretch)
        self._usage = NodeUsage(self._real_node)
        self.limits: dict[str, str] = {}
        self.url = ""

    # ------------------------------------------------------------------ life

    async def start(self) -> dict[str, Any]:
        """Start the machine. Return the node's name and URL, and how resources are limited and measured."""
        await self._boot()
        self._life = asyncio.create_task(self._live())
        assert self._machine is not None
        counted = counted_by(self._machine.totals())
        return {"node": self.node.node, "url": self.url, "limits": self.limits, "counted": counted}

    async def stop(self) -> None:
        """Stop the TaskTracker and its machine, and remove what the machine created on the host."""
        await self._cease()
        if self._machine is not None:
            await self._machine.stop()
            await self._machine.dispose()

    async def die(self) -> None:
        """End as if killed: cut connections and kill the node's processes, but keep the node's files."""
        await self._cease()
        if self._machine is not None:
            await self._machine.kill()

    async def _cease(self) -> None:
        self._stopping = True
        if self._life is not None:
            self._life.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._life
        await self._disconnect()

    async def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float = 0.0) -> None:
        """Tell the agent of all nodes. The first call with the run's start `epoch_s` joins the JobTracker."""
        joins = bool(epoch_s) and not self._clock.epoch_s
        if joins:
            self._clock.begin(epoch_s)
        self._peers = {"peers": peers, "racks": racks}
        await self._introduce()
        if joins:
            await self._join()

    async def _introduce(self) -> None:
        await self._send({"type": "peers", "epoch_s": self._clock.epoch_s, **self._peers})

    async def fault(self, kind: str, **arguments: Any) -> str:
        """Apply a fault or an order of `Conditions.orders`. Return the attempt that was killed, or "".

        Faults are kill, restart, freeze, thaw, kill_attempt (target, luck), corrupt_block and delete_block
        (block).
        """
        if kind == "kill" and self._machine is not None:
            self._down = True
            await self._machine.kill()
        elif kind == "restart":
            self._down = False
        elif kind in ("freeze", "thaw"):
            self._frozen = kind == "freeze"
            await self._freeze_or_thaw()
        elif kind == "messages":
            self._link.set(**arguments)
        elif kind == "kill_attempt":
            return await self._kill_attempt(**arguments)
        else:
            if kind in UNTOUCHED:
                self._orders[kind] = arguments
            await self._order(kind, arguments)
        return ""

    async def _freeze_or_thaw(self) -> None:
        if self._machine is not None:
            await (self._machine.freeze() if self._frozen else self._machine.thaw())

    async def _order(self, kind: str, arguments: dict[str, Any]) -> None:
        """Send the agent a change of state. Rates apply to the machine as well."""
        await self._send({"type": kind, **arguments})
        if kind == "rates" and self._machine is not None:
            await self._machine.set_rates(**arguments)

    async def _kill_attempt(self, target: str, luck: float) -> str:
        """Kill a running attempt that matches `target`, chosen by `luck` (0 to 1). Return its name or ""."""
        running = [
            name
            for name in self._tracker.running
            if not target or name == target or name.startswith(f"{target}_")
        ]
        if not running:
            return ""
        attempt = running[int(luck * len(running))]
        await self._send({"type": "kill_attempt", "attempt": attempt})
        return attempt

    async def _boot(self) -> None:
        self._machine = self._make_machine(self._clock.epoch_s)
        hello = await self._machine.start()
        self.url, self.limits = hello.url, dict(hello.limits)
        self._usage = NodeUsage(self._real_node)
        self._tracker.begin_life(self._next_incarnation())
        self._launches, self._on_the_way = 0, {}
        self._session = self._open_session()
        self._socket = await self._session.ws_connect(f"{self.url}/control", max_msg_size=0)
        first = await self._socket.receive_json()
        if self._peers:
            self._peers["peers"][self.node.node] = self.url
            await self._introduce()
        for kind, arguments in self._orders.items():
            await self._order(kind, arguments)
        await self._register(first["blocks"])
        if self._frozen:
            await self._freeze_or_thaw()

    async def _register(self, blocks: list[dict[str, Any]]) -> None:
        """Report the node's blocks to the NameNode. If the run has begun, also join the JobTracker."""
        node = self.node
        await self._until_heard(
            lambda: self._masters.name_node.register(node.node, node.rack, self.url, blocks)
        )
        if self._clock.epoch_s:
            await self._join()

    async def _join(self) -> None:
        incarnation = self._tracker.incarnation
        await self._until_heard(lambda: self._masters.job_tracker.register(self.node, incarnation))
        self._joined = incarnation
        self._due.set()

    def _next_incarnation(self) -> int:
        """Return a number above all of this and earlier processes."""
        return max(self._tracker.incarnation + 1, int(RunClock(0.0).now_s() * 1000))

    async def _live(self) -> None:
        """Process the agent's messages until the TaskTracker stops. Restart the machine whenever it ends."""
        while not self._stopping:
            workers = [
                asyncio.create_task(work) for work in (self._read(), self._heartbeats(), self._tend_blocks())
            ]
            await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in workers:
                worker.cancel()
            for outcome in await asyncio.gather(*workers, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("%s: %r", self.node.node, outcome)
            await self._disconnect()
            if self._machine is not None:
                await self._machine.stop()
            await self._reboot()

    async def _reboot(self) -> None:
        """Start the machine again when no fault keeps the node down. Retry if the start fails."""
        while not self._stopping:
            while self._down:
                await asyncio.sleep(RETRY_S)
            try:
                await self._boot()
                return
            except Exception:
                log.exception("%s: the machine did not start again", self.node.node)
                await self._disconnect()
                await asyncio.sleep(1.0)

    async def _disconnect(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._session is not None:
            await self._session.close()
        self._session = self._socket = None

    # ------------------------------------------------------------- the agent

    async def _send(self, message: dict[str, Any]) -> None:
        if self._socket is not None and not self._socket.closed:
            with contextlib.suppress(ConnectionError):
                await self._socket.send_str(json.dumps(message))

    async def _read(self) -> None:
        """Process the agent's messages until the connection to the agent ends."""
        assert self._socket is not None
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                return
            self._hear(json.loads(message.data))

    def _hear(self, raw: dict[str, Any]) -> None:
        match raw.pop("type"):
            case "beat":
                self._on_heartbeat(raw)
            case "ended":
                self._on_ended(raw)
            case "fetch_failed":
                self._on_fetch_failed(raw)
            case "block":
                self._on_block(raw)
            case "blocks":
                self._spawn(self._register(raw["blocks"]))
            case "call":
                self._spawn(self._forward(raw))
            case unknown:
                raise ValueError(f"the agent said {unknown!r}")

    def _on_heartbeat(self, raw: dict[str, Any]) -> None:
        when = self._clock.epoch_s, self._clock.stretch
        running = [self._scale.status(AttemptStatus(**status), *when) for status in raw["running"]]
        # On a busy host, reports queue up that the agent made before it heard of a launch.
        heard = raw["launches"]
        self._on_the_way = {name: number for name, number in self._on_the_way.items() if number > heard}
        self._tracker.on_running(running, self._on_the_way)
        self._tracker.disk_full = raw.get("disk_full", False)
        self._tracker.usage = self._measured(Usage(**raw["usage"]), raw.get("launch_cpu_s", 0.0))
        self._due.set()

    def _measured(self, said: Usage, launch_cpu_s: float) -> Usage:
        """Return usage by kernel counters without `launch_cpu_s`, or else as the agent said."""
        if self._machine is None:
            return said
        return self._usage.read(time.monotonic(), self._machine.totals(), launch_cpu_s, said)

    def _on_ended(self, raw: dict[str, Any]) -> None:
        counters = Counters(**raw.pop("counters"))
        partitions = tuple(raw.pop("partitions", ()))
        report = AttemptReport(**raw, counters=counters, partitions=partitions)
        if report.reason == DISK_FULL:  # The agent's next report comes later than the next heartbeat.
            self._tracker.disk_full = True
        self._tracker.on_ended(self._scale.report(report, self._clock.epoch_s, self._clock.stretch))
        self._report_soon()

    def _on_fetch_failed(self, raw: dict[str, Any]) -> None:
        self._tracker.on_fetch_failed(FetchFailure(**raw))
        self._report_soon()

    def _report_soon(self) -> None:
        """Let a heartbeat report the news at once, unless only regular heartbeats report."""
        if self._out_of_band:
            self._due.set()

    def _on_block(self, raw: dict[str, Any]) -> None:
        arguments = (self.node.node, raw["event"], raw["block"], raw["length"])
        self._spawn(self._until_heard(lambda: self._masters.name_node.block_event(*arguments)))

    async def _forward(self, raw: dict[str, Any]) -> None:
        """Make an attempt's call to the NameNode, and send the result or error to the agent."""
        names = self._masters.name_node
        try:
            result = await self._until_heard(
                lambda: answer_attempt(names, self.node.node, raw["method"], raw["args"])
            )
            await self._send({"type": "answer", "id": raw["id"], "result": result})
        except Exception as error:
            await self._send({"type": "answer", "id": raw["id"], "error": str(error)})

    # ----------------------------------------------------------- the masters

    async def _heartbeats(self) -> None:
        """Send a heartbeat after each agent report and each attempt's end. Resend lost heartbeats."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._joined != self._tracker.incarnation:
                continue
            heartbeat = self._tracker.heartbeat()
            answer: Answer = await self._until_heard(
                lambda heartbeat=heartbeat: self._masters.job_tracker.heartbeat(heartbeat), may_be_lost=True
            )
            await self._act(answer)
            if self._tracker.has_news:
                self._report_soon()

    async def _act(self, answer: Answer) -> None:
        for action in self._tracker.on_reply(answer.reply):
            match action:
                case Launch():
                    self._launches += 1
                    self._on_the_way[action.attempt] = self._launches
                    await self._send({"type": "launch", "spec": answer.specs[action.attempt]})
                case KillAttempt():
                    await self._send({"type": "kill", "attempt": action.attempt, "reason": action.reason})
                case MapOutputs() if self._news_after_s:
                    self._spawn(self._tell_later(action))
                case MapOutputs():
                    await self._tell(action)
                case ForgetJob():
                    await self._send({"type": "forget_job", "job": action.job})
                case Reregister():
                    await self._start_over()

    async def _tell(self, news: MapOutputs) -> None:
        outputs = [asdict(output) for output in news.outputs]
        message = {"type": "outputs", "job": news.job, "outputs": outputs, "all_done": news.all_done}
        await self._send(message)

    async def _tell_later(self, news: MapOutputs) -> None:
        """Tell the node of map outputs after the framework's poll, unless the job was forgotten meanwhile."""
        await self._clock.sleep(self._news_after_s)
        if news.job in self._tracker.jobs:
            await self._tell(news)

    async def _start_over(self) -> None:
        """Stop all attempts. Begin a new incarnation, as the JobTracker does not know the current one."""
        for attempt in tuple(self._tracker.running):
            await self._send({"type": "kill", "attempt": attempt, "reason": "its node was given up"})
        for job in tuple(self._tracker.jobs):
            await self._send({"type": "forget_job", "job": job})
        self._tracker.begin_life(self._next_incarnation())
        await self._send({"type": "report_blocks"})

    async def _tend_blocks(self) -> None:
        """Request the NameNode's commands every NAMENODE_HEARTBEAT_S seconds and send them to the agent."""
        while True:
            await asyncio.sleep(NAMENODE_HEARTBEAT_S)
            commands = await self._until_heard(lambda: self._masters.name_node.heartbeat(self.node.node))
            for command in commands:
                await self._send(command)

    async def _until_heard(self, call: Callable[[], Awaitable[Any]], *, may_be_lost: bool = False) -> Any:
        """Repeat `call` until a master answers. Return the answer. `may_be_lost` permits random losses."""
        while True:
            try:
                return await self._link.carry(call, may_be_lost=may_be_lost)
            except MasterGone:
                await asyncio.sleep(RETRY_S)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# A node's resource usage as fractions of its declared rates, from kernel counters or its agent's report.

AGENT, KERNEL = "agent", "kernel"
"""The source of a usage figure. The agent does not see I/O that attempts do without charging its budgets."""

GAP_MIN_S = (
    0.02  # Closer readings are too noisy, since a group's quota is handed out in periods of tens of ms.
)


def counted_by(totals: KernelTotals) -> dict[str, str]:
    """Return {resource: KERNEL, if it counts the resource, or AGENT}."""
    seen = {
        "cpu": totals.cpu_s,
        "memory": totals.memory_bytes,
        "disk": totals.disk_write_bytes,
        "network": totals.sent_bytes,
    }
    return {resource: AGENT if value is None else KERNEL for resource, value in seen.items()}


class NodeUsage:
    """Computes a node's usage from differences of the kernel's counters, in one incarnation."""

    def __init__(self, node: NodeSpec) -> None:
        self._node = node
        self._last: tuple[float, dict[str, float]] | None = None
        self._usage = Usage()

    def read(self, now_s: float, totals: KernelTotals, launch_cpu_s: float, said: Usage) -> Usage:
        """Return the usage since the last call, in fractions of declared rates.

        `launch_cpu_s` is CPU time of starts and ends of attempts so far, which is not limited and subtracted.
        `said` counts where the kernel does not. A call within GAP_MIN_S repeats the last fractions.
        """
        running = _running_totals(totals, launch_cpu_s)
        last_s, before = self._last or (now_s, running)
        elapsed_s = now_s - last_s
        if self._last is None or elapsed_s >= GAP_MIN_S:
            self._last = now_s, running
            self._usage = self._shares(running, before, max(elapsed_s, GAP_MIN_S), said)
        memory = said.memory_bytes if totals.memory_bytes is None else totals.memory_bytes
        return Usage(
            cpu_util=self._usage.cpu_util,
            disk_util=self._usage.disk_util,
            net_util=self._usage.net_util,
            memory_bytes=memory,
        )

    def _shares(
        self, running: dict[str, float], before: dict[str, float], elapsed_s: float, said: Usage
    ) -> Usage:
        rate = {
            name: max(0.0, value - before.get(name, value)) / elapsed_s for name, value in running.items()
        }
        node = self._node
        return Usage(
            cpu_util=_share(rate["cpu"], node.cpu_rate) if "cpu" in rate else said.cpu_util,
            disk_util=_share(rate["disk"], node.disk_bps) if "disk" in rate else said.disk_util,
            net_util=(
                _share(max(rate["sent"], rate["received"]), node.network_bps)
                if "sent" in rate
                else said.net_util
            ),
        )


def _running_totals(totals: KernelTotals, launch_cpu_s: float) -> dict[str, float]:
    """Return the kernel's counters of cpu, disk, sent and received that exist, without `launch_cpu_s`."""
    found: dict[str, float] = {}
    if totals.cpu_s is not None:
        found["cpu"] = totals.cpu_s - launch_cpu_s
    if totals.disk_write_bytes is not None:
        found["disk"] = totals.disk_write_bytes + (totals.disk_read_bytes or 0)
    if totals.sent_bytes is not None:
        found["sent"] = totals.sent_bytes
        found["received"] = totals.received_bytes or 0
    return found


def _share(rate: float, declared: float) -> float:
    return rate / declared if declared else 0.0


# Calls that task attempts may make to the NameNode.
#
# `ATTEMPT_CALLS` maps each method name, received over HTTP, to a function that makes the typed NameNode
# call.

Args = Mapping[str, Any]
AttemptCall = Callable[[NameNodeDoor, NodeId, Args], Awaitable[Any]]

ATTEMPT_CALLS: Mapping[str, AttemptCall] = {
    "allocate": lambda names, node, args: names.allocate(
        args["path"], node, args["replication"], args["length_hint"], args["exclude"]
    ),
    "complete": lambda names, _, args: names.complete(args["path"], args["blocks"]),
    "keeps": lambda names, node, args: names.keeps(node, args["block"], args["budget"]),
    "locate": lambda names, _, args: names.locate(args["path"], args["offset"], args["length"]),
    "report_bad": lambda names, _, args: names.report_bad(args["block"], args["node"]),
}
"""Calls that need the attempt's node use the node that forwards the call; an attempt cannot name another."""


async def answer_attempt(names: NameNodeDoor, node: NodeId, method: str, args: Args) -> Any:
    """Call the NameNode for an attempt on `node`, and return the result or {}. Raises BadInput."""
    call = ATTEMPT_CALLS.get(method)
    if call is None:
        raise BadInput(f"{method!r}: attempts may call {', '.join(ATTEMPT_CALLS)}")
    try:
        answer = call(names, node, args)
    except KeyError as error:
        raise BadInput(f"{method}: {error} is missing") from None
    result = await answer
    return {} if result is None else result

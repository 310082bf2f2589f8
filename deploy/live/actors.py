"""What Ray makes actors of: JobTracker, NameNode and TaskTrackers, each with its service of the current run.

Actors outlive single runs. What run goes on the masters find in a control folder of the driver's host, also when
Ray has restarted them; a TaskTracker, which may be on another host, is told it when it is begun.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from schedbed.cluster.blocks.namenode import NEEDS_REPORTS, TIMED, NameNode
from schedbed.cluster.blocks.webhdfs import PREFIX, WebHdfs
from schedbed.cluster.clock import RunClock
from schedbed.cluster.machines.make import make_machine
from schedbed.cluster.masters import MasterGone, Masters
from schedbed.cluster.run_config import RunConfig, is_held_down
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tasktracker import TaskTracker
from schedbed.scheduler.jobtracker import JobTracker
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.tasks.specs import NodeId

ALONE_MAX = 16  # nodes of a host whose TaskTrackers have a process each
PROCESSES = 4  # for those of more
SETTLE_STEP_S = 0.05
SETTLE_LIMIT_S = 20.0
"""A question to a restarted NameNode waits no longer than this for the nodes' reports."""


class _Actor:
    """What the actors share: a service that ends with its run."""

    def __init__(self) -> None:
        logging.basicConfig(level=logging.WARNING)
        self._service: Any = None

    async def ready(self) -> int:
        """Answers once the actor is up; returns its process id."""
        return os.getpid()

    async def end(self) -> None:
        """Ends the service of the current run."""
        service, self._service = self._service, None
        if service is not None:
            outcome = service.stop()
            if outcome is not None:
                await outcome


class _Master(_Actor):
    """A master, which makes its service on the first call after a (re)start."""

    NAME = ""
    NEEDS_CLOCK = False  # whether it can begin only after the run's clock has

    def __init__(self, control: str) -> None:
        super().__init__()
        self._control = Path(control)

    async def _service_of_run(self) -> Any:
        """The service, begun on the first call after a (re)start. Raises MasterGone while a fault keeps it down."""
        if self._service is None:
            if is_held_down(self._control, self.NAME, time.time()):
                raise MasterGone("a fault keeps it down")
            await self.begin()
        return self._service

    async def _make(self, config: RunConfig) -> Any:
        """The service of a run."""
        raise NotImplementedError(type(self).__name__)

    async def begin(self) -> None:
        """Makes the service of the current run."""
        config = RunConfig.load(self._control)
        if config is None or (self.NEEDS_CLOCK and not config.epoch_s):
            raise MasterGone("no run goes on")  # a call that was late for the run before
        self._service = await self._make(config)


class JobTrackerActor(_Master):
    """The JobTracker; after a restart it goes on from its journal at the first call that comes."""

    NAME = "jobtracker"
    NEEDS_CLOCK = True

    def __init__(self, control: str, masters: Masters) -> None:
        super().__init__(control)
        self._masters = masters

    async def _make(self, config: RunConfig) -> JobTracker:
        return JobTracker(
            config.cluster,
            lambda: with_speculation(
                build_policy(config.given, scale=config.scale, store=config.profiles),
                config.speculation,
                config.scale,
            ),
            self._masters.name_node,
            epoch_s=config.epoch_s,
            seed=config.seed,
            journal=config.work / "jobtracker.sqlite",
        )

    async def call(self, method: str, *args: Any) -> Any:
        """Calls a method of the service."""
        begins = self._service is None
        service = await self._service_of_run()
        if begins and method != "start":
            await service.start()
        return await getattr(service, method)(*args)


class NameNodeService:
    """The NameNode with its clock, which stands at 0 until the run has begun."""

    def __init__(self, config: RunConfig) -> None:
        self._clock = RunClock(config.epoch_s)
        self._names = NameNode(
            config.work / "namenode.sqlite",
            seed=config.seed,
            order=[node.node for node in config.cluster.nodes],
        )

    def call(self, method: str, *args: Any, **named: Any) -> Any:
        """Calls a method of the NameNode at the present time."""
        if method == "begin_clock":
            self._clock = RunClock(*args)
            return None
        if method in TIMED:
            now_s = self._clock.now_s() if self._clock.epoch_s else 0.0
            args = (now_s, *args)
        return getattr(self._names, method)(*args, **named)

    def stop(self) -> None:
        """Closes the journal."""
        self._names.shutdown()


class NameNodeActor(_Master):
    """The NameNode; after a restart its namespace comes from its journal, its replicas from block reports."""

    NAME = "namenode"
    _web: Any = None

    async def _make(self, config: RunConfig) -> NameNodeService:
        return NameNodeService(config)

    async def serve_web(self, port: int) -> str:
        """Serves WebHDFS on the loopback interface until the run's end; returns the URL of its root."""
        config = RunConfig.load(self._control)
        assert config is not None
        web = WebHdfs(self.call, config.token, config.cluster.blocks, config.epoch_s)
        self._web = await web.serve(port)
        return f"http://127.0.0.1:{self._web.addresses[0][1]}{PREFIX}"

    async def end(self) -> None:
        """Ends the service of the current run and its WebHDFS."""
        if self._web is not None:
            await self._web.cleanup()
            self._web = None
        await super().end()

    async def call(self, method: str, *args: Any, **named: Any) -> Any:
        """Calls a method of the service; what needs the nodes' reports waits for them after a restart."""
        service = await self._service_of_run()
        asked = args[1] if method == "call" else method
        waited_s = 0.0
        while asked in NEEDS_REPORTS and waited_s < SETTLE_LIMIT_S and service.call("settling"):
            await asyncio.sleep(SETTLE_STEP_S)
            waited_s += SETTLE_STEP_S
        return service.call(method, *args, **named)


class TaskTrackerActor(_Actor):
    """One node's TaskTracker."""

    def __init__(self, node: NodeSpec, masters: Masters) -> None:
        super().__init__()
        self._node = node.node
        self._masters = masters

    async def begin(self, config: RunConfig) -> dict[str, Any]:
        """Starts the node; returns its name, the agent's URL and how limits are enforced."""
        node = config.cluster.node(self._node)
        tracker = TaskTracker(
            node,
            partial(make_machine, config, node),
            self._masters,
            epoch_s=config.epoch_s,
            token=config.token,
            seed=config.seed,
        )
        hello = await tracker.start()
        self._service = tracker
        return hello

    async def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float = 0.0) -> None:
        """Tells the node where the others are and when the run began."""
        await self._service.introduce(peers, racks, epoch_s)

    async def where(self) -> str | None:
        """Its agent's present URL; None when the node has not been begun by this life of the actor."""
        return self._service.url if self._service is not None else None

    async def fault(self, kind: str, arguments: dict[str, Any]) -> Any:
        """Applies a fault to the node; what `TaskTracker.fault` says of it."""
        if self._service is None:
            raise MasterGone(f"{self._node} is not begun yet")
        return await self._service.fault(kind, **arguments)


class TrackersActor:
    """The TaskTrackers of several nodes in one process: above some number Ray's processes alone would fill the host."""

    def __init__(self, nodes: Sequence[NodeSpec], masters: Masters) -> None:
        self._trackers = {node.node: TaskTrackerActor(node, masters) for node in nodes}

    async def ready(self) -> int:
        """Answers once the actor is up; returns its process id."""
        return os.getpid()

    async def on(self, node: NodeId, method: str, *args: Any) -> Any:
        """Calls a method of that node's TaskTrackerActor."""
        return await getattr(self._trackers[node], method)(*args)


class SharedTracker:
    """The handle of one of several nodes in `actor`, called as if the node had an actor of its own."""

    def __init__(self, actor: Any, node: NodeId) -> None:
        self.actor = actor
        self._node = node

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=partial(self.actor.on.remote, self._node, method))


def shares(nodes: Sequence[NodeSpec]) -> list[Sequence[NodeSpec]]:
    """Which nodes of a host share a process."""
    if len(nodes) <= ALONE_MAX:
        return [[node] for node in nodes]
    return [nodes[first::PROCESSES] for first in range(PROCESSES)]

"""What Ray makes actors of: JobTracker, NameNode and TaskTrackers, each with its service of the current run.

Actors outlive single runs. What run goes on the masters find in a control folder of the driver's host, also when
Ray has restarted them; a TaskTracker, which may be on another host, is told it when it is begun. All start at once,
and a cluster starts as fast as they import this module: what only one of them needs waits for its use.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.served_namenode import ServedNameNode
from schedbed.cluster.clock import RunClock
from schedbed.cluster.doors import Method, make_table
from schedbed.cluster.host_clock import ClockReading, ClockTrack, HostScale, follow_clock, read_clock
from schedbed.cluster.masters import MasterGone, Masters, NameNodeDoor
from schedbed.cluster.priority import go_first
from schedbed.cluster.run_config import RunConfig, is_held_down
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.cluster.wire.server_end import ServerEnd
from schedbed.deploy.live.driver_door import DriverDoor
from schedbed.deploy.security.listeners import Listener, listeners_of
from schedbed.scheduler.guard.refused_acts import refuse_harm
from schedbed.scheduler.jobtracker import JobTracker
from schedbed.scheduler.sizes import make_sizes
from schedbed.tasks.specs import NodeId

if TYPE_CHECKING:
    from schedbed.cluster.tasktracker import TaskTracker

# Ray would have its actors give way to all else, the attempts too. Read when it starts.
os.environ.setdefault("RAY_worker_niceness", "0")

SPARE_THREADS = 8
FOLLOW_S = 0.05
"""Real seconds between two looks at a stretch that may change."""


@dataclass(frozen=True, slots=True)
class _Service:
    """A master's service of one run: the calls that its door allows, and its end."""

    calls: Mapping[str, Method]
    stop: Callable[[], Awaitable[None]]


class _Actor:
    """What the actors share."""

    def __init__(self) -> None:
        logging.basicConfig(level=logging.WARNING)
        go_first()

    async def ready(self) -> int:
        """Answer once the actor is up; return its process id."""
        return os.getpid()

    async def listeners(self) -> list[Listener]:
        """Return what listens in this process and in those that it has started."""
        return listeners_of(os.getpid())


class _MasterActor(_Actor, ABC):
    """A master, which makes its service on the first call after a (re)start."""

    NAME = ""
    DOOR: type[Any]
    NEEDS_CLOCK = False  # whether it can begin only after the run's clock has

    def __init__(self, control: str, place: Endpoint) -> None:
        super().__init__()
        self._control = Path(control)
        self._place = place
        self._listening = asyncio.Lock()
        self._serves_at: Endpoint | None = None
        self._service: _Service | None = None

    async def endpoint(self) -> Endpoint:
        """Return where the master serves its door; it begins to when it is first asked."""
        async with self._listening:
            if self._serves_at is None:
                self._serves_at = await ServerEnd(self.DOOR, self._call).listen(self._place)
            return self._serves_at

    async def _call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Answer a call that has come through the door."""
        return await (await self._service_of_run()).calls[method](**arguments)

    async def _service_of_run(self) -> _Service:
        """Return the service, begun on the first call. Raises MasterGone while a fault keeps the master down."""
        if self._service is None:
            if is_held_down(self._control, self.NAME, time.time()):
                raise MasterGone("a fault keeps it down")
            self._service = await self._make(self._config())
        return self._service

    @abstractmethod
    async def _make(self, config: RunConfig) -> _Service:
        """Make the service of a run."""

    def _config(self) -> RunConfig:
        config = RunConfig.load(self._control)
        if config is None or (self.NEEDS_CLOCK and not config.epoch_s):
            raise MasterGone("no run goes on")  # The call was late, for the run before.
        return config

    async def begin(self) -> None:
        """Make the service of the current run."""
        self._service = await self._make(self._config())

    async def end(self) -> None:
        """End the service of the current run."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop()


class JobTrackerActor(_MasterActor):
    """The JobTracker; after a restart it goes on from its journal at the first call that comes."""

    NAME = "jobtracker"
    DOOR = DriverDoor
    NEEDS_CLOCK = True

    def __init__(self, control: str, place: Endpoint, masters: Masters) -> None:
        super().__init__(control, place)
        self._masters = masters

    async def _make(self, config: RunConfig) -> _Service:
        from schedbed.scheduler.registry.registry import build_policy
        from schedbed.scheduler.registry.speculation import with_speculation

        refuse_harm()
        tracker = JobTracker(
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
            sizes=make_sizes(config.sizes),
            changes=config.changes,
        )
        door: DriverDoor = tracker
        return _Service(make_table(DriverDoor, door), tracker.stop)

    async def _call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Answer a call; the first after a restart finds a JobTracker that goes on with its journal."""
        if self._service is None and method != "start":
            await (await self._service_of_run()).calls["start"]()
        return await super()._call(method, arguments)


class NameNodeActor(_MasterActor):
    """The NameNode; after a restart its namespace comes from its journal, its replicas from block reports."""

    NAME = "namenode"
    DOOR = NameNodeDoor
    _names: NameNodeDoor | None = None
    _web: Any = None

    async def _make(self, config: RunConfig) -> _Service:
        names = NameNode(
            config.work / "namenode.sqlite",
            seed=config.seed,
            order=[node.node for node in config.cluster.nodes],
        )
        served = ServedNameNode(names, config.clock())
        self._names = served
        return _Service(make_table(NameNodeDoor, served), served.stop)

    async def serve_web(self, port: int) -> str:
        """Serve WebHDFS on the loopback interface until the run's end; return the URL of its root."""
        from schedbed.cluster.blocks.webhdfs import PREFIX, WebHdfs

        config = self._config()
        await self._service_of_run()
        assert self._names is not None
        web = WebHdfs(self._names, config.token, config.cluster.blocks, config.clock())
        self._web = await web.serve(port, config.ports)
        return f"http://127.0.0.1:{self._web.addresses[0][1]}{PREFIX}"

    async def end(self) -> None:
        """End the service of the current run and its WebHDFS."""
        if self._web is not None:
            await self._web.cleanup()
            self._web = None
        await super().end()


class TaskTrackerActor(_Actor):
    """The TaskTrackers of a host, each with what it owns; they share this process and its sockets to the masters.

    `far` says that the masters are on another host, with another clock, which is then compared all the time.
    """

    def __init__(self, nodes: Sequence[NodeId], masters: Masters, *, far: bool = False) -> None:
        super().__init__()
        self._masters = masters
        self._far = far
        self._run_id = ""
        self._track = ClockTrack()
        self._following: list[asyncio.Task[None]] = []  # tasks of the present run
        self._trackers: dict[NodeId, TaskTracker | None] = dict.fromkeys(nodes)  # None until begun

    async def ready(self) -> int:
        """As in `_Actor`; makes room for one call of each node that blocks, as the start of a machine does."""
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(SPARE_THREADS + len(self._trackers))
        )
        return await super().ready()

    def _begun(self, node: NodeId) -> TaskTracker:
        tracker = self._trackers[node]
        if tracker is None:
            raise MasterGone(f"{node} is not begun yet")
        return tracker

    async def begin(self, name: NodeId, config: RunConfig) -> dict[str, Any]:
        """Start a node; return its name, the agent's URL and how limits are enforced."""
        from schedbed.cluster.machines.make import make_machine
        from schedbed.cluster.tasktracker import TaskTracker

        node = config.cluster.node(name)
        self._follow(config)
        tracker = TaskTracker(
            node,
            partial(make_machine, config, node),
            self._masters,
            epoch_s=config.epoch_s,
            token=config.token,
            seed=config.seed,
            stretch=config.cluster.stretch,
            changes=config.changes,
            scale=HostScale(self._track, config.host_speed),
        )
        hello = await tracker.start()
        self._trackers[name] = tracker
        return hello

    async def introduce(
        self, node: NodeId, peers: dict[str, str], racks: dict[str, str], epoch_s: float
    ) -> None:
        """Tell a node where the others are and when the run began."""
        await self._begun(node).introduce(peers, racks, epoch_s)

    async def where(self) -> dict[NodeId, str | None]:
        """Return the present URL of each node's agent; None for a node that has not been begun, or not again."""
        return {node: None if tracker is None else tracker.url for node, tracker in self._trackers.items()}

    def _follow(self, config: RunConfig) -> None:
        """From a run's first node on, compare the host's clock with the NameNode's, and follow the run's stretch."""
        if config.run_id == self._run_id:
            return
        self._stop_following()
        self._run_id, self._track = config.run_id, ClockTrack()
        if self._far:
            ask = self._masters.name_node.time_of_day
            read = partial(read_clock, ask, RunClock.host_time_s)
            self._following.append(asyncio.create_task(follow_clock(self._track, read)))
        if config.adaptive:
            self._following.append(asyncio.create_task(self._follow_stretch(config.clock())))

    async def _follow_stretch(self, clock: RunClock) -> None:
        """Tell the nodes of each change of the stretch, without an end."""
        told = clock.kept
        while True:
            await asyncio.sleep(FOLLOW_S)
            if (kept := clock.kept) != told:
                told = kept
                begun = [tracker for tracker in self._trackers.values() if tracker is not None]
                for error in await asyncio.gather(
                    *(each.follow_stretch() for each in begun), return_exceptions=True
                ):
                    if error is not None:
                        logging.getLogger(__name__).warning("stretch: %r", error)

    def _stop_following(self) -> None:
        for task in self._following:
            task.cancel()
        self._following, self._run_id = [], ""

    async def clock_readings(self) -> list[ClockReading]:
        """Return how far the host's clock was ahead of the masters' in the course of the run."""
        return self._track.readings

    async def fault(self, node: NodeId, kind: str, arguments: dict[str, Any]) -> str:
        """Apply a fault to a node; return what `TaskTracker.fault` says the fault has hit."""
        return await self._begun(node).fault(kind, **arguments)

    async def kill(self, node: NodeId) -> None:
        """Have one node's TaskTracker die with all that it knows; the node is then one that has not been begun."""
        tracker = self._begun(node)
        try:
            await tracker.die()
        finally:
            self._trackers[node] = None

    async def end(self, node: NodeId) -> None:
        """End a node's TaskTracker of the current run."""
        tracker, self._trackers[node] = self._trackers[node], None
        if tracker is not None:
            await tracker.stop()
        if not any(self._trackers.values()):
            self._stop_following()


class NodeHandle:
    """A node's TaskTracker in another process. Each method returns a call that goes on (`RayCluster.wait`)."""

    def __init__(self, actor: Any, node: NodeId) -> None:
        self._actor = actor
        self._node = node

    def begin(self, config: RunConfig) -> Any:
        """Start the node: see `TaskTrackerActor.begin`."""
        return self._actor.begin.remote(self._node, config)

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> Any:
        """Tell the node where the others are: see `TaskTrackerActor.introduce`."""
        return self._actor.introduce.remote(self._node, peers, racks, epoch_s)

    def fault(self, kind: str, arguments: dict[str, Any]) -> Any:
        """Apply a fault: see `TaskTrackerActor.fault`."""
        return self._actor.fault.remote(self._node, kind, arguments)

    def kill(self) -> Any:
        """Have the TaskTracker die: see `TaskTrackerActor.kill`."""
        return self._actor.kill.remote(self._node)

    def end(self) -> Any:
        """End the node's TaskTracker of the current run."""
        return self._actor.end.remote(self._node)

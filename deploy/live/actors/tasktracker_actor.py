"""The Ray actor that runs all TaskTrackers of a host, and a handle for calls about one node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from schedbed.cluster.clock import RunClock
from schedbed.cluster.host_clock import ClockReading, ClockTrack, HostScale, follow_clock, read_clock
from schedbed.cluster.machines.make import make_machine
from schedbed.cluster.masters import MasterGone, Masters
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.tasktracker import TaskTracker
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.deploy.live.actors.actor_base import RunActor
from schedbed.tasks.specs import NodeId

SPARE_THREADS = 8


class TaskTrackerActor(RunActor):
    """The actor of all TaskTrackers of one host, in one process with its connections to the masters.

    `far` means that the masters are elsewhere, so the clocks' difference is measured.
    """

    def __init__(self, nodes: Sequence[NodeId], masters: Masters, *, far: bool = False) -> None:
        super().__init__()
        self._masters = masters
        self._far = far
        self._run_id = ""
        self._track = ClockTrack()
        self._following: asyncio.Task[None] | None = None  # It measures the clock difference.
        self._trackers: dict[NodeId, TaskTracker | None] = dict.fromkeys(nodes)  # None before the start.

    async def ready(self) -> int:
        """Implement `RunActor.ready`. Also create a thread pool in which every node can make a blocking call."""
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
        """Start a node's TaskTracker and machine. Return name, URL, and what limits and counts each resource."""
        node = config.cluster.node(name)
        self._follow(config)
        framework = config.framework or {}
        tracker = TaskTracker(
            node,
            partial(make_machine, config, node),
            self._masters,
            epoch_s=config.epoch_s,
            open_session=partial(agent_session, config.token, config.tls),
            seed=config.seed,
            stretch=config.cluster.stretch,
            scale=HostScale(self._track, config.host_speed),
            out_of_band=framework.get("out_of_band", True),
            news_after_s=framework.get("fetch_poll_s", 0.0),
        )
        hello = await tracker.start()
        self._trackers[name] = tracker
        return hello

    async def introduce(
        self, node: NodeId, peers: dict[str, str], racks: dict[str, str], epoch_s: float
    ) -> None:
        """Tell a node the URLs and racks of all, and the run's start."""
        await self._begun(node).introduce(peers, racks, epoch_s)

    async def where(self) -> dict[NodeId, str | None]:
        """Return each node's current URL, None if it is not running."""
        return {node: None if tracker is None else tracker.url for node, tracker in self._trackers.items()}

    def _follow(self, config: RunConfig) -> None:
        """Start measuring the clock difference to the masters' host, unless the run `config` is followed already."""
        if config.run_id == self._run_id:
            return
        self._stop_following()
        self._run_id, self._track = config.run_id, ClockTrack()
        if self._far:
            ask = self._masters.name_node.time_of_day
            read = partial(read_clock, ask, RunClock.host_time_s)
            self._following = asyncio.create_task(follow_clock(self._track, read))

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._following, self._run_id = None, ""

    async def clock_readings(self) -> list[ClockReading]:
        """Return measured differences of this host's clock from the masters', positive if ahead."""
        return self._track.readings

    async def fault(self, node: NodeId, kind: str, arguments: dict[str, Any]) -> str:
        """Apply a fault, and return its target, such as an attempt's id."""
        return await self._begun(node).fault(kind, **arguments)

    async def kill(self, node: NodeId) -> None:
        """Kill the node's TaskTracker and discard its state. Afterwards, `begin` can start the node again."""
        tracker = self._begun(node)
        try:
            await tracker.die()
        finally:
            self._trackers[node] = None

    async def end(self, node: NodeId) -> None:
        """Stop a node's TaskTracker at the end of the run."""
        tracker, self._trackers[node] = self._trackers[node], None
        if tracker is not None:
            await tracker.stop()
        if not any(self._trackers.values()):
            self._stop_following()


class NodeHandle:
    """Calls about one node's TaskTracker, which return at once; `RayCluster.wait` waits for results."""

    def __init__(self, actor: Any, node: NodeId) -> None:
        self._actor = actor
        self._node = node

    def begin(self, config: RunConfig) -> Any:
        return self._actor.begin.remote(self._node, config)

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> Any:
        return self._actor.introduce.remote(self._node, peers, racks, epoch_s)

    def fault(self, kind: str, arguments: dict[str, Any]) -> Any:
        return self._actor.fault.remote(self._node, kind, arguments)

    def kill(self) -> Any:
        return self._actor.kill.remote(self._node)

    def end(self) -> Any:
        return self._actor.end.remote(self._node)

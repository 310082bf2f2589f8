"""The actor of a host's TaskTrackers, and a handle for each of its nodes."""

from __future__ import annotations

import asyncio
import logging
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
FOLLOW_S = 0.05
"""Real seconds between two looks at a stretch that may change."""


class TaskTrackerActor(RunActor):
    """The TaskTrackers of a host, which share this process and its connections to the masters.

    `far`: the masters are on another host, with another clock, which is then measured continuously.
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
        """Implement `RunActor`. Also prepares threads for one blocking call per node, such as the start of a
        machine."""
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
        """Start a node. Return its name, the agent's URL and how limits are enforced."""
        node = config.cluster.node(name)
        self._follow(config)
        tracker = TaskTracker(
            node,
            partial(make_machine, config, node),
            self._masters,
            epoch_s=config.epoch_s,
            open_session=partial(agent_session, config.token, config.tls),
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
        """Tell a node the addresses of the others and the run's start."""
        await self._begun(node).introduce(peers, racks, epoch_s)

    async def where(self) -> dict[NodeId, str | None]:
        """Return the current URL of each node's agent; None for a node that is not running."""
        return {node: None if tracker is None else tracker.url for node, tracker in self._trackers.items()}

    def _follow(self, config: RunConfig) -> None:
        """Start comparing clocks with the NameNode and following the run's stretch, at a run's first node."""
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
        """Report each change of the stretch to the nodes, endlessly."""
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
        """Return the measured lead of the host's clock over the masters' during the run."""
        return self._track.readings

    async def fault(self, node: NodeId, kind: str, arguments: dict[str, Any]) -> str:
        """Apply a fault to a node. Return what was hit."""
        return await self._begun(node).fault(kind, **arguments)

    async def kill(self, node: NodeId) -> None:
        """Kill one node's TaskTracker with its whole state. The node can then be started again."""
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
    """A node's TaskTracker in another process. Each method returns a pending call (`RayCluster.wait`)."""

    def __init__(self, actor: Any, node: NodeId) -> None:
        self._actor = actor
        self._node = node

    def begin(self, config: RunConfig) -> Any:
        """Start the node: see `TaskTrackerActor.begin`."""
        return self._actor.begin.remote(self._node, config)

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> Any:
        """Tell the node the addresses of the others: see `TaskTrackerActor.introduce`."""
        return self._actor.introduce.remote(self._node, peers, racks, epoch_s)

    def fault(self, kind: str, arguments: dict[str, Any]) -> Any:
        """Apply a fault: see `TaskTrackerActor.fault`."""
        return self._actor.fault.remote(self._node, kind, arguments)

    def kill(self) -> Any:
        """Kill the TaskTracker: see `TaskTrackerActor.kill`."""
        return self._actor.kill.remote(self._node)

    def end(self) -> Any:
        """End the node's TaskTracker of the current run."""
        return self._actor.end.remote(self._node)

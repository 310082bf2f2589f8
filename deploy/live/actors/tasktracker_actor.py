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
    """The Ray actor that runs the TaskTrackers of all nodes on one host.

    The TaskTrackers share one process and its connections to the masters. `far` is whether the masters are on
    another host. In that case, the actor measures the difference between the two hosts' clocks during the
    run.
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
        """Implement `RunActor.ready`. Also create a thread pool in which every node can make a blocking
        call.
        """
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
        """Start the TaskTracker and the machine of the node `name` for the run `config`.

        Return the node's name, its agent's URL, how each limit is enforced, and whether the kernel or the
        agent measures the use of each resource.
        """
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
            scale=HostScale(self._track, config.host_speed),
        )
        hello = await tracker.start()
        self._trackers[name] = tracker
        return hello

    async def introduce(
        self, node: NodeId, peers: dict[str, str], racks: dict[str, str], epoch_s: float
    ) -> None:
        """Send information about all nodes to `node`: the URLs of their agents, their racks, and the run's
        start.

        `peers` and `racks` map each node to a URL and a rack. `epoch_s` is the run's start as Unix time.
        """
        await self._begun(node).introduce(peers, racks, epoch_s)

    async def where(self) -> dict[NodeId, str | None]:
        """Return a dictionary from node to the current URL of its agent.

        The URL is None for a node that is not running.
        """
        return {node: None if tracker is None else tracker.url for node, tracker in self._trackers.items()}

    def _follow(self, config: RunConfig) -> None:
        """Start measuring the clock difference to the masters' host, unless the run `config` is followed
        already.
        """
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
        """Return the measured differences, in seconds, of this host's clock from the masters' clock during
        the run.

        A positive difference means that this host's clock is ahead.
        """
        return self._track.readings

    async def fault(self, node: NodeId, kind: str, arguments: dict[str, Any]) -> str:
        """Apply a fault of the given kind to the node, with `arguments` that depend on the kind.

        Return the target of the fault, such as an attempt's id.
        """
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
    """A handle for calls to the actor `actor` about the TaskTracker of one node.

    Each method starts a call of the actor and returns immediately. `RayCluster.wait` waits for the result.
    """

    def __init__(self, actor: Any, node: NodeId) -> None:
        self._actor = actor
        self._node = node

    def begin(self, config: RunConfig) -> Any:
        """Call `TaskTrackerActor.begin` to start the node for the run `config`."""
        return self._actor.begin.remote(self._node, config)

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> Any:
        """Call `TaskTrackerActor.introduce` to send the addresses and racks of all nodes to this node."""
        return self._actor.introduce.remote(self._node, peers, racks, epoch_s)

    def fault(self, kind: str, arguments: dict[str, Any]) -> Any:
        """Call `TaskTrackerActor.fault` to apply a fault to the node."""
        return self._actor.fault.remote(self._node, kind, arguments)

    def kill(self) -> Any:
        """Call `TaskTrackerActor.kill` to kill the node's TaskTracker."""
        return self._actor.kill.remote(self._node)

    def end(self) -> Any:
        """Call `TaskTrackerActor.end` to stop the node's TaskTracker at the end of the run."""
        return self._actor.end.remote(self._node)

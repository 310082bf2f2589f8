"""Delay scheduling: a job without local data on the offered node waits for a node with local data.

The source is Zaharia et al., EuroSys 2010, Algorithm 3, with two waiting times: before rack-local maps and
before other maps. It is also Algorithm 1 of the paper xu2015 if the split share P is 0. As in Hadoop 1.0.3
(FairScheduler.updateLocalityWaitTimes), a skipped job has waited until the next heartbeat of any node that asks
for tasks. A node without a free map or reduce slot does not ask (TaskTracker.transmitHeartBeat). A node that has
no map slots at all never ends a wait: nobody waits for it, and with many of them a wait would take minutes.
"""

from __future__ import annotations

from schedbed.scheduler.locality.spark_wait import SparkWait
from schedbed.scheduler.policy import Admission, Locality, Order, Proposal
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import choice, duration
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind


class Patience:
    """The waiting time of a job so far, in seconds, and the locality level that the job has reached.

    At level 0 only node-local maps may start, at level 1 also rack-local maps, at level 2 any map.
    """

    __slots__ = ("level", "skipped_heartbeat", "skipped_s", "wait_s")

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.level = 0
        self.skipped_s = 0.0
        self.skipped_heartbeat = -1


class Delay:
    """A locality axis in which a job waits for a node with local data before it starts maps elsewhere.

    `node_wait_s` (T1): seconds to wait before a rack-local map may start. `rack_wait_s` (T2): further seconds
    before any map may start. `typed`: nodes have slots.
    """

    elidable = True  # Heartbeats that report no change do not affect its answers.

    def __init__(self, *, node_wait_s: float = 5.0, rack_wait_s: float = 5.0) -> None:
        self.node_wait_s = node_wait_s
        self.rack_wait_s = rack_wait_s
        self.typed = True
        self._of_wait = f" of {node_wait_s:.1f} s"
        self._near_why = f"waits for a local node, up to {node_wait_s:.1f} s"
        self._rack_why = f"waits for a rack-local node, up to {rack_wait_s:.1f} s"
        self._patience: dict[str, Patience] = {}
        self._skipped: list[Patience] = []  # Jobs skipped since the last heartbeat that asked for tasks.

    def awaits_beat(self) -> bool:
        """Implement `Hooks.awaits_beat`: return whether a job was skipped, whose waiting time is to grow."""
        return bool(self._skipped)

    def beat(self, view: View, node: NodeView) -> None:
        """Implement `Hooks.beat`: add the time since the skip to waits (lines 2 and 3 of Algorithm 3)."""
        if self._skipped and (not self.typed or self._asks(node)):
            for patience in self._skipped:
                patience.wait_s += view.now_s - patience.skipped_s
            self._skipped = []

    @staticmethod
    def _asks(node: NodeView) -> bool:
        return node.spec.map_slots > 0 and any(node.free_slots(kind) > 0 for kind in TaskKind)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        self._patience.pop(job.job, None)

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: a local map, another after a sufficient wait, or skip the job."""
        patience = self._patience_of(job)
        if patience.skipped_heartbeat == view.beats:
            return None
        task = job.local_map(node.node)
        if task is not None:
            patience.wait_s, patience.level = 0.0, 0
            return Proposal(task, "node-local")
        task = job.free_map()
        if task is not None:
            return Proposal(task, "no preferred node")
        level = self._allowed(patience)
        if level >= 1 and (task := job.rack_map(node.rack)) is not None:
            return self._accept(task, patience, 1, "rack-local")
        if level == 2 and (task := job.any_map()) is not None:
            return self._accept(task, patience, 2, "off-rack")
        return self._wait(view, node, job, patience)

    def _allowed(self, patience: Patience) -> int:
        """Return the level that the job has reached by the level of its last map and the wait since then."""
        wait_s, reached_s = patience.wait_s, (self.node_wait_s + self.rack_wait_s, self.rack_wait_s, 0.0)
        if wait_s >= reached_s[patience.level]:
            return 2
        return 1 if wait_s >= self.node_wait_s else patience.level

    def avoided(self, view: View, job: JobView) -> None:
        """Implement `Locality.avoided`: the job is skipped, as by Hadoop's FairScheduler, so its wait grows."""
        patience = self._patience_of(job)
        if patience.skipped_heartbeat != view.beats:
            self._skip(view, patience)

    def _patience_of(self, job: JobView) -> Patience:
        return self._patience.setdefault(job.job, Patience())

    @staticmethod
    def _accept(task: TaskView, patience: Patience, level: int, place: str) -> Proposal:
        reason = f"{place} after {patience.wait_s:.1f} s" if patience.wait_s else f"{place}, waited before"
        patience.wait_s, patience.level = 0.0, level
        return Proposal(task, reason)

    def _wait(self, view: View, node: NodeView, job: JobView, patience: Patience) -> Proposal | str:
        """Skip a job that must still wait. `SplitLocality` starts a part of a map here."""
        return self._skip(view, patience)

    def _skip(self, view: View, patience: Patience) -> str:
        patience.skipped_s = view.now_s
        patience.skipped_heartbeat = view.beats
        self._skipped.append(patience)
        if patience.level == 0 and patience.wait_s < self.node_wait_s:
            return self._near_why
        return self._rack_why


def count_slots(order: Order, locality: Locality, admission: Admission) -> None:
    """Implement `Axis.check`: tell a `Delay` whether nodes have slots, without which each heartbeat asks."""
    if isinstance(locality, Delay):
        locality.typed = admission.limits.slots


def make_delay(
    *, node_wait_s: float = 5.0, rack_wait_s: float = 5.0, clock: str = "heartbeats", reset: str = "full"
) -> Delay | SparkWait:
    """Return the axis whose waits are measured by `clock`: `heartbeats` as in HFS, or `wall` as in Spark."""
    if clock == "wall":
        return SparkWait(node_wait_s=node_wait_s, rack_wait_s=rack_wait_s, on_launch=reset == "launch")
    return Delay(node_wait_s=node_wait_s, rack_wait_s=rack_wait_s)


AXIS = Axis(
    axis="locality",
    name="delay",
    factory=make_delay,
    summary="a job waits a short time for a node that holds its data",
    paper="Zaharia et al. 2010, Algorithm 3; xu2015 Algorithm 1 with P = 0",
    parameters=(
        duration(
            "node_wait",
            "5s",
            "time that a job waits for a node with its data, before it may start maps on other nodes "
            "in the data's rack",
        ),
        duration(
            "rack_wait",
            "5s",
            "further time that a job waits, after `node_wait`, before it may start maps on any node",
        ),
        choice(
            "clock",
            ("heartbeats", "wall"),
            "heartbeats: a job waits from a heartbeat that skipped it to the next one that asks for tasks, as in "
            "Hadoop 1; wall: all time counts, as in Spark",
        ),
        choice(
            "reset",
            ("full", "launch"),
            "what restarts the wait under `clock: wall`: an offer that left no slot unused (Spark since 3.1), or "
            "every launch (before)",
        ),
    ),
    check=count_slots,
    rank=10,
)
POLICY = Named(
    name="delay",
    summary="Like fair, but a job waits a short time for a node that holds its data.",
    paper="Zaharia et al. 2010; xu2015 3.2, Algorithm 1 with P = 0",
    order="fair",
    locality="delay",
    rank=20,
)

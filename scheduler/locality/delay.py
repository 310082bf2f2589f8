"""Delay scheduling: a job without local data on the offered node waits for a node with local data.

The source is Zaharia et al., EuroSys 2010, Algorithm 3, with two waiting times: before rack-local maps and
before other maps. It is also Algorithm 1 of the paper xu2015 if the split share P is 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedbed.scheduler.policy import AVOIDED, Proposal
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import duration
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


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
    before any map may start.
    """

    elidable = True  # Heartbeats that report no change do not affect its answers.
    compiled_as = "delay"

    def __init__(self, *, node_wait_s: float = 5.0, rack_wait_s: float = 5.0) -> None:
        self.node_wait_s = node_wait_s
        self.rack_wait_s = rack_wait_s
        self._of_wait = f" of {node_wait_s:.1f} s"
        self._near_why = f"waits for a local node, up to {node_wait_s:.1f} s"
        self._rack_why = f"waits for a rack-local node, up to {rack_wait_s:.1f} s"
        self._patience: dict[str, Patience] = {}
        self._skipped: list[Patience] = []  # Jobs skipped in the last heartbeat.
        if type(self) is Delay:
            self.scan = self._scan

    def awaits_beat(self) -> bool:
        """Implement `Hooks.awaits_beat`: return whether a job was skipped at the last heartbeat.

        The next heartbeat must then add the elapsed time to the job's waiting time.
        """
        return bool(self._skipped)

    def beat(self, view: View, node: NodeView) -> None:
        """Implement `Hooks.beat`: increase the waiting times of the jobs that were skipped.

        The increase is the time since the heartbeat at which the job was skipped (lines 2 and 3 of Algorithm
        3 in the paper).
        """
        if self._skipped:
            for patience in self._skipped:
                patience.wait_s += view.now_s - patience.skipped_s
            self._skipped = []

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job's waiting time."""
        self._patience.pop(job.job, None)

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose a node-local map, or after a sufficient wait another map.

        Otherwise the job is skipped, and its waiting time grows at the next heartbeat.
        """
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
        if patience.level or patience.wait_s >= self.node_wait_s:
            return self._further(node, job, patience) or self._wait(view, node, job, patience)
        return self._wait(view, node, job, patience)

    def avoided(self, view: View, job: JobView) -> None:
        """Implement `Locality.avoided`: the job is skipped, as by Hadoop's FairScheduler, so its wait grows."""
        patience = self._patience_of(job)
        if patience.skipped_heartbeat != view.beats:
            self._skip(view, patience)

    def _patience_of(self, job: JobView) -> Patience:
        patience = self._patience.get(job.job)
        if patience is None:
            patience = self._patience[job.job] = Patience()
        return patience

    def _scan(self, view: View, node: NodeView, jobs: Iterable[JobView]) -> Proposal | None:
        """Implement `Locality.scan`: offer the node to the jobs in order, with the same results as `pick`.

        For speed, `pick` is not called for jobs without local data that must still wait.
        """
        patience_by_job, skipped, wait_s = self._patience, self._skipped, self.node_wait_s
        now_s, heartbeats, name, why = view.now_s, view.beats, node.node, self._near_why
        for job in jobs:
            patience = patience_by_job.get(job.job)
            if patience is not None and not job.excluded:
                if patience.skipped_heartbeat == heartbeats:
                    continue
                waits = not patience.level and patience.wait_s < wait_s
                if waits and job.local_map(name) is None and job.free_map() is None:
                    patience.skipped_s, patience.skipped_heartbeat = now_s, heartbeats
                    skipped.append(patience)
                    view.skip(node, job, MAP, why)
                    continue
            if job.excluded and view.avoids(job, node, MAP):
                self.avoided(view, job)
                view.skip(node, job, MAP, AVOIDED)
                continue
            answer = self.pick(view, node, job)
            if isinstance(answer, Proposal):
                return answer
            if answer is not None:
                view.skip(node, job, MAP, answer)
        return None

    def _further(self, node: NodeView, job: JobView, patience: Patience) -> Proposal | None:
        """Return a proposal for a rack-local map, or after a sufficient wait for any map; otherwise None."""
        level, wait_s = patience.level, patience.wait_s
        task = job.rack_map(node.rack)
        if task is not None:
            return self._accept(task, patience, 1, "rack-local")
        anywhere_s = self.rack_wait_s if level == 1 else self.node_wait_s + self.rack_wait_s
        if level == 2 or wait_s >= anywhere_s:
            task = job.any_map()
            if task is not None:
                return self._accept(task, patience, 2, "off-rack")
        return None

    @staticmethod
    def _accept(task: TaskView, patience: Patience, level: int, place: str) -> Proposal:
        reason = f"{place} after {patience.wait_s:.1f} s" if patience.wait_s else f"{place}, waited before"
        patience.wait_s, patience.level = 0.0, level
        return Proposal(task, reason)

    def _wait(self, view: View, node: NodeView, job: JobView, patience: Patience) -> Proposal | str:
        """Skip a job that has no local data and must still wait. Return the reason.

        `SplitLocality` overrides this method to start a part of a map.
        """
        return self._skip(view, patience)

    def _skip(self, view: View, patience: Patience) -> str:
        patience.skipped_s = view.now_s
        patience.skipped_heartbeat = view.beats
        self._skipped.append(patience)
        if patience.level == 0 and patience.wait_s < self.node_wait_s:
            return self._near_why
        return self._rack_why


AXIS = Axis(
    axis="locality",
    name="delay",
    factory=Delay,
    summary="waits a little for a node that holds the data",
    paper="Zaharia et al. 2010, Algorithm 3; xu2015 Algorithm 1 with P = 0",
    parameters=(
        duration("node_wait", "5s", "T1: until a rack-local map may start"),
        duration("rack_wait", "5s", "T2: from then until any map may start"),
    ),
    rank=10,
)
POLICY = Named(
    name="delay",
    summary="Fair, and a job waits a little for a node that holds its data.",
    paper="Zaharia et al. 2010; xu2015 3.2, Algorithm 1 with P = 0",
    order="fair",
    locality="delay",
    rank=20,
)

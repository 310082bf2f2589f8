"""Spark's locality wait: a job's timer runs by the clock, whether or not the job is offered slots.

Source: TaskSetManager.getAllowedLocalityLevel and resourceOffer, TaskSchedulerImpl.resourceOffers of Spark 3.5.5.
A heartbeat's free slots are one offer. A stage's levels are node, rack and any; maps without a preferred node start
at any level. Not modeled: the process level, since nodes hold no cached partitions.
"""

from __future__ import annotations

from schedbed.scheduler.policy import Proposal
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

NODE, RACK, ANY = range(3)
PLACES = ("node-local", "rack-local", "off-rack")


class Timer:
    """A job's timer: the allowed level, the time of the last reset, and what the current offer led to.

    `accepts`: no offer was declined since the last reset (Spark's noRejectsSinceLastReset).
    """

    __slots__ = ("accepts", "at_s", "declined", "level", "nearest", "node", "reset_s", "seen")

    def __init__(self, now_s: float) -> None:
        self.level, self.reset_s = NODE, now_s
        self.accepts = True
        self.node, self.at_s = "", now_s  # The current offer: the node, and the time of its heartbeat.
        self.nearest: int | None = None  # The nearest level of the maps that it started.
        self.declined = False
        self.seen = ["", ""]  # The node, and the rack, on which the job had a map when last looked.


class SparkWait:
    """A locality axis in which a level is allowed once the timer has run for the waits of the levels before it.

    `node_wait_s`, `rack_wait_s`: the time at the level node before rack is allowed, and at rack before any.
    `on_launch`: each launch restarts the timer at its level, as before Spark 3.1 (legacyResetOnTaskLaunch).
    Otherwise an offer restarts it that started maps and left no slot unused, if none was left unused before.
    """

    elidable = True  # A node without a free slot is offered nothing.

    def __init__(self, *, node_wait_s: float, rack_wait_s: float, on_launch: bool) -> None:
        self._waits_s = (node_wait_s, rack_wait_s)
        self._on_launch = on_launch
        self._timers: dict[str, Timer] = {}

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: start the job's timer."""
        self._timers[job.job] = Timer(view.now_s)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: drop the timer."""
        self._timers.pop(job.job, None)

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose the nearest map that the job's level allows."""
        timer = self._timers[job.job]
        if (timer.node, timer.at_s) != (node.node, view.now_s):
            self._end_offer(view, timer)
            timer.node, timer.at_s, timer.nearest, timer.declined = node.node, view.now_s, None, False
        level = self._allowed(view, job, timer)
        task, place = job.local_map(node.node), NODE
        if task is None:
            task = job.free_map()
            if task is not None:
                return Proposal(task, "no preferred node")
        if task is None and level >= RACK:
            task, place = job.rack_map(node.rack), RACK
        if task is None and level == ANY:
            task, place = job.any_map(), ANY
        if task is None:
            timer.declined, timer.accepts = True, False
            left_s = self._waits_s[level] - (view.now_s - timer.reset_s) if level < ANY else 0.0
            return f"waits for a {'rack-' if level else ''}local node" + (
                f", {left_s:.1f} s" if left_s > 0 else ""
            )
        if self._on_launch:
            timer.level, timer.reset_s = place, view.now_s
        else:
            timer.nearest = place if timer.nearest is None else min(place, timer.nearest)
        return Proposal(task, PLACES[place])

    def _end_offer(self, view: View, timer: Timer) -> None:
        """Restart the timer at the nearest level at which the last offer started maps, if it declined nothing."""
        if timer.nearest is None or timer.declined:
            return
        if timer.accepts or not any(
            node.alive and node.free_slots(TaskKind.MAP) > 0 for node in view.nodes.values()
        ):
            timer.level, timer.reset_s, timer.accepts = timer.nearest, timer.at_s, True

    def _allowed(self, view: View, job: JobView, timer: Timer) -> int:
        """Return the job's level now. A level without maps to start is left at once, others after their wait."""
        while timer.level < ANY:
            wait_s = self._waits_s[timer.level]
            if not self._has_maps(view, job, timer):
                timer.reset_s = view.now_s
            elif view.now_s - timer.reset_s >= wait_s:
                timer.reset_s += wait_s
            else:
                break
            timer.level += 1
        return timer.level

    @staticmethod
    def _has_maps(view: View, job: JobView, timer: Timer) -> bool:
        """Return whether a node, or a rack, that runs maps has input of an unstarted map of the job."""
        level = timer.level
        find = job.rack_map if level else job.local_map
        if timer.seen[level] and find(timer.seen[level]) is not None:
            return True
        for node in view.nodes.values():
            where = node.rack if level else node.node
            if node.alive and node.spec.map_slots and find(where) is not None:
                timer.seen[level] = where
                return True
        return False

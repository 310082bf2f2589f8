"""Spark's locality wait: a job's timer runs by the clock, whether or not the job is offered slots.

Source: TaskSetManager.getAllowedLocalityLevel and resourceOffer, TaskSchedulerImpl.resourceOffers of Spark 3.5.5.
A heartbeat's free slots are one offer. Maps without a preferred node start at any level. The presets `spark-fifo` and
`spark-fair` offer the slots of all nodes at once instead.
"""

from __future__ import annotations

from schedbed.scheduler.hooks import QUIET, Proposal
from schedbed.scheduler.models.locality_timer import ANY, NODE, RACK, LocalityTimer
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

LEVELS = (NODE, RACK, ANY)
PLACES = {NODE: "node-local", RACK: "rack-local", ANY: "off-rack"}


class Offer:
    """A job's timer, and what the current offer, a node's free slots at a heartbeat, led to."""

    __slots__ = ("at_s", "declined", "nearest", "node", "seen", "timer")

    def __init__(self, timer: LocalityTimer, now_s: float) -> None:
        self.timer = timer
        self.node, self.at_s = "", now_s  # The node, and the time of its heartbeat.
        self.nearest: int | None = None  # The nearest level of the maps that it started.
        self.declined = False
        # The node, and the rack, on which the job had a map when last looked.
        self.seen = {NODE: "", RACK: ""}


class SparkWait:
    """A locality axis in which a level is allowed once the timer has run for the waits of the levels before it.

    `node_wait_s`, `rack_wait_s`: the time at the level node before rack is allowed, and at rack before any.
    `on_launch`: each launch restarts the timer at its level, as before Spark 3.1 (legacyResetOnTaskLaunch).
    Otherwise an offer restarts it that started maps and left no slot unused, if none was left unused before.
    """

    quiet = QUIET

    def __init__(self, *, node_wait_s: float, rack_wait_s: float, on_launch: bool) -> None:
        self._waits_s = {NODE: node_wait_s, RACK: rack_wait_s}
        self._on_launch = on_launch
        self._offers: dict[str, Offer] = {}

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: start the job's timer."""
        self._offers[job.job] = Offer(LocalityTimer(view.now_s, self._waits_s), view.now_s)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: drop the timer."""
        self._offers.pop(job.job, None)

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose the nearest map that the job's level allows."""
        offer = self._offers[job.job]
        timer = offer.timer
        if (offer.node, offer.at_s) != (node.node, view.now_s):
            self._end_offer(view, offer)
            offer.node, offer.at_s, offer.nearest, offer.declined = node.node, view.now_s, None, False
        level = timer.allowed(view.now_s, LEVELS, lambda level: self._has_maps(view, job, offer, level))
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
            offer.declined, timer.accepts = True, False
            left_s = 0.0 if level == ANY else self._waits_s[level] - (view.now_s - timer.reset_s)
            return f"waits for a {'rack-' if level == RACK else ''}local node" + (
                f", {left_s:.1f} s" if left_s > 0 else ""
            )
        if self._on_launch:
            timer.reset(view.now_s, place)
        else:
            offer.nearest = place if offer.nearest is None else min(place, offer.nearest)
        return Proposal(task, PLACES[place])

    @staticmethod
    def _end_offer(view: View, offer: Offer) -> None:
        """Restart the timer at the nearest level at which the last offer started maps, if it declined nothing."""
        if offer.nearest is None or offer.declined:
            return
        if offer.timer.accepts or not any(
            node.alive and node.free_slots(TaskKind.MAP) > 0 for node in view.nodes.values()
        ):
            offer.timer.reset(offer.at_s, offer.nearest)

    @staticmethod
    def _has_maps(view: View, job: JobView, offer: Offer, level: int) -> bool:
        """Return whether a node, or a rack, that runs maps has input of an unstarted map of the job."""
        find = job.rack_map if level == RACK else job.local_map
        if offer.seen[level] and find(offer.seen[level]) is not None:
            return True
        for node in view.nodes.values():
            where = node.rack if level == RACK else node.node
            if node.alive and node.spec.map_slots and find(where) is not None:
                offer.seen[level] = where
                return True
        return False

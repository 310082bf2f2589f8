"""A composed policy that offers nodes as YARN's schedulers do: it counts offers, and keeps nodes for large containers.

Source: FairScheduler.attemptScheduling, CapacityScheduler.allocateContainersToNode, FSAppAttempt.assignContainer and
RegularContainerAllocator of Hadoop 3.4.1. A job first chooses a task for the node by its locality rule. If the
container does not fit, the order may keep the node for it; a kept node serves no other job until then.
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.memory import MemoryContainers
from schedbed.scheduler.hooks import Proposal, own
from schedbed.scheduler.models.amounts import amount_of
from schedbed.scheduler.models.locality_timer import ANY, NODE, RACK
from schedbed.scheduler.order.queues.queue_tree import QueueOrder, is_asked
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import AVOIDED, NO_ROOM, Admission, Locality, Order, nearest_map
from schedbed.scheduler.view import JobView, NodeView, StageView, View
from schedbed.tasks.specs import TaskKind

_MAP = TaskKind.MAP
NEAR = {NODE: "node-local", RACK: "rack-local", ANY: "off-rack"}


class OfferWait:
    """A locality axis of YARN, which counts the offers that jobs pass up.

    `waits`: false if jobs never wait. `counts_full_nodes`: whether a heartbeat of a full node is an offer, too.
    """

    waits = True
    counts_full_nodes = False

    def __init__(self) -> None:
        self._nodes = 0

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: count the live nodes."""
        self._nodes = sum(node.alive for node in view.nodes.values())

    def nodes(self, view: View) -> int:
        """Return the number of live nodes, as of the last tick."""
        if not self._nodes:
            self.tick(view)
        return self._nodes

    def count(self, view: View, node: NodeView, job: JobView) -> None:
        """Count the offer of a node to a job."""
        raise NotImplementedError

    def declines(self, view: View, job: JobView, level: int) -> str | None:
        """Return why the job may not start a map at that level yet, or None if it may."""
        raise NotImplementedError

    def took(self, view: View, job: JobView, place: str) -> None:
        """Note that the job starts a map on the offered node. `place` is the reason of its proposal."""
        raise NotImplementedError

    def choose(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Propose the nearest map that the job may start after the offers that it has passed up."""
        if not self.waits:
            return nearest_map(node, job)
        for place, task in ((NEAR[NODE], job.local_map(node.node)), ("no preferred node", job.free_map())):
            if task is not None:
                return Proposal(task, place)
        why = None
        for level, task in ((RACK, job.rack_map(node.rack)), (ANY, job.any_map())):
            if task is None:
                continue
            why = self.declines(view, job, level)
            if why is None:
                return Proposal(task, NEAR[level])
        return why

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick` for policies that do not offer nodes as `NodeOffers`."""
        if self.waits:
            self.count(view, node, job)
        answer = self.choose(view, node, job)
        if self.waits and isinstance(answer, Proposal):
            self.took(view, job, answer.reason)
        return answer


class NodeOffers(Explained):
    """A composed policy with an order of queues, a locality that counts offers, or both."""

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        self._queues = order if isinstance(order, QueueOrder) else None
        self._reserves = type(admission) in (
            Containers,
            MemoryContainers,
        )  # Others refuse for more than room.
        self._wait = locality if isinstance(locality, OfferWait) and locality.waits else None
        waits_on_full = self._wait is not None and self._wait.counts_full_nodes
        self.hears_full_nodes = waits_on_full or (self._queues is not None and self._queues.offers_full_nodes)

    @property
    def takes_containers(self) -> bool:
        return bool(own(self.admission, "takes_containers"))

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: the task of the first job that accepts the node, unless the node is kept."""
        if self._queues is not None and self._turn_is_over(node):
            proposal = self._fulfill(view, node, kind, self._queues)
            if proposal is not None:
                return self.noted(view, node, proposal)
            if self._turn_is_over(node):
                return None
        if not self._has_room(view, node, kind):
            return None
        offer = self._offer_container if view.pooled else self._offer
        for job in self._jobs(view, node, kind):
            answer = offer(view, node, job, kind)
            if isinstance(answer, Proposal):
                return self.noted(view, node, answer)
            if answer:
                view.skip(node, job, kind, answer)
            if self._turn_is_over(node):
                return None
        return None

    def _turn_is_over(self, node: NodeView) -> bool:
        """Return whether the node is kept for a container."""
        return self._queues is not None and self._queues.reservations.at(node.node) is not None

    def _offer(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> Proposal | str | None:
        return self._offer_stage(view, node, job, job.stage(kind))

    def _has_room(self, view: View, node: NodeView, kind: TaskKind) -> bool:
        """Return true also for a full node that may be reserved, or where jobs count this as an offer of a map."""
        has_room = super()._has_room(view, node, kind)
        counts = kind is _MAP and self._wait is not None and self._wait.counts_full_nodes
        return has_room or counts or (self._queues is not None and self._queues.offers_full_nodes)

    def _offer_stage(
        self, view: View, node: NodeView, job: JobView, stage: StageView
    ) -> Proposal | str | None:
        is_master = stage is job.master
        if job.excluded and not is_master and view.avoids(job, node, stage.kind):
            return AVOIDED
        if self._queues is not None and not self._queues.tries(node, amount_of(stage.demand)):
            return None
        answer = self._choose(view, node, job, stage)
        if not isinstance(answer, Proposal):
            return answer
        refusal = self._refusal(view, node, job, stage)
        if refusal is None:
            if stage is job.maps and self._wait is not None:
                self._wait.took(view, job, answer.reason)
            return answer
        if self._keeps_node(view, node, job, stage, local=answer.reason == NEAR[NODE]):
            return f"{refusal}: the node is reserved"
        return refusal

    def _refusal(self, view: View, node: NodeView, job: JobView, stage: StageView) -> str | None:
        """Return why the node has no room for a container of the stage, or None."""
        if view.pooled and not view.fits(node, stage):
            return NO_ROOM
        return None if stage is job.master else self._refuses(node, job, stage.kind)

    def _keeps_node(self, view: View, node: NodeView, job: JobView, stage: StageView, *, local: bool) -> bool:
        """Reserve the node for the job if the order says so. Return whether it is reserved."""
        queues = self._queues
        if queues is None or not self._reserves or not _may_wait(job, stage):
            return False
        if not queues.reserves(view, node, job, stage, local=local):
            return False
        queues.keep(node, job, stage)
        return True

    def _choose(self, view: View, node: NodeView, job: JobView, stage: StageView) -> Proposal | str | None:
        if stage is job.master:
            return Proposal(stage.tasks[0], "ApplicationMaster")
        if stage is job.reduces:
            task = job.any_reduce()
            return None if task is None else Proposal(task, "reduce")
        if self._wait is None:
            return self._pick(view, node, job)
        self._wait.count(view, node, job)
        return self._wait.choose(view, node, job)

    def _fulfill(self, view: View, node: NodeView, kind: TaskKind, queues: QueueOrder) -> Proposal | None:
        """Return a task of the job that the node is kept for, if it fits now.

        The node is released if the job does not want it any more, or may not have it.
        """
        kept = queues.reservations.at(node.node)
        assert kept is not None
        job, stage = kept
        wanted = is_asked(job, stage) and _may_wait(job, stage)
        wanted = wanted and queues.still_reserves(job, amount_of(stage.demand))
        if not wanted or (stage is not job.master and view.avoids(job, node, stage.kind)):
            queues.release(node)
            return None
        if (stage.kind is not kind and not view.pooled) or not super()._has_room(view, node, kind):
            return None
        if self._refusal(view, node, job, stage) is not None:
            return None
        answer: Any = nearest_map(node, job) if stage is job.maps else self._choose(view, node, job, stage)
        if not isinstance(answer, Proposal):
            return None
        if stage is job.maps and self._wait is not None:
            self._wait.took(view, job, answer.reason)
        queues.reservations.release(node.node)
        return Proposal(answer.task, f"{answer.reason}, reserved")


def _may_wait(job: JobView, stage: StageView) -> bool:
    """Return whether a node may be kept for the job: not for a reduce while maps of the job need room."""
    return stage is not job.reduces or not job.maps.unstarted

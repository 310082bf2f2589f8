"""Preemption as in YARN's FairScheduler: finds the jobs that have starved for too long, and what to kill for them.

Source: FSLeafQueue.updateStarvedApps, FSAppAttempt.fairShareStarvation and canContainerBePreempted, and
FSPreemptionThread of Hadoop 3.4.1. Deviations: starved jobs are served in the order in which nodes are offered, and a
node's containers are tried with the newest first (there: in the order of a hash table).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schedbed.scheduler.hooks import Kill
from schedbed.scheduler.models.amounts import NOTHING, Amount, amount_of
from schedbed.scheduler.models.reservations import Reservations
from schedbed.scheduler.order.queues.queue_tree import QueuedApp, is_asked, need_of
from schedbed.scheduler.order.queues.weighted_queue import FairQueue
from schedbed.scheduler.view import AttemptView, NodeView, View

NEXT_LOOK_S = 10.0  # yarn.scheduler.fair.waitTimeBeforeNextStarvationCheck
GIVEN_S = 4.0  # Until a freed container is given: four heartbeats of nodes, at YARN's default (allocDelay).


class Marked(NamedTuple):
    """An attempt that is killed at `due_s` for another job (`for_job`), if it still runs then."""

    job: str
    due_s: float
    for_job: str
    reason: str


class Starvation:
    """A rule that kills containers for jobs below a part of their fair share, or in queues below their min share.

    A job starves while it holds less than the threshold of its queue times its fair share, and less than it demands,
    for longer than the queue's timeout. Only jobs lose containers that keep their fair share. A container is killed
    `wait_s` after it was chosen. Nothing is chosen while the cluster's utilization is at most `utilization`. `apps`:
    the jobs by id, which the order keeps.
    """

    def __init__(self, wait_s: float, utilization: float, apps: Mapping[str, QueuedApp]) -> None:
        self._wait_s, self._utilization, self._apps = wait_s, utilization, apps
        self._at_share_s: dict[str, float] = {}  # When a job last had its part of the fair share.
        self._at_least_s: dict[str, float] = {}  # When a queue last had its min share.
        self._next_s: dict[str, float] = {}  # When a job that was helped is looked at again.
        self._marked: dict[str, Marked] = {}  # By attempt.

    def kills(self, view: View, root: FairQueue, cluster: Amount, kept: Reservations) -> list[Kill]:
        """Return the kills that are due. Mark further containers, and keep nodes for the jobs that starve."""
        root.divide(cluster, cluster)
        starved = list(self._starved(view, root, cluster))
        used = max(held / max(1, whole) for held, whole in zip(root.held, cluster, strict=True))
        if used > self._utilization:
            for app, lacks, why in starved:
                self._help(view, app, lacks, why, cluster)
        return list(self._due(view, kept))

    def forget(self, job: str) -> None:
        """Forget a job that has ended."""
        self._at_share_s.pop(job, None)
        self._next_s.pop(job, None)
        self._marked = {name: mark for name, mark in self._marked.items() if mark.job != job}

    # Who starves

    def _starved(
        self, view: View, root: FairQueue, cluster: Amount
    ) -> Iterator[tuple[QueuedApp, Amount, str]]:
        """Yield the jobs that starve, with the amount that each lacks."""
        for queue in root.leaves():
            apps = [app for app in queue.sorted(list(queue.apps.values()), cluster) if app.asks]
            lacking = {app.job.job: self._below_share(view, app, queue, cluster) for app in apps}
            left = self._below_least(view, queue)
            for lacks in lacking.values():
                left = _less(left, lacks)
            for app in apps:
                if view.now_s <= self._next_s.get(app.job.job, -1.0):
                    continue
                lacks = lacking[app.job.job]
                part = Amount(*map(min, left, _less(app.pending(), lacks)))
                left = _less(left, part)
                if queue.compares(part, cluster) > 0:
                    yield app, lacks.plus(part), f"queue {queue.name} is below its min resources"
                elif queue.compares(lacks, cluster) > 0:
                    yield app, lacks, f"{app.job.job} is below its fair share"

    def _below_share(self, view: View, app: QueuedApp, queue: FairQueue, cluster: Amount) -> Amount:
        """Return what the job lacks of its part of the fair share, if it has lacked some for the queue's timeout."""
        job, wanted = app.job.job, Amount(*map(min, app.share.times(queue.threshold), app.demand()))
        if queue.compares(app.held, cluster) >= queue.compares(wanted, cluster):
            self._at_share_s[job] = view.now_s
        since_s = self._at_share_s.setdefault(job, max(app.job.submit_s, 0.0))
        return NOTHING if view.now_s - since_s < queue.fair_timeout_s else _less(wanted, app.held)

    def _below_least(self, view: View, queue: FairQueue) -> Amount:
        """Return what the queue lacks of its min share, up to its demand, if it has lacked some for its timeout."""
        lacks = _less(Amount(*map(min, queue.least, queue.demand())), queue.held)
        if lacks == NOTHING:
            self._at_least_s[queue.name] = view.now_s
        since_s = self._at_least_s.setdefault(queue.name, view.now_s)
        return NOTHING if view.now_s - since_s < queue.min_timeout_s else lacks

    # What is taken

    def _help(self, view: View, app: QueuedApp, lacks: Amount, why: str, cluster: Amount) -> None:
        """Mark containers for as many containers of the job as fit into what it lacks, each on one node."""
        self._next_s[app.job.job] = view.now_s + self._wait_s + GIVEN_S + NEXT_LOOK_S
        for stage in app.job.stages:
            need = amount_of(stage.demand)
            if not is_asked(app.job, stage) or not need.memory_bytes:
                continue
            for _ in range(min(stage.unstarted, int(lacks.memory_bytes // need.memory_bytes))):
                lacks = lacks.plus(need, -1)
                found = next(
                    filter(None, (self._on(node, need, cluster) for node in view.nodes.values())), None
                )
                for attempt in found or ():
                    mark = Marked(attempt.task.job.job, view.now_s + self._wait_s, app.job.job, why)
                    self._marked[attempt.attempt] = mark

    def _on(self, node: NodeView, need: Amount, cluster: Amount) -> list[AttemptView] | None:
        """Return the containers of a node whose end makes room for `need`, or None if they do not suffice."""
        room = Amount(node.free_memory_bytes, node.free_vcores)
        found: list[AttemptView] = []
        taken: dict[str, Amount] = {}
        for attempt in sorted(node.attempts.values(), key=lambda attempt: -attempt.serial):
            if need.fits(room):
                break
            its = need_of(attempt)
            is_master = attempt.task.stage is attempt.task.job.master
            if is_master or attempt.state == "killing" or attempt.attempt in self._marked:
                continue
            victim = attempt.task.job.job
            after = taken.get(victim, NOTHING).plus(its)
            if self._may_lose(victim, after, cluster):
                taken[victim] = after
                found.append(attempt)
                room = room.plus(its)
        return found if found and need.fits(room) else None

    def _may_lose(self, victim: str, taken: Amount, cluster: Amount) -> bool:
        """Return whether the job keeps its fair share without `taken` and what it loses anyway."""
        app = self._apps.get(victim)
        if app is None or not app.queue.may_lose:
            return False
        losing = NOTHING
        for attempt in app.job.attempts.values():
            if attempt.state == "killing" or attempt.attempt in self._marked:
                losing = losing.plus(need_of(attempt))
        left = app.held.plus(losing, -1).plus(taken, -1)
        return app.queue.compares(left, cluster) >= app.queue.compares(app.share, cluster)

    # When it dies

    def _due(self, view: View, kept: Reservations) -> Iterator[Kill]:
        """Yield the kills that are due, and keep their nodes for the jobs that they help."""
        due = [(name, mark) for name, mark in self._marked.items() if mark.due_s <= view.now_s]
        for name, mark in due:
            del self._marked[name]
            job, helped = view.jobs.get(mark.job), view.jobs.get(mark.for_job)
            attempt = None if job is None else job.attempts.get(name)
            if attempt is None or attempt.state not in ("assigned", "running"):
                continue
            yield Kill(attempt, mark.reason)
            if helped is not None and helped.maps.unstarted and kept.at(attempt.node.node) is None:
                kept.keep(attempt.node.node, helped, helped.maps)


def _less(amount: Amount, taken: Amount) -> Amount:
    """Subtract, but not below zero (Resources.subtractFromNonNegative)."""
    return Amount(*(max(0.0, left) for left in amount.plus(taken, -1)))

"""Preemption as in YARN's CapacityScheduler: divides the cluster among queues, and kills what they hold beyond that.

Source: ProportionalCapacityPreemptionPolicy, PreemptableResourceCalculator, TempQueuePerPartition,
FifoCandidatesSelector, and for jobs of one queue IntraQueueCandidatesSelector and FifoIntraQueuePreemptionPlugin (the
order userlimit_first) of Hadoop 3.4.1. Not modeled: reserved containers (pending asks are not reduced by them),
queue-priority preemption, labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from schedbed.scheduler.hooks import Kill
from schedbed.scheduler.models.amounts import NOTHING, UNLIMITED, Amount, amount_of
from schedbed.scheduler.order.queues.guaranteed_queue import UTILIZATION, Calculator, CapacityQueue
from schedbed.scheduler.order.queues.queue_tree import QueuedApp, need_of
from schedbed.scheduler.view import AttemptView, View
from schedbed.tasks.specs import TaskKind

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPreemption:
    """The settings of preemption, with the names below yarn.resourcemanager.monitor.capacity.preemption; times in s."""

    monitoring_interval: float = 3.0
    max_wait_before_kill: float = 15.0
    total_preemption_per_round: float = 0.1
    natural_termination_factor: float = 0.2
    max_ignored_over_capacity: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class IntraQueuePreemption:
    """The settings of preemption among the jobs of a queue, with the names below intra-queue-preemption."""

    enabled: bool = True
    max_allowable_limit: float = 0.2
    minimum_threshold: float = 0.5
    preemption_order_policy: str = "userlimit_first"


@dataclass
class IdealShare:
    """A queue in a round: what it uses (without what is being killed), asks for, and should have (`ideal`).

    `extra`: what it uses beyond its guarantee and may be taken; `untouchable`: what may not. `surplus`: what
    others should get. `obtain`: what this round takes.
    """

    queue: CapacityQueue
    used: Amount
    pending: Amount
    children: list[IdealShare] = field(default_factory=list)
    ideal: Amount = NOTHING
    extra: Amount = NOTHING
    untouchable: Amount = NOTHING
    surplus: Amount = NOTHING
    obtain: Amount = NOTHING

    def leaves(self) -> Iterator[IdealShare]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


class IdealShares:
    """A rule that kills containers of queues above their ideal shares for queues below their guarantees.

    A container that is chosen in a round is killed in the first round after `max_wait_before_kill` that chooses it
    again. `inside`: the settings for jobs of one queue, or None.
    """

    def __init__(
        self, calculator: Calculator, settings: CapacityPreemption, inside: IntraQueuePreemption | None
    ) -> None:
        self._calc, self._settings, self._inside = calculator, settings, inside
        self._next_s = 0.0
        self._marked_s: dict[
            tuple[str, str], float
        ] = {}  # When an attempt was first chosen, by job and attempt.

    def kills(self, view: View, root: CapacityQueue) -> list[Kill]:
        """Return the kills of this time, if it is the time of a round."""
        if view.now_s < self._next_s:
            return []
        self._next_s = view.now_s + self._settings.monitoring_interval
        tree = self._share_of(root)
        self._divide_all(tree)
        kills: list[Kill] = []
        for attempt, reason in self._chosen(tree):
            mark = (attempt.task.job.job, attempt.attempt)
            marked_s = self._marked_s.setdefault(mark, view.now_s)
            if marked_s + self._settings.max_wait_before_kill <= view.now_s:
                del self._marked_s[mark]
                kills.append(Kill(attempt, reason))
        stale_s = view.now_s - 2 * self._settings.max_wait_before_kill
        self._marked_s = {mark: at_s for mark, at_s in self._marked_s.items() if at_s >= stale_s}
        return kills

    def forget(self, job: str) -> None:
        """Forget a job that has ended."""
        self._marked_s = {mark: at_s for mark, at_s in self._marked_s.items() if mark[0] != job}

    # Ideal shares

    def _share_of(self, queue: CapacityQueue) -> IdealShare:
        children = [self._share_of(child) for child in queue.children.values()]
        used, pending = _used(queue.apps.values()), self._pending(queue)
        for child in children:
            used, pending = used.plus(child.used), pending.plus(child.pending)
        share = IdealShare(queue, used, pending, children)
        calc = self._calc
        extra = used.plus(queue.guaranteed(), -1) if calc.of(used) > calc.of(queue.guaranteed()) else NOTHING
        share.extra = NOTHING if queue.keeps else extra
        if children:
            inner = NOTHING
            for child in children:
                inner = inner.plus(child.extra)
            share.extra = calc.smaller(inner, extra)
        share.untouchable = extra.plus(share.extra, -1)
        return share

    def _pending(self, queue: CapacityQueue) -> Amount:
        """Return what the queue's jobs ask for within their users' limits."""
        users, room, total = queue.asking_users(), dict[str, Amount](), NOTHING
        for app in queue.apps.values():
            if not app.asks:
                continue
            user, pending = app.job.user, app.pending()
            if user not in room:
                room[user] = _positive(queue.user_limit(user, users).plus(queue.held_by(user), -1))
            vcores = min(pending.vcores, room[user].vcores) if self._calc.dominant else pending.vcores
            asked = Amount(min(pending.memory_bytes, room[user].memory_bytes), vcores)
            room[user] = _positive(room[user].plus(asked, -1))
            total = total.plus(asked)
        return total

    def _divide_all(self, root: IdealShare) -> None:
        """Compute the ideal shares, and what a round takes from each queue, from the root down."""
        root.ideal = self._calc.cluster
        self._divide_children(root)
        settings = self._settings
        for leaf in root.leaves():
            allowed = leaf.queue.guaranteed().times(1 + settings.max_ignored_over_capacity)
            if not leaf.queue.keeps and self._calc.of(leaf.used) > self._calc.of(allowed):
                leaf.obtain = _round_up(leaf.surplus.times(settings.natural_termination_factor))

    def _divide_children(self, parent: IdealShare) -> None:
        calc, children = self._calc, parent.children
        left = parent.ideal
        for is_promised in (True, False):
            group = [each for each in children if (each.queue.promised > 0) is is_promised]
            left = self._distribute(group, left, by_guarantee=is_promised)
        needed = NOTHING
        for each in children:
            if calc.of(each.used) > calc.of(each.ideal):
                needed = needed.plus(each.used.plus(each.ideal, -1))
        allowed = calc.of(calc.cluster) * self._settings.total_preemption_per_round
        scale = min(1.0, allowed / calc.of(needed)) if calc.of(needed) > 0 else 1.0
        for each in children:
            asked = calc.smaller(each.used.plus(each.pending), each.queue.guaranteed())
            least = calc.larger(asked, each.ideal)
            if calc.of(each.used) > calc.of(least):
                each.surplus = each.used.plus(least, -1).times(scale)
            self._divide_children(each)

    def _distribute(self, group: Sequence[IdealShare], left: Amount, *, by_guarantee: bool) -> Amount:
        """Give what is left to the queues, the least served first (computeFixpointAllocation). Return the rest."""
        calc, needy = self._calc, list[IdealShare]()
        for each in group:
            over = calc.of(each.used) > calc.of(each.queue.guaranteed())
            each.ideal = each.queue.guaranteed().plus(each.untouchable) if over else each.used
            left = left.plus(each.ideal, -1)
            if calc.of(each.ideal) < calc.of(each.used.plus(each.pending)):
                needy.append(each)
        while needy and calc.of(left) > 0:
            total = sum(each.queue.promised for each in needy)
            first = min(self._served(each) for each in needy)
            given, served = NOTHING, [each for each in needy if self._served(each) == first]
            weights = [each.queue.promised / total if by_guarantee else 1 / len(needy) for each in served]
            for each, weight in zip(served, weights, strict=True):
                accepted = self._accepts(each, _round_up(left.times(weight)))
                each.ideal, given = each.ideal.plus(accepted), given.plus(accepted)
                if calc.of(accepted) <= 0:
                    needy.remove(each)
            left = left.plus(given, -1)
        return left

    def _served(self, share: IdealShare) -> tuple[float, ...]:
        """Return the key by which the least served queue comes first (TQComparator)."""
        promised = self._calc.of(share.queue.guaranteed())
        part = self._calc.of(share.ideal) / promised if promised else float("inf")
        parent = share.queue.parent
        if parent is None or parent.ordering in (None, UTILIZATION):
            return (part,)
        return (part >= 1, -share.queue.priority, part)

    def _accepts(self, share: IdealShare, offered: Amount) -> Amount:
        """Return what the queue takes of an offer (TempQueuePerPartition.offer)."""
        calc, queue, ideal = self._calc, share.queue, share.ideal
        room = _positive(queue.most_held().plus(ideal, -1))
        accepted = calc.smaller(room, calc.smaller(offered, share.used.plus(share.pending).plus(ideal, -1)))
        if not share.children:
            own = _positive(calc.larger(share.used, queue.guaranteed()).plus(ideal, -1))
            accepted = calc.smaller(accepted, own)
        return _positive(accepted)

    # What is taken

    def _chosen(self, tree: IdealShare) -> Iterator[tuple[AttemptView, str]]:
        """Yield the attempts to take from queues, then those to take from jobs for others of their queue."""
        left = self._calc.cluster.times(self._settings.total_preemption_per_round)
        taken = dict[str, Amount]()
        for leaf in tree.leaves():
            queue, obtain = leaf.queue, leaf.obtain
            reason = f"queue {queue.name} holds more than its share"
            for app in reversed(queue.sorted(list(queue.apps.values()), self._calc.cluster)):
                obtain, left, chosen = self._from(app, obtain, left, UNLIMITED)
                for attempt in chosen:
                    taken[attempt.task.job.job] = taken.get(attempt.task.job.job, NOTHING).plus(
                        need_of(attempt)
                    )
                    yield attempt, reason
        if self._inside is not None and self._inside.enabled:
            for leaf in tree.leaves():
                if leaf.queue.shifts is not False and not leaf.queue.keeps:
                    yield from self._inside_of(leaf, taken, left)

    def _from(
        self, app: QueuedApp, obtain: Amount, left: Amount, most: Amount
    ) -> tuple[Amount, Amount, list[AttemptView]]:
        """Choose containers of a job, maps first, the newest first, until enough is obtained.

        `left`: what the round may still take. `most`: what may be taken from this job. Return what is still to be
        obtained, what is left, and the attempts.
        """
        calc, chosen = self._calc, list[AttemptView]()
        attempts = [
            each
            for each in app.job.attempts.values()
            if each.state in ("assigned", "running") and each.task.stage is not app.job.master
        ]
        attempts.sort(key=lambda each: (each.task.kind is not TaskKind.MAP, -each.serial))
        for attempt in attempts:
            if calc.of(obtain) <= 0:
                break
            need = need_of(attempt)
            if not calc.fits(need, left) or not calc.fits(need, most):
                continue
            chosen.append(attempt)
            obtain, left, most = obtain.plus(need, -1), left.plus(need, -1), most.plus(need, -1)
        return obtain, left, chosen

    def _inside_of(
        self, leaf: IdealShare, taken: dict[str, Amount], left: Amount
    ) -> Iterator[tuple[AttemptView, str]]:
        """Yield attempts of jobs above their ideal part of the queue, for jobs below it, by users' limits."""
        calc, queue, inside = self._calc, leaf.queue, self._inside
        assert inside is not None
        if queue.used() < inside.minimum_threshold:
            return
        apps: list[QueuedApp] = queue.sorted(list(queue.apps.values()), calc.cluster)
        users = dict.fromkeys(app.job.user for app in apps)
        limits = {user: queue.user_limit(user, users, active=False) for user in users}
        rest, given = leaf.used.plus(leaf.obtain, -1), dict[str, Amount]()
        over, lacking = dict[str, Amount](), NOTHING
        for app in apps:
            user, used = app.job.user, _used([app]).plus(taken.get(app.job.job, NOTHING), -1)
            room = _positive(limits[user].plus(given.get(user, NOTHING), -1))
            wanted = used.plus(app.pending() if app.asks else NOTHING)
            ideal = _positive(calc.smaller(calc.smaller(wanted, room), rest))
            given[user], rest = given.get(user, NOTHING).plus(ideal), rest.plus(ideal, -1)
            if calc.of(ideal) > calc.of(used):
                lacking = lacking.plus(ideal.plus(used, -1))
            over[app.job.job] = _positive(used.plus(ideal, -1))
        left = calc.smaller(left, queue.guaranteed().times(inside.max_allowable_limit))
        for app in reversed(apps):
            part = calc.smaller(lacking, over[app.job.job])
            rest_of, left, chosen = self._from(app, part, left, over[app.job.job])
            lacking = lacking.plus(part.plus(rest_of, -1), -1)
            for attempt in chosen:
                yield attempt, f"user {app.job.user} holds more than its part of queue {queue.name}"


def _used(apps: Any) -> Amount:
    """Return what the jobs hold without attempts that are being killed, whose room YARN counts as free at once."""
    used = NOTHING
    for app in apps:
        used = used.plus(app.held)
        for stage in app.job.stages:
            used = used.plus(amount_of(stage.demand), -stage.killing)
    return used


def _positive(amount: Amount) -> Amount:
    return Amount(*(max(0.0, part) for part in amount))


def _round_up(amount: Amount) -> Amount:
    """Round up to whole MiB and vcores."""
    return Amount(ceil(amount.memory_bytes / _MIB) * _MIB, ceil(amount.vcores))

"""The queues of YARN's CapacityScheduler: guarantees, order of queues and applications, and limits of users.

Source: AbstractCSQueue, AbstractLeafQueue, PriorityUtilizationQueueOrderingPolicy, FifoOrderingPolicy,
FairOrderingPolicy and UsersManager.computeUserLimit of Hadoop 3.4.1. Amounts are compared in memory, or with the
DominantResourceCalculator by the larger share of the cluster. Deviations: an undeclared queue is made when a job names
it, and undeclared ones share what their siblings are not promised, where YARN refuses the job; capacities need not add
up to 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from schedbed.scheduler.models.amounts import NOTHING, Amount
from schedbed.scheduler.order.queues.queue_tree import QueuedApp, TreeQueue

FIFO, FAIR = "fifo", "fair"
UTILIZATION, PRIORITY_UTILIZATION = "utilization", "priority-utilization"
_SLACK = 1e-6  # bytes: products of shares


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnQueueSettings:
    """The settings of a queue, with the names of capacity-scheduler.xml; None selects that of all queues.

    `capacity`, `maximum_capacity`: percent of the parent. `user_settings`: the weights of users in user limits.
    `queues`: the declared child queues.
    """

    capacity: float | None = None
    maximum_capacity: float | None = None
    user_limit_factor: float | None = None
    minimum_user_limit_percent: float | None = None
    user_settings: Mapping[str, float] = field(default_factory=dict)
    ordering_policy: str | None = None
    max_parallel_apps: int | None = None
    maximum_am_resource_percent: float | None = None
    disable_preemption: bool | None = None
    intra_queue_preemption: bool | None = None
    priority: int = 0
    queues: Mapping[str, YarnQueueSettings] = field(default_factory=dict)


class Calculator:
    """The comparison of amounts. `cluster`: memory and vcores of the live nodes. `least`: the smallest container."""

    def __init__(self, least: Amount, *, dominant: bool) -> None:
        self.dominant, self.least = dominant, least
        self.cluster = NOTHING

    def of(self, amount: Amount) -> float:
        """Return the amount as a number: bytes of memory, or the larger share of the cluster."""
        if not self.dominant:
            return amount.memory_bytes
        return max(part / max(1.0, whole) for part, whole in zip(amount, self.cluster, strict=True))

    def larger(self, one: Amount, other: Amount) -> Amount:
        return one if self.of(one) >= self.of(other) else other

    def smaller(self, one: Amount, other: Amount) -> Amount:
        return one if self.of(one) <= self.of(other) else other

    def whole(self, amount: Amount, *, up: bool) -> Amount:
        """Round an amount to multiples of the smallest container."""
        if not self.dominant:
            return Amount(_whole(amount.memory_bytes, self.least.memory_bytes, up=up), amount.vcores)
        return Amount(*(_whole(part, least, up=up) for part, least in zip(amount, self.least, strict=True)))

    def fits(self, amount: Amount, room: Amount) -> bool:
        """Return whether the amount fits into the room, in memory, or in both with the dominant calculator."""
        if amount.memory_bytes > room.memory_bytes + _SLACK:
            return False
        return not self.dominant or amount.vcores <= room.vcores + _SLACK


def _whole(part: float, least: float, *, up: bool) -> float:
    parts = part / least
    return least * (ceil(parts - _SLACK) if up else int(parts + _SLACK))


class CapacityQueue(TreeQueue):
    """A queue of the CapacityScheduler. `defaults` are the settings of all queues.

    `promised`: the share of the cluster that the queue is promised (absolute capacity). `most_share`: that which it
    may hold.
    """

    def __init__(
        self,
        name: str,
        settings: YarnQueueSettings,
        defaults: YarnQueueSettings,
        calculator: Calculator,
        parent: CapacityQueue | None = None,
    ) -> None:
        super().__init__(name, parent)
        self._defaults, self.calculator = defaults, calculator
        self.promised = 1.0  # Of all but the root, its parent says it.
        own, others = settings, defaults
        self._capacity = own.capacity if parent is not None else 100.0
        most = own.maximum_capacity or (others.maximum_capacity if parent is not None else None) or 100.0
        self.most_share: float = most / 100 * (1.0 if parent is None else parent.most_share)
        self.user_factor = _own(own.user_limit_factor, others.user_limit_factor, 1.0)
        self.user_percent = _own(own.minimum_user_limit_percent, others.minimum_user_limit_percent, 100.0)
        self.weights = own.user_settings
        self.ordering = own.ordering_policy
        if self.ordering is None and (parent is None or own.queues):
            self.ordering = others.ordering_policy
        self.most_apps = own.max_parallel_apps or others.max_parallel_apps
        self.masters_share = _own(own.maximum_am_resource_percent, others.maximum_am_resource_percent, 0.1)
        inherited = parent is not None and parent.keeps
        self.keeps = inherited if own.disable_preemption is None else own.disable_preemption
        self.shifts = own.intra_queue_preemption
        self.priority = own.priority
        for child, its in own.queues.items():
            self.child(child, its)

    def child(self, name: str, settings: YarnQueueSettings | None = None) -> CapacityQueue:
        """Make a child queue, undeclared unless it has settings."""
        its = settings or YarnQueueSettings()
        made = CapacityQueue(self.path_of(name), its, self._defaults, self.calculator, self)
        self.children[name] = made
        self._promise()
        return made

    def find(self, path: str) -> Any:
        """Return the queue below this one. A name alone may be that of the one leaf which has it, as in YARN."""
        if "." not in path and path not in self.children:
            named = [leaf for leaf in self.leaves() if leaf.name.rpartition(".")[2] == path]
            if len(named) == 1:
                return named[0]
        return super().find(path)

    @property
    def closed(self) -> bool:
        """Return whether the declared child queues have all of the queue, and nothing is left for others."""
        declared = [queue._capacity for queue in self.children.values()]
        return bool(declared) and sum(each or 0.0 for each in declared) >= 100.0 - 1e-6

    # What it is promised

    def _promise(self) -> None:
        """Divide what the queue is promised among its child queues, and so on down the tree."""
        queues: list[CapacityQueue] = list(self.children.values())
        left = max(0.0, 100.0 - sum(queue._capacity or 0.0 for queue in queues))
        without = sum(queue._capacity is None for queue in queues)
        for queue in queues:
            own = left / without if queue._capacity is None else queue._capacity
            queue.promised = own / 100 * self.promised
            queue._promise()

    def guaranteed(self) -> Amount:
        return self.calculator.cluster.times(self.promised)

    def most_held(self) -> Amount:
        """Return what the queue may hold, in whole smallest containers."""
        return self.calculator.whole(self.calculator.cluster.times(self.most_share), up=False)

    def used(self) -> float:
        """Return the used part of the guarantee, which is at least one smallest container."""
        calculator = self.calculator
        return calculator.of(self.held) / calculator.of(
            calculator.larger(self.guaranteed(), calculator.least)
        )

    def full_for(self, more: Amount) -> CapacityQueue | None:
        """Return a queue of the path that would hold more than it may with `more`, or None."""
        for queue in self.path():
            if queue.most_share < 1 and not self.calculator.fits(queue.held.plus(more), queue.most_held()):
                return queue
        return None

    # Order

    def sorted(self, members: list[Any], cluster: Amount) -> list[Any]:
        """Return the members in order: queues by the used part of their guarantee, applications by the leaf's policy.

        With equal parts, the larger guarantee comes first, then the queue that was declared first (a stable sort).
        """
        queues = [member for member in members if isinstance(member, CapacityQueue)]
        apps = [member for member in members if isinstance(member, QueuedApp)]
        if self.ordering == FAIR:
            apps.sort(key=lambda app: (app.held.memory_bytes, app.tie))
        else:
            apps.sort(key=lambda app: app.fifo)
        by_priority = self.ordering == PRIORITY_UTILIZATION
        queues.sort(key=lambda queue: self._queue_key(queue, by_priority=by_priority))
        return [*queues, *apps]

    @staticmethod
    def _queue_key(queue: CapacityQueue, *, by_priority: bool) -> tuple[float, ...]:
        used, promised = queue.used(), queue.promised
        if by_priority:  # Only queues that are both below their guarantee, or both above, compare priorities.
            return (used >= 1, -queue.priority, used, -promised)
        return (used, -promised)

    # Limits of users

    def asking_users(self) -> dict[str, None]:
        """Return the users with a job that asks for containers (active users)."""
        return {app.job.user: None for app in self.apps.values() if app.asks}

    def held_by(self, user: str) -> Amount:
        """Return what the user's jobs hold in this queue."""
        held = NOTHING
        for app in self.apps.values():
            if app.job.user == user:
                held = held.plus(app.held)
        return held

    def user_limit(self, user: str, users: Mapping[str, None], *, active: bool = True) -> Amount:
        """Return what the user may hold before it gets no more (computeUserLimit). A user at the limit gets one more.

        `users`: the users that share the queue. Unless `active`, these are all users of the queue, and what
        is divided is what the queue holds or is promised.
        """
        calc = self.calculator
        promised = calc.larger(self.guaranteed(), calc.least)
        below = calc.of(self.held) < calc.of(promised)
        current = promised if below else self.held.plus(calc.least)
        weights = sum(self.weights.get(each, 1.0) for each in users) or 1.0
        divided = current
        if active:
            divided = calc.least
            for app in self.apps.values():
                if app.job.user in users:
                    divided = divided.plus(app.held)
        limit = calc.larger(divided.times(1 / weights), current.times(self.user_percent / 100))
        most = self.most_held() if self.user_factor < 0 else promised.times(self.user_factor)
        limit = calc.whole(calc.smaller(limit, most), up=True)
        weight = self.weights.get(user, 1.0)
        return limit if weight == 1 else calc.whole(limit.times(weight), up=False)

    def declared_sum(self) -> Iterator[tuple[str, float]]:
        """Yield the queues with declared child queues, and the sum of these queues' capacities in percent."""
        if self.children:
            yield self.name, sum(queue._capacity or 0.0 for queue in self.children.values())
        for child in self.children.values():
            yield from child.declared_sum()


def _own(own: float | None, of_all: float | None, default: float) -> float:
    if own is not None:
        return own
    return default if of_all is None else of_all

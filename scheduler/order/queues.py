"""The queues of the Capacity scheduler: their guaranteed shares, their use and the limits of their users."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import TaskKind

_SLACK = 1e-9  # Guaranteed shares are fractions of slots.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a queue as in Hadoop's capacity-scheduler.xml, in percent; None is the policy's default.

    `capacity` is the guaranteed share of the cluster, `max_capacity` the largest share that the queue may use
    while other queues are idle. A user may hold at least `minimum_user_limit_percent` of the queue, more if
    there are fewer users, but never more than `user_limit_factor` times its capacity. Jobs go by priority if
    `priorities` is on.
    """

    capacity: float | None = None
    max_capacity: float = 100.0
    minimum_user_limit_percent: float | None = None
    user_limit_factor: float | None = None
    priorities: bool | None = None


class Held:
    """The slots, or the bytes of memory, that a queue holds, in total and by user."""

    __slots__ = ("by_user", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_user: dict[str, int] = {}

    def add(self, user: str, amount: int) -> None:
        """Add `amount`, which may be negative, to the user's and the total amount."""
        self.total += amount
        self.by_user[user] = self.by_user.get(user, 0) + amount


class Queue:
    """A queue with its ready jobs and held resources, in slots or in bytes of memory."""

    __slots__ = ("held", "jobs_by_user", "max_share", "name", "named", "ready", "settings", "user_factor")

    def __init__(self, name: str, settings: QueueSettings, user_factor: float) -> None:
        self.name = name
        self.settings = settings
        self.named = settings.capacity is not None
        self.max_share = settings.max_capacity / 100
        self.user_factor = user_factor
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.held: dict[TaskKind, Held] = {kind: Held() for kind in TaskKind}
        self.jobs_by_user: dict[str, int] = {}  # Numbers of jobs that have not ended.


def over_max(held: Held, need: int, most: float) -> bool:
    """Return whether another task would exceed the maximum `most` of the queue. One task may always run."""
    return held.total > 0 and held.total + need > most + _SLACK


def user_limit(
    held: Held, need: int, promised: float, users: int, minimum_percent: float, factor: float
) -> int:
    """Return the user limit: a user who holds this amount gets no more of the queue (as in Hadoop 0.20).

    The amount is in slots or in bytes of memory. The limit is the larger of an equal part for each of the
    queue's users and the minimum percentage, both of the queue's capacity or of its use if that is larger; at
    most `factor` times the capacity. A queue without a guaranteed share has no such maximum, and one task may
    always run. Source: CapacitySchedulerQueue.
    """
    current = promised if held.total < promised else held.total + need
    limit = max(ceil(current / max(1, users) - _SLACK), ceil(current * minimum_percent / 100 - _SLACK))
    if promised > 0:
        limit = min(limit, ceil(promised * factor - _SLACK))
    return max(1, limit)

"""The queues of the Capacity scheduler: their guaranteed shares, the resources they hold, and the limits of
their users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import TaskKind

_SLACK = 1e-9  # Guaranteed shares are fractions of slots.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a queue as in Hadoop's capacity-scheduler.xml, in percent. None selects the policy's
    default.

    `capacity`: guaranteed share of the cluster. `max_capacity`: largest share that the queue may use while
    other queues are idle. `minimum_user_limit_percent`: percentage of the queue that each user may always
    use; with fewer users, each may use more. `user_limit_factor`: a user never holds more than this multiple
    of the queue's capacity. `priorities`: sort the queue's jobs by priority first.
    """

    capacity: float | None = None
    max_capacity: float = 100.0
    minimum_user_limit_percent: float | None = None
    user_limit_factor: float | None = None
    priorities: bool | None = None

    def completed(self, defaults: QueueSettings) -> QueueSettings:
        """Return these settings, where None is replaced by the value of `defaults`, except for `capacity`."""
        percent, factor = self.minimum_user_limit_percent, self.user_limit_factor
        priorities = self.priorities
        return replace(
            self,
            minimum_user_limit_percent=defaults.minimum_user_limit_percent if percent is None else percent,
            user_limit_factor=defaults.user_limit_factor if factor is None else factor,
            priorities=defaults.priorities if priorities is None else priorities,
        )


class Held:
    """The amount of slots, or of bytes of memory, that a queue holds, in total and by user."""

    __slots__ = ("by_user", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_user: dict[str, int] = {}

    def add(self, user: str, amount: int) -> None:
        """Add `amount` to the user's amount and to the total. A negative amount is subtracted."""
        self.total += amount
        self.by_user[user] = self.by_user.get(user, 0) + amount


class Queue:
    """A queue of the Capacity scheduler: its ready jobs, and the resources that its tasks hold, in slots or
    in bytes of memory.

    `settings` must have a value for each field, except for the `capacity` of a queue without a guaranteed share of
    its own. Such queues divide `unpromised`, a share of the cluster from 0 to 1.
    """

    __slots__ = (
        "held",
        "jobs_by_user",
        "max_share",
        "name",
        "named",
        "priorities",
        "ready",
        "share",
        "user_factor",
        "user_percent",
    )

    def __init__(self, name: str, settings: QueueSettings, unpromised: float) -> None:
        assert settings.minimum_user_limit_percent is not None and settings.user_limit_factor is not None
        self.name = name
        self.named = settings.capacity is not None
        self.share = unpromised if settings.capacity is None else settings.capacity / 100
        self.max_share = settings.max_capacity / 100
        self.user_percent = settings.minimum_user_limit_percent
        self.user_factor = settings.user_limit_factor
        self.priorities = bool(settings.priorities)
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.held: dict[TaskKind, Held] = {kind: Held() for kind in TaskKind}
        self.jobs_by_user: dict[str, int] = {}  # Numbers of jobs that have not ended.

    def promised_share(self, unnamed: int) -> float:
        """Return the guaranteed share of the cluster for the queue, from 0 to 1.

        `unnamed` is the number of queues with jobs that have no guaranteed share of their own, and therefore
        share the remaining capacity.
        """
        return self.share if self.named else self.share / max(1, unnamed)


def over_max(held: Held, need: int, most: float) -> bool:
    """Return whether a task that needs the amount `need` would make the queue exceed its maximum `most`.

    All amounts are in slots or in bytes of memory. A queue that holds nothing may always run one task.
    """
    return held.total > 0 and held.total + need > most + _SLACK


def user_limit(
    held: Held, need: int, promised: float, users: int, minimum_percent: float, factor: float
) -> int:
    """Return the user limit of a queue: a user who already holds this amount receives no more (as in Hadoop
    0.20).

    All amounts are in slots or in bytes of memory. `need`: amount for the next task. `promised`: the queue's
    guaranteed amount. `users`: number of the queue's users. Two amounts are compared: an equal part for each
    user, and `minimum_percent` percent, both of the guaranteed amount or, if the queue uses more, of the
    amount in use. The limit is the larger amount, but at most `factor` times the guaranteed amount and at
    least 1. Source: CapacitySchedulerQueue.
    """
    current = promised if held.total < promised else held.total + need
    limit = max(ceil(current / max(1, users) - _SLACK), ceil(current * minimum_percent / 100 - _SLACK))
    if promised > 0:
        limit = min(limit, ceil(promised * factor - _SLACK))
    return max(1, limit)

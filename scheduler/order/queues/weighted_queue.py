"""The queues of YARN's FairScheduler: in what order a queue offers a node to its members, and their fair shares.

Source: FSParentQueue, FSLeafQueue, FairSharePolicy, DominantResourceFairnessPolicy, FifoPolicy and ComputeFairShares of
Hadoop 3.4.1. At each level, the members of a queue are sorted by the queue's policy. Shares are divided when they are
asked for; YARN does so every 0.5 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from schedbed.scheduler.models.amounts import NOTHING, UNLIMITED, Amount
from schedbed.scheduler.order.preemption import Claim, fair_shares
from schedbed.scheduler.order.queues.queue_tree import Schedulable, TreeQueue

FAIR, DRF, FIFO = "fair", "drf", "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairQueueSettings:
    """The settings of a queue, with the names of Hadoop's allocation file. None selects that of all queues.

    `max_child_resources`: the most that each undeclared child queue may hold. `queues`: the declared child queues. A
    queue's preemption threshold and timeouts (s) hold for the queues below it that set none.
    """

    weight: float = 1.0
    min_resources: Amount = NOTHING
    max_resources: Amount | None = None
    max_child_resources: Amount | None = None
    max_running_apps: int | None = None
    max_am_share: float | None = None
    scheduling_policy: str | None = None
    allow_preemption_from: bool | None = None
    fair_share_preemption_threshold: float | None = None
    fair_share_preemption_timeout: float | None = None
    min_share_preemption_timeout: float | None = None
    queues: Mapping[str, FairQueueSettings] = field(default_factory=dict)


class FairQueue(TreeQueue):
    """A queue of the FairScheduler. `defaults` are the settings of all queues.

    `declared`: the settings name the queue. `most_masters`: the part of its fair share that ApplicationMasters may
    hold, negative for all. `share`: its fair share, of `divide`. `threshold`, `fair_timeout_s`, `min_timeout_s`: when
    jobs in the queue starve, see `Starvation`; a timeout may be infinite.
    """

    def __init__(
        self,
        name: str,
        settings: FairQueueSettings,
        defaults: FairQueueSettings,
        parent: FairQueue | None = None,
        *,
        declared: bool = True,
    ) -> None:
        super().__init__(name, parent)
        self._defaults = defaults
        self.weight, self.least = settings.weight, settings.min_resources
        self.policy = settings.scheduling_policy or defaults.scheduling_policy or FAIR
        inherited = None if parent is None or declared else parent.most_of_child
        self.most = settings.max_resources or inherited or defaults.max_resources or UNLIMITED
        self.most_of_child = settings.max_child_resources or defaults.max_child_resources
        self.is_limited = self.most != UNLIMITED or (parent is not None and parent.is_limited)
        self.most_apps = settings.max_running_apps or defaults.max_running_apps
        self.most_masters = _first((settings.max_am_share, defaults.max_am_share), 0.5)
        self.may_lose = settings.allow_preemption_from is not False and (parent is None or parent.may_lose)
        above = (
            (0.5, inf, inf)
            if parent is None
            else (parent.threshold, parent.fair_timeout_s, parent.min_timeout_s)
        )
        chain = (settings, defaults) if parent is None else (settings,)
        self.threshold = _first((each.fair_share_preemption_threshold for each in chain), above[0])
        self.fair_timeout_s = _first((each.fair_share_preemption_timeout for each in chain), above[1])
        self.min_timeout_s = _first((each.min_share_preemption_timeout for each in chain), above[2])
        for child, its in settings.queues.items():
            self.child(child, its)

    def child(self, name: str, settings: FairQueueSettings | None = None) -> FairQueue:
        """Make a child queue, undeclared unless it has settings."""
        its = settings or FairQueueSettings()
        made = FairQueue(self.path_of(name), its, self._defaults, self, declared=settings is not None)
        self.children[name] = made
        return made

    def full_for(self, more: Amount) -> FairQueue | None:
        """Return a queue of the path that would hold more than it may with `more` (fitsInMaxShare), or None."""
        return super().full_for(more) if self.is_limited else None

    def sorted(self, members: list[Any], cluster: Amount) -> list[Any]:
        """Return the members in the order of the queue's policy."""
        return sorted(members, key=lambda member: _KEYS[self.policy](member, cluster))

    def divide(self, total: Amount, cluster: Amount) -> None:
        """Divide the queue's fair share, `total`, among its members, down to the jobs (`updateInternal`).

        Queues without jobs that run have no share. Demand is no limit. Under the policy fair, only memory is shared.
        """
        self.share = total
        queues = [queue for queue in self.children.values() if queue.running]
        members: list[Any] = [*queues, *self.apps.values()]
        if self.policy == FIFO:
            first = min(members, key=lambda member: _KEYS[FIFO](member, cluster), default=None)
            shares = [total if member is first else NOTHING for member in members]
        else:
            memory = _shares(members, total, 0)
            vcores = _shares(members, total, 1) if self.policy == DRF else [0.0] * len(members)
            shares = [Amount(*both) for both in zip(memory, vcores, strict=True)]
        for member, its in zip(members, shares, strict=True):
            member.share = its
            if isinstance(member, FairQueue):
                member.divide(its, cluster)

    def compares(self, amount: Amount, cluster: Amount) -> float:
        """Return an amount as the queue's policy compares it: bytes of memory, or the dominant share."""
        if self.policy != DRF:
            return amount.memory_bytes
        return max(part / max(1, whole) for part, whole in zip(amount, cluster, strict=True))

    def check(self) -> None:
        """Raise ValueError if policies of this queue and of declared ones below cannot be combined (setPolicy)."""
        for child in self.children.values():
            if self.policy == FIFO:
                raise ValueError(
                    f"queue {self.name}: scheduling_policy fifo is for queues without child queues"
                )
            if child.policy == DRF and self.policy == FAIR:
                raise ValueError(
                    f"queue {child.name}: scheduling_policy drf needs drf in its parent {self.name}"
                    + (", whose policy is the one of all queues" if self.parent is None else "")
                )
            child.check()


def _first(values: Iterable[float | None], default: float) -> float:
    """Return the first value that is set."""
    return next((value for value in values if value is not None), default)


def _shares(members: Iterable[Any], total: Amount, part: int) -> list[float]:
    """Divide memory (part 0) or vcores (1) by weight, between the min and the max resources (ComputeFairShares)."""
    claims = [
        Claim(
            demand=getattr(member, "most", UNLIMITED)[part] if member.weight else member.least[part],
            weight=member.weight or 1.0,
            min_share=member.least[part],
        )
        for member in members
    ]
    return fair_shares(total[part], claims)


def _fair_key(member: Schedulable, cluster: Amount) -> tuple[Any, ...]:
    """Sort by memory (FairSharePolicy): below the min share first, by its used part; then by usage per weight.

    The min share counts up to the demand. A member of weight 0 comes after all others.
    """
    held, least = member.held.memory_bytes, member.least.memory_bytes
    least = min(least, member.demand().memory_bytes) if held < least else 0.0
    needy = held < least
    used = held / member.weight if member.weight else held
    return (not needy, held / least if needy else 0.0, not member.weight, used, member.tie)


def _drf_key(member: Schedulable, cluster: Amount) -> tuple[Any, ...]:
    """Sort by the dominant resource, then by the other one (DominantResourceFairnessPolicy).

    A resource is dominant if its held share of the cluster is largest. Members below the min share of it come first.
    """
    shares = [held / max(1, whole) for held, whole in zip(member.held, cluster, strict=True)]
    dominant = int(shares[1] > shares[0])
    needy = member.held[dominant] < member.least[dominant]
    if needy:
        pairs = zip(member.held, member.least, strict=True)
        ratios = [held / least if least else inf for held, least in pairs]
    else:
        ratios = [share / member.weight if member.weight else inf for share in shares]
    return (not needy, ratios[dominant], ratios[1 - dominant], member.tie)


_KEYS = {FAIR: _fair_key, DRF: _drf_key, FIFO: lambda member, cluster: member.fifo}

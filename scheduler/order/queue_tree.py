"""The tree of queues of YARN's FairScheduler, and the order in which it offers a node to the applications in it.

Source: FSQueue, FSParentQueue, FSLeafQueue, FairSharePolicy, DominantResourceFairnessPolicy and FifoPolicy of Hadoop
3.4.1. At each level, the members of a queue are sorted by the queue's policy; usage and shares are amounts of memory
and vcores, not numbers of tasks. Deviations: demand and usage are those of the moment, not of the last update (every
0.5 s); a job in a queue that has child queues competes with these, where YARN refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import Demand

FAIR, DRF, FIFO = "fair", "drf", "fifo"


class Amount(NamedTuple):
    """An amount of memory and of vcores."""

    memory_bytes: float = 0.0
    vcores: float = 0.0

    def plus(self, other: Amount, times: float = 1) -> Amount:
        return Amount(self.memory_bytes + times * other.memory_bytes, self.vcores + times * other.vcores)

    def fits(self, room: Amount) -> bool:
        """Return whether neither part exceeds that of `room` (Resources.fitsIn)."""
        return self.memory_bytes <= room.memory_bytes and self.vcores <= room.vcores


NOTHING, UNLIMITED = Amount(), Amount(inf, inf)


def amount_of(demand: Demand) -> Amount:
    """Return the amount that one container of this demand takes."""
    return Amount(demand.memory_bytes, demand.vcores)


@dataclass(frozen=True, slots=True, kw_only=True)
class FairQueueSettings:
    """The settings of a queue, with the names of Hadoop's allocation file. None selects the default of all queues.

    `max_child_resources`: the most that each undeclared child queue may hold. `queues`: the declared child queues.
    """

    weight: float = 1.0
    min_resources: Amount = NOTHING
    max_resources: Amount | None = None
    max_child_resources: Amount | None = None
    max_running_apps: int | None = None
    scheduling_policy: str | None = None
    queues: Mapping[str, FairQueueSettings] = field(default_factory=dict)


class Schedulable:
    """A member of a queue, which the queue sorts: an application or a child queue.

    `held`: the amount of the containers now. `tie`: decides between equal members: queues by name, applications by
    submission. `fifo`: the key under the policy fifo.
    """

    weight = 1.0
    least = NOTHING
    held = NOTHING
    tie: tuple[Any, ...]
    fifo: tuple[Any, ...]

    def demand(self) -> Amount:
        """Return the amount held and asked for."""
        raise NotImplementedError


class FairApp(Schedulable):
    """A job. `runs`: no limit of running applications holds it back. `asks`: a container of it could start."""

    def __init__(self, job: JobView, queue: FairQueue) -> None:
        self.job, self.queue = job, queue
        self.tie = (1, job.submit_s, job.serial, "")
        self.fifo = (1, *fifo_key(job))
        self.runs = self.asks = False

    def demand(self) -> Amount:
        """Return the amount held and asked for."""
        wanted = self.held
        for stage in self.job.stages:
            wanted = wanted.plus(amount_of(stage.demand), stage.unstarted if stage.ready else 0)
        return wanted

    def hold(self, held: Amount) -> None:
        """Change what the job holds, here and in the queues above it."""
        change = held.plus(self.held, -1)
        self.held = held
        if change != NOTHING:
            for queue in self.queue.path():
                queue.held = queue.held.plus(change)

    def ask(self, asks: bool) -> None:
        """Set whether the job asks for containers. It is offered nodes only if it also may run."""
        if asks != self.asks:
            self.asks = asks
            for queue in self.queue.path():
                queue.asking += 1 if asks else -1


class FairQueue(Schedulable):
    """A queue with its child queues and the jobs in it that may run. `defaults` are the settings of all queues.

    `declared`: the settings name the queue. `asking`, `running`: the numbers of jobs that ask for containers, and that
    may run, in the queue and below it.
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
        self.name, self._defaults, self.parent = name, defaults, parent
        self.tie = (0, 0.0, 0, name)
        self.fifo = (0, name)
        self.weight, self.least = settings.weight, settings.min_resources
        self.policy = settings.scheduling_policy or defaults.scheduling_policy or FAIR
        inherited = None if parent is None or declared else parent.most_of_child
        self.most = settings.max_resources or inherited or defaults.max_resources or UNLIMITED
        self.most_of_child = settings.max_child_resources or defaults.max_child_resources
        self.is_limited = self.most != UNLIMITED or (parent is not None and parent.is_limited)
        self.most_apps = settings.max_running_apps or defaults.max_running_apps
        self.asking = self.running = 0
        self.apps: dict[str, FairApp] = {}
        self.children: dict[str, FairQueue] = {}
        for child, its in settings.queues.items():
            self._add(child, its)

    def _add(self, child: str, settings: FairQueueSettings | None = None) -> FairQueue:
        path = child if self.parent is None else f"{self.name}.{child}"
        its = settings or FairQueueSettings()
        self.children[child] = FairQueue(path, its, self._defaults, self, declared=settings is not None)
        return self.children[child]

    def find(self, path: str) -> FairQueue:
        """Return the queue below this one, and make the queues that are missing on the way."""
        queue = self
        for name in path.removeprefix("root.").split("."):
            queue = queue.children.get(name) or queue._add(name)
        return queue

    def path(self) -> Iterator[FairQueue]:
        """Return this queue, its parent and so on, up to the root."""
        queue: FairQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def full_for(self, more: Amount) -> FairQueue | None:
        """Return a queue of the path that would hold more than it may with `more` (fitsInMaxShare), or None."""
        if not self.is_limited:
            return None
        return next((queue for queue in self.path() if not queue.held.plus(more).fits(queue.most)), None)

    def demand(self) -> Amount:
        """Return the amount held and asked for, at most that which the queue may hold (updateDemand)."""
        wanted = NOTHING
        for member in (*self.children.values(), *self.apps.values()):
            wanted = wanted.plus(member.demand())
        return Amount(*map(min, wanted, self.most))

    def in_order(self, cluster: Amount) -> Iterator[FairApp]:
        """Return the jobs below this queue that ask for containers, in the order in which they are offered a node."""
        members: list[FairApp | FairQueue] = [each for each in self.children.values() if each.asking]
        members += [app for app in self.apps.values() if app.asks]
        for member in sorted(members, key=lambda member: _KEYS[self.policy](member, cluster)):
            if isinstance(member, FairQueue):
                yield from member.in_order(cluster)
            else:
                yield member

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

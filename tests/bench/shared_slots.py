"""A model of several schedulers that launch tasks on one cluster, with shared slots or with a part of the slots
each.

Shared slots are those of Omega (Schwarzkopf et al., EuroSys 2013): each scheduler decides from a snapshot, and
a launch fails if another scheduler has taken the slot before the commit. With shards, each scheduler has slots
and jobs of its own: no launch fails, but a task may wait in a full shard while another shard has room.

The model is pure: the same case gives the same outcome in every process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, exp, inf

from schedbed.tasks.chance import Coin, chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cluster and its schedulers. Jobs of `job_tasks` tasks arrive at random times.

    The load is such that `free_share` of the slots are free on average, if the schedulers keep up. Tasks last
    `task_s` on average, and a scheduler decides for `decision_s` about each launch. `shards` is the number of
    parts of the slots; the schedulers are divided evenly among them. A job goes to a random shard, or with
    `balanced` to the shard with the fewest running and waiting tasks. The first `warm_s` of the `seconds` are
    not counted. Cases that differ in their schedulers only have the same arrivals.
    """

    slots: int
    free_share: float
    task_s: float
    schedulers: int
    decision_s: float
    shards: int = 1
    balanced: bool = False
    job_tasks: int = 1
    seconds: float
    warm_s: float = 0.0
    seed: int = 1

    @property
    def launches_per_s(self) -> float:
        """Return the rate at which tasks arrive, which is the rate of launches if the schedulers keep up."""
        return self.slots * (1 - self.free_share) / self.task_s


@dataclass(slots=True)
class Outcome:
    """The counts of a simulated case. Each decision ends in a launch or in a conflict.

    `wait_s` is the sum of the launched tasks' times from arrival to launch. `blocked_s` is the sum of the
    times that tasks waited in a full shard while another shard had a free slot.
    """

    seconds: float
    launches: int = 0
    conflicts: int = 0
    wait_s: float = 0.0
    blocked_s: float = 0.0

    @property
    def conflict_share(self) -> float:
        """Return the share of decisions that ended in a conflict, which is the share of wasted work."""
        return self.conflicts / max(1, self.launches + self.conflicts)

    @property
    def conflicts_per_launch(self) -> float:
        """Return the number of conflicts per launch, which Omega calls the conflict fraction."""
        return self.conflicts / max(1, self.launches)


def conflict_probability(launches_per_s: float, decision_s: float, schedulers: int, free: float) -> float:
    """Return the probability that a slot chosen at random among `free` slots is taken before the commit.

    In `decision_s`, the other schedulers commit `n` = `launches_per_s` * `decision_s` * (S - 1) / S launches.
    Each takes the chosen slot with probability 1 / `free`, so the result is 1 - exp(-n / `free`).
    """
    others = launches_per_s * decision_s * (schedulers - 1) / schedulers
    return 1 - exp(-others / free)


def schedulers_needed(launches_per_s: float, decision_s: float, free: float, spare: float = 1.25) -> int:
    """Return the number of schedulers that keep up with the launches, conflicts included.

    `spare` is the number divided by the number of schedulers that are busy on average.
    """
    busy = launches_per_s * decision_s
    return max(1, ceil(spare * busy / (1 - conflict_probability(launches_per_s, decision_s, 10**9, free))))


class _Pool:
    """The slots of a shard, its waiting tasks (by time of arrival), and the number of its idle schedulers.

    `order` lists the slots with the `busy` busy ones first, and `place` is a slot's position in `order`.
    """

    __slots__ = ("busy", "idle", "order", "place", "waiting")

    def __init__(self, slots: int, busy: int, schedulers: int) -> None:
        self.order = list(range(slots))
        self.place = list(range(slots))
        self.busy = busy
        self.idle = schedulers
        self.waiting: deque[float] = deque()

    @property
    def is_full(self) -> bool:
        """Return whether no slot is free."""
        return self.busy == len(self.order)

    @property
    def load(self) -> int:
        """Return the number of running and waiting tasks."""
        return self.busy + len(self.waiting)

    def choose(self, luck: Coin) -> int:
        """Return a free slot, chosen at random."""
        return self.order[self.busy + int(luck.random() * (len(self.order) - self.busy))]

    def is_free(self, slot: int) -> bool:
        """Return whether the slot is free."""
        return self.place[slot] >= self.busy

    def take(self, slot: int) -> None:
        """Make a free slot busy."""
        self._swap(self.place[slot], self.busy)
        self.busy += 1

    def release(self, number: int) -> None:
        """Make the busy slot at position `number` free."""
        self.busy -= 1
        self._swap(number, self.busy)

    def _swap(self, one: int, other: int) -> None:
        order, place = self.order, self.place
        order[one], order[other] = order[other], order[one]
        place[order[one]], place[order[other]] = one, other


@dataclass(slots=True)
class _Run:
    """The state of a simulation. `decisions` is a heap of (commit time, number, shard, slot, arrival)."""

    case: Case
    luck: Coin
    arrivals: Coin
    pools: Sequence[_Pool]
    outcome: Outcome
    now_s: float = 0.0
    number: int = 0
    decisions: list[tuple[float, int, int, int, float]] = field(default_factory=list)

    def begin_decisions(self, shard: int) -> None:
        """Let idle schedulers of a shard decide about waiting tasks, while the shard has free slots."""
        pool = self.pools[shard]
        while pool.idle and pool.waiting and not pool.is_full:
            pool.idle -= 1
            self.number += 1
            slot, due_s = pool.choose(self.luck), self.now_s + self.case.decision_s
            heappush(self.decisions, (due_s, self.number, shard, slot, pool.waiting.popleft()))

    def commit(self) -> None:
        """Commit the next decision: launch the task, or put the task back if the slot is taken."""
        self.now_s, _, shard, slot, arrival_s = heappop(self.decisions)
        pool, counts = self.pools[shard], self.now_s >= self.case.warm_s
        pool.idle += 1
        if pool.is_free(slot):
            pool.take(slot)
            self.outcome.launches += counts
            self.outcome.wait_s += counts * (self.now_s - arrival_s)
        else:
            pool.waiting.appendleft(arrival_s)
            self.outcome.conflicts += counts
        self.begin_decisions(shard)

    def end_task(self) -> None:
        """End a running task, chosen at random among all, and free its slot."""
        number = int(self.luck.random() * sum(pool.busy for pool in self.pools))
        for shard, pool in enumerate(self.pools):
            if number < pool.busy:
                pool.release(number)
                self.begin_decisions(shard)
                return
            number -= pool.busy

    def submit_job(self) -> None:
        """Add a job's tasks to a shard."""
        shard = int(self.arrivals.random() * len(self.pools))
        if self.case.balanced:
            shard = min(range(len(self.pools)), key=lambda number: self.pools[number].load)
        self.pools[shard].waiting.extend([self.now_s] * self.case.job_tasks)
        self.begin_decisions(shard)

    def pass_time(self, until_s: float) -> None:
        """Move the clock, and count the tasks that wait in a full shard while another shard has room."""
        if self.now_s >= self.case.warm_s and not all(pool.is_full for pool in self.pools):
            blocked = sum(len(pool.waiting) for pool in self.pools if pool.is_full)
            self.outcome.blocked_s += blocked * (until_s - self.now_s)
        self.now_s = until_s


def simulate(case: Case) -> Outcome:
    """Simulate a case with tasks of exponential length, and return its counts.

    Tasks without memory need no list of ends: the next end comes after a time that depends on the number of
    busy slots only.
    """
    size, crew = case.slots // case.shards, case.schedulers // case.shards
    pools = [_Pool(size, round(size * (1 - case.free_share)), crew) for _ in range(case.shards)]
    luck, arrivals = (chance(case.seed, "shared slots", what) for what in ("ends", "arrivals"))
    run = _Run(case, luck, arrivals, pools, Outcome(case.seconds - case.warm_s))
    jobs_per_s = case.launches_per_s / case.job_tasks
    job_s = arrivals.expovariate(jobs_per_s)
    while True:
        end_s = run.now_s + luck.expovariate(max(1, sum(pool.busy for pool in pools)) / case.task_s)
        commit_s = run.decisions[0][0] if run.decisions else inf
        next_s = min(end_s, commit_s, job_s)
        if next_s >= case.seconds:
            return run.outcome
        if len(pools) > 1:
            run.pass_time(next_s)
        run.now_s = next_s
        if next_s == commit_s:
            run.commit()
        elif next_s == job_s:
            run.submit_job()
            job_s += arrivals.expovariate(jobs_per_s)
        else:
            run.end_task()

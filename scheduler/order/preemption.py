"""Preemption as in HFS (Hadoop's fair scheduler): finds the pools that have lacked slots for too long, and
the attempts to kill for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from schedbed.scheduler.hooks import Kill, own
from schedbed.scheduler.order.pools import Pool
from schedbed.scheduler.policy import Admission
from schedbed.scheduler.view import AttemptView, View
from schedbed.tasks.specs import TaskKind

_SLACK = 1e-9  # shares are sums of fractions


def frees_slots(admission: Admission) -> bool:
    """Return whether a kill frees a slot for others, without which preemption is useless."""
    return admission.limits.slots and not own(admission, "keeps_slots")


class Preemption:
    """A rule that kills attempts for pools that were below their min share or half their fair share for too
    long (FairScheduler.tasksToPreempt and preemptTasks of Hadoop 1.0.3).

    `min_share_timeout_s` and `fair_share_timeout_s` are the seconds that a pool may stay below its min share,
    or below half its fair share; None is no limit. A pool may have a `min_share_timeout_s` of its own. Between
    two looks for such pools are `look_s` seconds.
    """

    def __init__(
        self, min_share_timeout_s: float | None, fair_share_timeout_s: float | None, look_s: float = 0.0
    ) -> None:
        self._min_timeout_s = min_share_timeout_s
        self._fair_timeout_s = fair_share_timeout_s
        self._look_s = look_s
        self._looked_s = -inf
        # The last times at which a pool had its min share, had half its fair share, and took slots back.
        self._at_min_s: dict[tuple[str, TaskKind], float] = {}
        self._at_half_s: dict[tuple[str, TaskKind], float] = {}
        self._took_s: dict[tuple[str, TaskKind], float] = {}

    def kills(self, view: View, pools: Mapping[str, Pool]) -> list[tuple[str, Kill]]:
        """Return the attempts to kill now, each with the name of the pool that lacks a slot.

        Attempts are killed only in pools that hold more than their fair share.
        """
        looks = view.now_s >= self._looked_s + self._look_s
        if looks:
            self._looked_s = view.now_s
        kills: list[tuple[str, Kill]] = []
        for kind in TaskKind:
            shares = self.shares(view, pools, kind)
            owed = [(name, *self._owed(view, pools[name], kind, share)) for name, share in shares.items()]
            if looks:
                for name, kill in take_back(pools, kind, owed, shares):
                    kills.append((name, kill))
                    self._took_s[name, kind] = view.now_s
        return kills

    @staticmethod
    def shares(view: View, pools: Mapping[str, Pool], kind: TaskKind) -> dict[str, float]:
        """Return a dictionary from each pool to its fair share of the slots of that kind."""
        claims = {
            name: Claim(_demand(pool, kind), pool.settings.weight, pool.settings.min_share.of(kind))
            for name, pool in pools.items()
            if kind in pool.tallies
        }
        return dict(zip(claims, fair_shares(view.slots(kind), list(claims.values())), strict=True))

    def _owed(self, view: View, pool: Pool, kind: TaskKind, share: float) -> tuple[int, str]:
        """Return the slots that a pool may take now, and why. Updates when it last had its shares."""
        held, key, now_s = slots_of(pool, kind), (pool.name, kind), view.now_s
        promised = min(pool.settings.min_share.of(kind), _demand(pool, kind), share)
        if held >= promised or key not in self._at_min_s:
            self._at_min_s[key] = now_s
        if held >= share / 2 or key not in self._at_half_s:
            self._at_half_s[key] = now_s
        took_s = self._took_s.get(key, 0.0)  # What was taken comes later, and may be declined.
        hungry_s, starved_s = now_s - self._at_min_s[key], now_s - self._at_half_s[key]
        timeout_s = self._min_timeout_of(pool)
        owed, why = 0, ""
        if timeout_s is not None and min(hungry_s, now_s - took_s) > timeout_s:
            owed = int(promised - held + _SLACK)
            why = f"pool {pool.name} was below its min share for {hungry_s:.1f} s"
        if self._fair_timeout_s is not None and min(starved_s, now_s - took_s) > self._fair_timeout_s:
            due = int(share - held + _SLACK)
            if due > owed:
                owed, why = due, f"pool {pool.name} was below half its fair share for {starved_s:.1f} s"
        return owed, why

    def _min_timeout_of(self, pool: Pool) -> float | None:
        own_s = pool.settings.min_share_timeout_s
        return self._min_timeout_s if own_s is None else own_s

    def starves(self, view: View, pool: Pool, kind: TaskKind) -> bool:
        """Return whether the pool has lacked slots for longer than a timeout.

        Its jobs then do not wait for data (FairScheduler.getAllowedLocalityLevel).
        """
        key, timeout_s = (pool.name, kind), self._min_timeout_of(pool)
        at_min_s, at_half_s = self._at_min_s.get(key, view.now_s), self._at_half_s.get(key, view.now_s)
        return (timeout_s is not None and view.now_s - at_min_s > timeout_s) or (
            self._fair_timeout_s is not None and view.now_s - at_half_s > self._fair_timeout_s
        )


def _demand(pool: Pool, kind: TaskKind) -> float:
    """Return the number of slots that the pool could use now."""
    return min(slots_of(pool, kind) + pool.startable(kind), pool.settings.max_share.of(kind))


def take_back(
    pools: Mapping[str, Pool],
    kind: TaskKind,
    owed: Iterable[tuple[str, int, str]],
    shares: Mapping[str, float],
) -> Iterator[tuple[str, Kill]]:
    """Yield (pool in need, kill) for what is owed, less what earlier kills are about to free.

    Only pools that hold more than their share lose attempts.
    """
    left = {name: slots_of(pools[name], kind) for name in shares}
    coming = sum(pools[name].tallies[kind].killing for name in shares)
    victims = _victims(pools, list(shares), kind, left, shares)
    for name, slots, why in owed:
        spared = min(slots, coming)
        coming -= spared
        for _ in range(slots - spared):
            attempt = next(victims, None)
            if attempt is None:
                return
            yield name, Kill(attempt, why)


def slots_of(pool: Pool, kind: TaskKind) -> int:
    """Return the number of slots of that kind that the pool holds, except slots whose attempts are being killed."""
    tally = pool.tallies[kind]
    return tally.running - tally.killing


def _victims(
    pools: Mapping[str, Pool],
    names: list[str],
    kind: TaskKind,
    left: dict[str, int],
    shares: Mapping[str, float],
) -> Iterator[AttemptView]:
    """Yield attempts to kill from pools above their value in `shares`, the most recent launch first.

    `left`: number of slots that each pool still holds; it is decreased for each kill. The last kill may take a
    pool below its share by less than a slot: otherwise no pool could be given a whole slot where all shares of the
    others are fractions.
    """
    rich = [name for name in names if left[name] > shares[name] + _SLACK]
    candidates = [
        (attempt.serial, name, attempt)
        for name in rich
        for job in pools[name].jobs
        for attempt in job.attempts.values()
        if attempt.task.kind is kind and attempt.state != "killing"
    ]
    for _, name, attempt in sorted(candidates, key=lambda candidate: -candidate[0]):
        if left[name] > shares[name] + _SLACK:
            left[name] -= 1
            yield attempt


# Fair shares of slots by water-filling (HFS; Hadoop's SchedulingAlgorithms), as a pure function.


class Claim(NamedTuple):
    """The claim of one pool to slots: the number it could use (`demand`), its minimum (`min_share`) and its
    weight, above 0."""

    demand: float
    weight: float = 1.0
    min_share: float = 0.0


def fair_shares(capacity: float, claims: Sequence[Claim]) -> list[float]:
    """Divide slots by weight x one level for all, limited from min share (or demand, if smaller) to demand.

    The level makes shares add up to the capacity. Smaller demands are met in full. Min shares that add up to
    more than the capacity are not reduced, as in Hadoop 1.0.3 (SchedulingAlgorithms.computeFairShares): a pool
    at its min share loses nothing.
    """
    floors = [min(claim.min_share, claim.demand) for claim in claims]
    promised = sum(floors)
    if promised >= capacity:
        return floors
    if sum(claim.demand for claim in claims) <= capacity:
        return [claim.demand for claim in claims]
    level = _level(capacity - promised, claims, floors)
    return [
        min(max(claim.weight * level, floor), claim.demand)
        for claim, floor in zip(claims, floors, strict=True)
    ]


def _level(left: float, claims: Sequence[Claim], floors: Sequence[float]) -> float:
    """Return the level (share / weight) at which shares add up to `floors` plus `left`, which demands must reach."""
    turns = [(floor / claim.weight, claim.weight) for claim, floor in zip(claims, floors, strict=True)]
    turns += [(claim.demand / claim.weight, -claim.weight) for claim in claims]
    level = width = 0.0
    for turn, change in sorted(turns):
        poured = width * (turn - level)
        if poured >= left > 0 and width > 0:
            break
        left -= poured
        level = turn
        width += change
    return level + left / width if width > 0 else level

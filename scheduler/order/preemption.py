"""Preemption as in HFS (Hadoop's fair scheduler): finds the pools that have lacked slots for too long, and
the attempts to kill for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schedbed.scheduler.order.pools import Pool
from schedbed.scheduler.policy import Admission, Kill
from schedbed.scheduler.view import AttemptView, View
from schedbed.tasks.specs import TaskKind

_SLACK = 1e-9  # shares are sums of fractions


def frees_slots(admission: Admission) -> bool:
    """Return whether a killed attempt frees a slot for other jobs, without which preemption is useless."""
    return admission.limits.slots and not getattr(admission, "keeps_slots", False)


class Preemption:
    """A rule that kills attempts for pools that were below their min share or half their fair share for too
    long.

    `min_share_timeout_s` and `fair_share_timeout_s` are the seconds that a pool may stay below its min share,
    or below half its fair share; None is no limit. The instance stores for each pool the last time at which
    the pool had its min share, and half its fair share.
    """

    def __init__(self, min_share_timeout_s: float | None, fair_share_timeout_s: float | None) -> None:
        self._min_timeout_s = min_share_timeout_s
        self._fair_timeout_s = fair_share_timeout_s
        self._at_min_s: dict[tuple[str, TaskKind], float] = {}
        self._at_half_s: dict[tuple[str, TaskKind], float] = {}

    def kills(self, view: View, pools: Mapping[str, Pool], kind: TaskKind) -> list[Kill]:
        """Return the attempts of that kind to kill now for pools that lack slots.

        No kill takes a pool below its fair share.
        """
        names = [name for name, pool in pools.items() if kind in pool.tallies]
        shares = self.shares(view, pools, names, kind)
        owed = [(name, *self._owed(view, pools[name], kind, shares[name])) for name in names]
        kills: list[Kill] = []
        for name, kill in take_back(pools, kind, owed, shares):
            kills.append(kill)
            # The pool's jobs may decline the slots (delay scheduling), so the next kill waits for a new timeout.
            self._at_min_s[name, kind] = self._at_half_s[name, kind] = view.now_s
        return kills

    @staticmethod
    def shares(view: View, pools: Mapping[str, Pool], names: list[str], kind: TaskKind) -> dict[str, float]:
        """Return a dictionary from each pool in `names` to its fair share of the slots of that kind."""
        claims = [
            Claim(
                slots_of(pools[name], kind) + pools[name].tallies[kind].unstarted,
                pools[name].settings.weight,
                pools[name].settings.min_share,
            )
            for name in names
        ]
        return dict(zip(names, fair_shares(view.slots(kind), claims), strict=True))

    def _owed(self, view: View, pool: Pool, kind: TaskKind, share: float) -> tuple[int, str]:
        """Return the number of slots that the pool may take from other pools now, and the reason as text.

        Also updates the last times at which the pool had its min share and half its fair share. `share` is
        the pool's fair share in slots.
        """
        held, key, now_s = slots_of(pool, kind), (pool.name, kind), view.now_s
        promised = min(pool.settings.min_share, held + pool.tallies[kind].unstarted, share)
        if held >= promised or key not in self._at_min_s:
            self._at_min_s[key] = now_s
        if held >= share / 2 or key not in self._at_half_s:
            self._at_half_s[key] = now_s
        hungry_s, starved_s = now_s - self._at_min_s[key], now_s - self._at_half_s[key]
        owed, why = 0, ""
        if self._min_timeout_s is not None and hungry_s > self._min_timeout_s:
            owed = int(promised - held + _SLACK)
            why = f"pool {pool.name} was below its min share for {hungry_s:.1f} s"
        if self._fair_timeout_s is not None and starved_s > self._fair_timeout_s:
            due = int(share - held + _SLACK)
            if due > owed:
                owed, why = due, f"pool {pool.name} was below half its fair share for {starved_s:.1f} s"
        return owed, why


def take_back(
    pools: Mapping[str, Pool],
    kind: TaskKind,
    owed: Iterable[tuple[str, int, str]],
    shares: Mapping[str, float],
) -> Iterator[tuple[str, Kill]]:
    """Yield a pair for each attempt to kill: the name of the pool that needs the slot, and the kill.

    `owed`: for each pool that lacks slots, its name, the number of slots and the reason. Slots that earlier
    kills are about to free are subtracted from these numbers. Attempts are killed only in pools that hold
    more slots than their share in `shares`.
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
    """Return the number of slots of that kind that the pool holds, except slots whose attempts are being
    killed."""
    tally = pool.tallies[kind]
    return tally.running - tally.killing


def _victims(
    pools: Mapping[str, Pool],
    names: list[str],
    kind: TaskKind,
    left: dict[str, int],
    shares: Mapping[str, float],
) -> Iterator[AttemptView]:
    """Yield attempts to kill from pools above their share, the most recent launch first.

    `left`: number of slots that each pool still holds; it is decreased for each kill. No pool falls below its
    value in `shares`.
    """
    rich = [name for name in names if left[name] - 1 >= shares[name] - _SLACK]
    candidates = [
        (attempt.serial, name, attempt)
        for name in rich
        for job in pools[name].jobs
        for attempt in job.attempts.values()
        if attempt.task.kind is kind and attempt.state != "killing"
    ]
    for _, name, attempt in sorted(candidates, key=lambda candidate: -candidate[0]):
        if left[name] - 1 >= shares[name] - _SLACK:
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
    """Divide `capacity` slots among the claims, and return the shares in the order of the claims.

    A share is the claim's weight x a level, limited to a range. The range is from the smaller of min share
    and demand up to the demand. The level is the same for all claims, and is chosen so that the shares add up
    to the capacity. If the demands are less than the capacity, each share is the demand. Min shares that
    together exceed the capacity are reduced in proportion.
    """
    floors = [min(claim.min_share, claim.demand) for claim in claims]
    promised = sum(floors)
    if promised >= capacity:
        return [floor * capacity / promised if promised else 0.0 for floor in floors]
    if sum(claim.demand for claim in claims) <= capacity:
        return [claim.demand for claim in claims]
    level = _level(capacity - promised, claims, floors)
    return [
        min(max(claim.weight * level, floor), claim.demand)
        for claim, floor in zip(claims, floors, strict=True)
    ]


def _level(left: float, claims: Sequence[Claim], floors: Sequence[float]) -> float:
    """Return the level (share / weight, equal for all claims) at which the shares add up to the min shares
    plus `left` slots.

    `floors` are the min shares. The demands must add up to at least the min shares plus `left`.
    """
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

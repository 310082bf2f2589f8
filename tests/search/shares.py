"""Reference for the fair shares that pre-emption uses, computed by bisection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.scheduler.order.pools import PoolSettings
from schedbed.scheduler.view import View
from schedbed.tasks.specs import TaskKind

Claim = tuple[int, float, int]
"""A pool's demand (slots), weight and min share (slots)."""


def shares_of_pools(
    view: View, kind: TaskKind, by_user: bool, settings: Mapping[str, PoolSettings]
) -> tuple[dict[str, float], dict[str, int]]:
    """Return each pool's fair share of the slots of one kind, and the number of slots that each pool holds.

    Attempts that are being killed do not count as held slots.
    """
    held: dict[str, int] = {}
    wants: dict[str, int] = {}
    for job in view.jobs.values():
        pool, stage = job.user if by_user else job.queue, job.stage(kind)
        held[pool] = held.get(pool, 0) + stage.running - stage.killing
        could_start = stage.unstarted if stage.ready else 0
        wants[pool] = wants.get(pool, 0) + could_start + stage.running - stage.killing
    claims = []
    for pool, demand in wants.items():
        known = settings.get(pool, PoolSettings())
        claims.append((demand, known.weight, int(known.min_share.of(kind))))
    return dict(zip(wants, pour(view.slots(kind), claims), strict=True)), held


def pour(slots: int, claims: Sequence[Claim]) -> list[float]:
    """Return the pools' shares of the slots, in the order of `claims`, found by bisection of a common level.

    A share is the pool's weight times the level, limited to at least the min share and at most the demand. Min
    shares that add up to more than the slots are all there is.
    """
    floors = [min(floor, demand) for demand, _, floor in claims]
    if sum(floors) >= slots:
        return [float(floor) for floor in floors]

    def at(level: float) -> list[float]:
        return [
            min(max(weight * level, floor), demand)
            for (demand, weight, _), floor in zip(claims, floors, strict=True)
        ]

    if sum(demand for demand, _, _ in claims) <= slots:
        return [float(demand) for demand, _, _ in claims]
    low, high = 0.0, float(slots + sum(demand for demand, _, _ in claims)) + 1.0
    for _ in range(64):
        middle = (low + high) / 2
        if sum(at(middle)) < slots:
            low = middle
        else:
            high = middle
    return at(high)

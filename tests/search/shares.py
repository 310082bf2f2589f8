"""Fair shares once more, by bisection: what pre-emption's own arithmetic is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.scheduler.order.pools import PoolSettings
from schedbed.scheduler.view import View
from schedbed.tasks.specs import TaskKind

Claim = tuple[int, float, int]
"""What a pool wants (slots), its weight and its min share."""


def shares_of_pools(
    view: View, kind: TaskKind, by_user: bool, settings: Mapping[str, PoolSettings]
) -> tuple[dict[str, float], dict[str, int]]:
    """Each pool's fair share of the slots of that kind, and how many it holds and will keep."""
    held: dict[str, int] = {}
    wants: dict[str, int] = {}
    for job in view.jobs.values():
        pool, stage = job.user if by_user else job.queue, job.stage(kind)
        held[pool] = held.get(pool, 0) + stage.running - stage.killing
        wants[pool] = wants.get(pool, 0) + stage.unstarted + stage.running - stage.killing
    claims = []
    for pool, demand in wants.items():
        known = settings.get(pool, PoolSettings())
        claims.append((demand, known.weight, known.min_share))
    return dict(zip(wants, pour(view.slots(kind), claims), strict=True)), held


def pour(slots: int, claims: Sequence[Claim]) -> list[float]:
    """The level at which all shares add up to the slots; a share is between its floor and its demand."""
    floors = [min(floor, demand) for demand, _, floor in claims]
    if sum(floors) >= slots:
        return [floor * slots / sum(floors) if sum(floors) else 0.0 for floor in floors]

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

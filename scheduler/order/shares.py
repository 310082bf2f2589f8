"""Fair shares of slots by water-filling (HFS; Hadoop's SchedulingAlgorithms), as a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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

"""Ranks of policies over workloads: Friedman's test, Nemenyi's critical difference, and rank correlation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from schedbed.deploy.results.stats import mean_interval

LEVEL = 0.95
POLICIES_LEAST, BLOCKS_LEAST = 3, 2


@dataclass(frozen=True, slots=True)
class Ranked:
    """Mean ranks of policies over `blocks` workloads, best first.

    Ranks closer than `critical` are the same (Nemenyi, 5%). `p` is Friedman's: the probability of such ranks
    if all were equal. Both are None with too few policies or workloads.
    """

    ranks: Mapping[str, float]
    blocks: int
    critical: float | None
    p: float | None

    def interval(self, policy: str) -> tuple[float, float] | None:
        """Return the rank minus and plus half of `critical`: intervals that do not overlap differ. Or None."""
        if self.critical is None:
            return None
        return self.ranks[policy] - self.critical / 2, self.ranks[policy] + self.critical / 2


def rank(values: Mapping[str, Sequence[float | None]]) -> Ranked:
    """Return mean ranks of values per workload, smaller being better; failures (None) rank last, tied."""
    from scipy.stats import friedmanchisquare, rankdata

    policies = list(values)
    table = np.array(
        [[math.inf if value is None else value for value in values[policy]] for policy in policies], float
    )
    blocks = table.shape[1] if policies else 0
    if not blocks:
        return Ranked({}, 0, None, None)
    ranks = np.array([rankdata(column) for column in table.T])
    order = sorted(zip(ranks.mean(axis=0), policies, strict=True))
    p = critical = None
    if len(policies) >= POLICIES_LEAST and blocks >= BLOCKS_LEAST:
        critical = critical_difference(len(policies), blocks)
        alike = bool((ranks == ranks[:, :1]).all())
        p = 1.0 if alike else float(friedmanchisquare(*ranks.T).pvalue)
    return Ranked({policy: float(mean) for mean, policy in order}, blocks, critical, p)


def critical_difference(policies: int, blocks: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at the 5% level. `blocks` is the number of workloads."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(LEVEL, policies, math.inf) / math.sqrt(2)
    return float(q * math.sqrt(policies * (policies + 1) / (6 * blocks)))


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the policies that none dominates, by (slowdown, fairness): less and more is better."""
    return [
        mine
        for mine, (slowdown, jain) in points.items()
        if not any(s <= slowdown and j >= jain and (s, j) != (slowdown, jain) for s, j in points.values())
    ]


def agreement(sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> dict[str, Any]:
    """Return how two rankings of the same policies agree: `rho`, `ci95` and `orders`.

    `sides` has both sides' values for each run. `rho` is the mean of Spearman's correlations, `ci95` its 95%
    interval by Student's t within -1..1; None with too few runs. `orders` counts the runs used: not those
    with equal values on one side.
    """
    from scipy.stats import rankdata

    found = [
        float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
        for one, other in sides
        if len(set(one)) > 1 < len(set(other))
    ]
    ends = mean_interval(found)
    return {
        "rho": fmean(found) if found else None,
        "ci95": None if ends is None else [max(-1.0, ends[0]), min(1.0, ends[1])],
        "orders": len(found),
    }


# The fitness of one policy in the arena, for programs that search for better policies.


def score_of(summary: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return `score` and more for a search program: the negative mean slowdown, None if a simulation failed."""
    cells = summary["cells"][policy]
    values = [cell[summary["ranked_by"]] for cell in cells.values()]
    known = [value for value in values if value is not None]
    whole = bool(values) and len(known) == len(values)
    why = next((cell["why"] for cell in cells.values() if cell[summary["ranked_by"]] is None), "")
    return {
        "policy": policy,
        "score": -sum(known) / len(known) if whole else None,
        "workloads": dict(zip(cells, values, strict=True)),
        **summary["policies"][policy],
        "note": why,
    }

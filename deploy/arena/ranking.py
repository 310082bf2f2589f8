"""Ranks of policies over several workloads.

The methods are Friedman's test, Nemenyi's critical difference, and the correlation of two rankings.
"""

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
    """The mean ranks of policies over `blocks` workloads, ordered from the best (lowest) rank to the worst.

    Policies whose ranks differ by less than `critical` cannot be distinguished (Nemenyi's test at 5%). `p` is
    the p-value of Friedman's test: the probability of such different ranks if all policies were equal.
    `critical` and `p` are None with too few policies or workloads.
    """

    ranks: Mapping[str, float]
    blocks: int
    critical: float | None
    p: float | None

    def interval(self, policy: str) -> tuple[float, float] | None:
        """Return the policy's rank minus and plus half of Nemenyi's critical difference.

        Policies whose intervals do not overlap differ significantly. Return None if the attribute `critical`,
        the critical difference, is None.
        """
        if self.critical is None:
            return None
        return self.ranks[policy] - self.critical / 2, self.ranks[policy] + self.critical / 2


def rank(values: Mapping[str, Sequence[float | None]]) -> Ranked:
    """Return the mean ranks of policies.

    `values` contains one value per workload for each policy, and smaller values are better. None is the value
    of a failed simulation. It ranks last, tied with other failures on the same workload.
    """
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
    """Return Nemenyi's critical difference of mean ranks at the 5% level. `blocks` is the number of
    workloads.
    """
    from scipy.stats import studentized_range

    q = studentized_range.ppf(LEVEL, policies, math.inf) / math.sqrt(2)
    return float(q * math.sqrt(policies * (policies + 1) / (6 * blocks)))


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the policies on the Pareto front, which are those that no other policy dominates.

    `points` maps each policy to (slowdown, fairness): smaller slowdown and larger fairness are better.
    """
    return [
        mine
        for mine, (slowdown, jain) in points.items()
        if not any(s <= slowdown and j >= jain and (s, j) != (slowdown, jain) for s, j in points.values())
    ]


def agreement(sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> dict[str, Any]:
    """Return the agreement of two rankings of the same policies as `rho`, `ci95` and `orders`.

    `sides` has two sequences for each run: the policies' values on the first and on the second side, such as
    live and simulated. `rho` is the mean of Spearman's rank correlations of the runs, or None without a run.
    `ci95` is the 95% confidence interval of `rho` by Student's t, limited to the range from -1 to 1, or None
    with too few runs. `orders` is the number of runs used. A run is not used if all policies have equal
    values on one side.
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
    """Return the policy's result for a search program, taken from the arena's summary.

    The result contains `score`, the slowdown on each workload, the mean metrics and a note. `score` is the
    negative mean slowdown over all workloads, so larger is better. It is None if a simulation failed.
    """
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

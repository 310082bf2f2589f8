"""Computes which share of the drawn clusters match the paper, and on which share of these a claim holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.paper_file import Value

CONFIDENCE = 0.95
FEW = 10
"""The least number of matching clusters from which the page draws conclusions."""

Draws = Sequence[Mapping[str, Any]]
"""Draws in the form that `Draw.to_json` returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitShare:
    """A share of the drawn clusters with its 95% interval: `count` clusters of `of` have some property.

    The property is, for example, that the cluster matches the paper. `low` and `high` are the bounds of the
    interval (Clopper-Pearson), as numbers from 0 to 1.
    """

    count: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        """Return the share as text: `12 of 40, 30% [17, 47]`."""
        if not self.of:
            return "0 of 0"
        percent = 100 * self.count / self.of
        return f"{self.count} of {self.of}, {percent:.0f}% [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimShare:
    """A claim, and our values for the claim on the clusters that match the paper.

    `share` is the share of these clusters on which the claim holds.
    """

    key: str
    said: Value
    share: FitShare
    middle: float | None  # the median of our values
    values: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the least and the largest value with which the claim holds."""
        return self.said.bounds()


def share(count: int, of: int) -> FitShare:
    """Return the share `count` of `of` with its exact 95% interval. If `of` is 0, the interval is [0, 1]."""
    if not of:
        return FitShare(count=0, of=0, low=0.0, high=1.0)
    from scipy.stats import binomtest

    found = binomtest(count, of).proportion_ci(CONFIDENCE, method="exact")
    return FitShare(count=count, of=of, low=float(found.low), high=float(found.high))


def fitting(draws: Draws) -> Draws:
    """Return the draws whose cluster matches all values that the paper prints."""
    return [draw for draw in draws if not draw["misses"]]


def misses(draws: Draws) -> Mapping[str, int]:
    """Return how many draws ended because a value did not match, as a dictionary from the value's key.

    A draw ends with the first simulated value that does not match the paper.
    """
    return Counter(draw["misses"] for draw in draws if draw["misses"])


def shares_of_claims(paper: str, draws: Draws) -> list[ClaimShare]:
    """Return a `ClaimShare` for each claim in the section `posterior` of the paper's paper.yaml.

    Only draws that match the paper are used.
    """
    said, fits = paper_file.load(paper), fitting(draws)
    assert said.posterior is not None
    found: list[ClaimShare] = []
    for key in said.posterior.claims:
        experiment, _, name = key.partition("/")
        value = said.experiments[experiment].values[name]
        low, high = value.bounds()
        ours = tuple(float(draw["claims"][key]) for draw in fits)
        found.append(
            ClaimShare(
                key=key,
                said=value,
                share=share(sum(low <= each <= high for each in ours), len(ours)),
                middle=median(ours) if ours else None,
                values=ours,
            )
        )
    return found

"""The comparison of two policies by one metric: which is better, by how much, and whether a test confirms it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import FIGURES, Figure, Policies, differs_from_first, leaf_of

LEAST = 0.01
"""The least relative difference that counts where nothing is tested, and between two runs of one job."""
FIGURE_OF: Mapping[str, Figure] = {figure.label: figure for figure in FIGURES}
HEADLINES = ("completion, mean", "slowdown, mean", "late deadlines", "makespan")
"""The rows that may determine the winner of a run, in this order."""
OTHERS = ("node-local maps", "fairness (Jain)", "completion, p95", "wait of a job, mean")
"""Further rows about which the report writes sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two policies compared by one metric (a row of the table). The policy `winner` has the better mean.

    `mine` and `others` contain their values per repeat. If `tested`, enough repeats confirm the difference.
    """

    figure: Figure
    winner: str
    loser: str
    mine: np.ndarray
    others: np.ndarray
    tested: bool

    @property
    def gains(self) -> np.ndarray:
        """Return by how many percent the winner is below the loser, per repeat."""
        return 100 * (self.others - self.mine) / self.others

    def both(self, policies: Policies, path: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the `common_repeats` of winner and loser for another metric."""
        return common_repeats(policies, self.winner, self.loser, path)


def common_repeats(
    policies: Policies, one: str, other: str, path: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two policies' values per repeat of the metric at `path` in summary.json, None if repeats differ."""
    leaves = [leaf_of(policies[name], path) for name in (one, other)]
    if any(leaf is None or None in leaf["repeats"] for leaf in leaves):
        return None
    mine, others = (np.array(leaf["repeats"], float) for leaf in leaves if leaf is not None)
    return (mine, others) if len(mine) == len(others) and len(mine) else None


def compared(policies: Policies, label: str, one: str, other: str) -> ComparedPair | None:
    """Compare the run's first policy with another by the metric `label`. Return None if they do not differ.

    With fewer than `stats.REPEATS_LEAST` repeats there is no test; means must differ by the share `LEAST`.
    """
    figure = FIGURE_OF[label]
    found = common_repeats(policies, one, other, figure.path)
    if found is None or found[0].mean() == found[1].mean():
        return None
    means, ahead = [float(values.mean()) for values in found], figure.better
    first_wins = ahead * (means[0] - means[1]) > 0
    tested = len(found[0]) >= stats.REPEATS_LEAST
    if tested and not differs_from_first(policies, other if one == next(iter(policies)) else one, figure):
        return None
    if not tested and abs(means[0] - means[1]) < LEAST * max(map(abs, means)):
        return None
    return ComparedPair(
        figure=figure,
        winner=one if first_wins else other,
        loser=other if first_wins else one,
        mine=found[0 if first_wins else 1],
        others=found[1 if first_wins else 0],
        tested=tested,
    )


def headline(policies: Policies) -> ComparedPair | None:
    """Return the comparison at the top of the report, or None if no policies differ.

    It compares the best policy with the first policy of the run, by the first of `HEADLINES` by which they
    differ. If the first policy is the best, it is compared with the worst.
    """
    for label in HEADLINES:
        ordered = _best_first(policies, FIGURE_OF[label])
        first = next(iter(policies), "")
        if len(ordered) < 2 or first not in ordered:
            continue
        rival = ordered[-1] if ordered[0] == first else ordered[0]
        pair = compared(policies, label, first, rival)
        if pair is not None:
            return pair
    return None


def _best_first(policies: Policies, figure: Figure) -> list[str]:
    leaves = {name: leaf_of(policy, figure.path) for name, policy in policies.items()}
    means = {name: leaf["mean"] for name, leaf in leaves.items() if leaf and leaf["mean"] is not None}
    return sorted(means, key=lambda name: -figure.better * means[name])


def rows_between(policies: Policies, one: str, other: str) -> Iterator[ComparedPair]:
    """Yield a comparison for each metric by which they differ, `HEADLINES` first. One is the run's first policy."""
    for label in (*HEADLINES, *OTHERS):
        pair = compared(policies, label, one, other)
        if pair is not None:
            yield pair


def repeats_needed(summary: Mapping[str, Any], label: str) -> tuple[str, int | None] | None:
    """Return the policy with the best mean, and a number of repeats that would probably confirm it.

    The number is None if too many repeats would be needed. Return None without a comparison by this metric.
    """
    rows = summary.get("comparison", {}).get("rows", ())
    found = next((row for row in rows if row["figure"] == label), None)
    return None if found is None else (found["leader"], found["repeats_needed"])

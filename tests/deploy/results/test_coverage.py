"""Tests the printed statistics: intervals contain the true value as often as stated.

Of comparisons without a true difference, one in twenty is starred. A share measured with 10,000 draws is off
by at most 0.4 points in 95% of cases; the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedbed.deploy.results import comparison, stats
from schedbed.deploy.results.comparison import FIGURES

pytestmark = pytest.mark.slow  # draws thousands of tables

DRAWS = 10_000
COUNTS = (3, 5, 10)

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def covered(data: np.ndarray, truth: float, interval: Callable[[list[float]], Any]) -> float:
    """Return the share of rows of `data` whose interval contains `truth`."""
    found = [interval(row) for row in data.tolist()]
    return sum(low <= truth <= high for low, high, *_ in found) / len(found)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.3])
def test_intervals_of_normal_data_cover_what_is_printed(count: int, spread: float) -> None:
    data = np.random.default_rng(count).normal(1.0, spread, (DRAWS, count))
    share = covered(data, 1.0, stats.mean_interval)
    assert share == pytest.approx(0.95, abs=0.01)
    assert np.mean([stats.coverage(row) for row in data.tolist()]) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("spread", [0.1, 0.25, 0.5, 0.75, 1.0])
def test_intervals_of_log_normal_data_cover_what_is_printed(count: int, spread: float) -> None:
    data = np.random.default_rng(count).lognormal(0.0, spread, (DRAWS, count))
    share = covered(data, float(np.exp(spread**2 / 2)), stats.mean_interval)
    assert np.mean([stats.coverage(row) for row in data.tolist()]) == pytest.approx(share, abs=0.02)
    assert (spread > 0.7) == (share < 0.90)  # Student's t alone would say 95%


@pytest.mark.parametrize(
    "draw", [np.random.Generator.standard_normal, np.random.Generator.standard_exponential]
)
@pytest.mark.parametrize("share", [0.5, 0.95])
@pytest.mark.parametrize("count", [3, 5, 10, 40])
def test_intervals_of_quantiles_cover_what_they_say(count: int, share: float, draw: Draw) -> None:
    data = draw(np.random.default_rng(count), (DRAWS // 5, count))
    truth = float(np.quantile(draw(np.random.default_rng(0), (1000, 1000)), share))
    said = stats.quantile_interval(data[0].tolist(), share)
    assert said is not None
    found = covered(data, truth, lambda row: stats.quantile_interval(row, share))
    assert found == pytest.approx(said[2], abs=0.03)


@pytest.mark.parametrize("count", COUNTS)
def test_one_null_comparison_in_twenty_is_starred(count: int) -> None:
    drawn = np.random.default_rng(count).normal(100.0, 5.0, (2, DRAWS, count))
    differences = drawn[0] - drawn[1]
    flips = stats.uses_sign_flips(count, 1)
    p_values = (stats.sign_flip_p if flips else stats.paired_t_p)(differences)
    assert 0.04 <= (p_values <= comparison.LEVEL).mean() <= 0.06
    assert [stats.paired_p(row) for row in differences[:50].tolist()] == pytest.approx(p_values[:50])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "draw", [lambda rng, size: rng.poisson(3.0, size), lambda rng, size: rng.lognormal(0.0, 1.0, size)]
)
def test_counts_and_skewed_figures_are_not_starred_more_often(count: int, draw: Draw) -> None:
    rng = np.random.default_rng(count)
    differences = (draw(rng, (DRAWS // 5, count)) - draw(rng, (DRAWS // 5, count))).astype(float)
    starred = [(stats.paired_p(row) or 0.0) <= comparison.LEVEL for row in differences.tolist()]
    assert np.mean(starred) <= 0.06


def null_table(rng: np.random.Generator, policies: int, count: int) -> dict[str, Any]:
    """Return the part `policies` of a summary in which policies differ by chance only, in `count` repeats.

    The values of different metrics are independent.
    """
    made: dict[str, Any] = {}
    for number in range(policies):
        policy: dict[str, Any] = {"fidelity": {"trusted": True}}
        for figure in FIGURES:
            if figure.path[0] != "findings":
                _put(policy, figure.path, rng.normal(100.0, 5.0, count).tolist())
        made[f"p{number}"] = policy
    for policy in list(made.values())[1:]:
        policy["paired"] = {}
        for figure in FIGURES:
            _put(policy["paired"], figure.path, [0.0] * count)
    return made


def _put(tree: dict[str, Any], path: tuple[str, ...], repeats: list[float]) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree.setdefault(path[-1], {}).update(mean=float(np.mean(repeats)), repeats=repeats)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("policies", [2, 3])
def test_a_null_table_has_a_star_or_a_best_in_one_of_twenty(
    count: int, policies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How many repeats would do is not looked at here, and takes most of the time of a comparison.
    monkeypatch.setattr(stats, "repeats_needed", lambda *_: None)
    rng = np.random.default_rng(count)
    tables = 400
    starred = called_best = 0
    for _ in range(tables):
        made = null_table(rng, policies, count)
        found = comparison.compare(made, {name: range(count) for name in made})
        names = list(made)[1:]
        starred += any(
            comparison.differs_from_first(made, name, figure) for name in names for figure in FIGURES
        )
        called_best += any(row["best"] for row in found["rows"])
    assert starred / tables <= 0.08 and called_best / tables <= 0.08
    assert policies > 2 or starred / tables >= 0.02

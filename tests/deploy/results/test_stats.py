"""Tests means, intervals and statistical tests over repeats, one function at a time.

`test_coverage` measures how often the intervals contain the true value.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.results.stats import (
    FLIPS_LOG2,
    REPEATS_MOST,
    coverage,
    differences,
    holm,
    leaf,
    mean_interval,
    paired_p,
    paired_t_p,
    quantile_interval,
    repeats_needed,
    sign_flip_p,
    tree,
    uses_sign_flips,
)

NAN = float("nan")
DRAWN = np.random.default_rng(1).normal(0.4, 1.0, 60)


@pytest.fixture
def scipy_stats() -> Any:
    """Import `scipy.stats` and return it. The import is slow, and its type stubs lack `pvalue`."""
    return importlib.import_module("scipy.stats")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_repeats_have_neither_interval_nor_p_value(count: int) -> None:
    values = [3.0, 5.0][:count]
    assert mean_interval(values) is None and quantile_interval(values) is None
    assert paired_p(values) is None and repeats_needed(values) is None
    assert leaf(values) == {"mean": sum(values) / count if count else None, "ci95": None, "repeats": values}


def test_what_is_missing_is_left_out_of_the_mean_and_kept_as_null() -> None:
    made = leaf([1.0, NAN, None, 3.0])
    assert made["mean"] == 2.0 and made["repeats"] == [1.0, None, None, 3.0] and made["ci95"] is None
    json.dumps(made, allow_nan=False)
    assert leaf([NAN])["mean"] is None


@pytest.mark.parametrize("count", [3, 4, 10, 60])
def test_intervals_and_paired_tests_are_scipys(count: int, scipy_stats: Any) -> None:
    values: Any = DRAWN[:count]
    said = scipy_stats.ttest_1samp(values, 0.0)
    assert mean_interval(values) == pytest.approx(tuple(said.confidence_interval(0.95)))
    assert paired_t_p(values[None, :])[0] == pytest.approx(said.pvalue)


@pytest.mark.parametrize("count", [3, 5, 10, 12])
def test_sign_flips_are_scipys_exact_permutations(count: int, scipy_stats: Any) -> None:
    said = scipy_stats.permutation_test(
        (DRAWN[:count],), np.mean, permutation_type="samples", vectorized=True, n_resamples=10_000
    )
    assert sign_flip_p(DRAWN[None, :count])[0] == pytest.approx(said.pvalue)


def test_long_series_flip_a_sample_of_the_patterns(scipy_stats: Any) -> None:
    values = DRAWN[:40]
    assert len(values) > FLIPS_LOG2 + 1
    found = sign_flip_p(values[None, :])[0]
    assert found == pytest.approx(scipy_stats.ttest_1samp(values, 0.0).pvalue, abs=0.01)
    assert found == sign_flip_p(values[None, :])[0] > 0


def test_sign_flips_are_used_where_their_p_values_are_fine_enough() -> None:
    assert not uses_sign_flips(3, 1) and not uses_sign_flips(5, 1) and uses_sign_flips(10, 1)
    assert not uses_sign_flips(10, 26) and uses_sign_flips(15, 26)
    assert paired_p(DRAWN[:10].tolist()) == sign_flip_p(DRAWN[None, :10])[0]
    assert paired_p(DRAWN[:10].tolist(), 26) == paired_t_p(DRAWN[None, :10])[0]


def test_repeats_that_do_not_scatter_prove_no_more_than_their_signs() -> None:
    assert paired_p([1.0, 1.0, 1.0]) == 0.25 and paired_p([0.1 + 0.2, 0.3, 0.3]) == 0.25
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([2.0] * 10) == pytest.approx(2 / 2**10)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=12))
def test_the_interval_holds_the_mean_and_p_values_are_probabilities(values: list[float]) -> None:
    low, high = mean_interval(values) or (NAN, NAN)
    slack = 1e-6 * max(1.0, *(abs(v) for v in values))
    assert low - slack <= sum(values) / len(values) <= high + slack
    assert 0.0 <= (paired_p(values) or 0.0) <= 1.0 and 0.0 < coverage(values) <= 0.95


def test_the_interval_of_a_median_says_what_it_covers() -> None:
    assert quantile_interval([3.0, 1.0, 2.0]) == (1.0, 3.0, pytest.approx(0.75))
    assert quantile_interval(list(range(6))) == (0.0, 5.0, pytest.approx(1 - 2 / 2**6))
    low, high, covers = quantile_interval(list(range(100))) or (NAN, NAN, NAN)
    assert 35 <= low < 50 < high <= 65 and 0.95 <= covers < 0.96
    assert quantile_interval(list(range(10)), 0.95) == (0.0, 9.0, pytest.approx(1 - 0.95**10 - 0.05**10))


def test_holm_is_the_step_down_of_bonferroni() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_the_repeats_that_it_takes_tell_the_difference_four_times_in_five() -> None:
    values = [1.0, 3.0, 2.0, 4.0, 0.5]
    needed = repeats_needed(values)
    assert needed is not None
    effect, scatter = np.mean(values), np.std(values, ddof=1)
    drawn = np.random.default_rng(0).normal(effect, scatter, (4000, needed))
    assert 0.75 <= (paired_t_p(drawn) <= 0.05).mean() <= 0.92
    assert (repeats_needed(values, 26) or 0) > needed
    assert repeats_needed([1.0, -1.0, 0.0]) is None and repeats_needed([100.0, -99.0, 0.5]) is None
    assert REPEATS_MOST == 1000


def test_skewed_repeats_say_what_their_interval_covers() -> None:
    assert "covers" not in leaf([100.0, 104.0, 98.0])
    assert 0.6 < leaf([1.0, 30.0, 4.0])["covers"] < 0.9
    assert "covers" not in leaf([-1.0, 30.0, 4.0])


def test_nested_figures_become_nested_leaves_and_all_its_parents_own() -> None:
    made = tree(
        [{"m": {"all": 1.0, "per_user": {"a": 2.0}}}, {"m": {"all": 3.0, "per_user": {"a": 4.0, "b": 5.0}}}]
    )
    assert made["m"]["mean"] == 2.0
    assert made["m"]["per_user"]["a"]["repeats"] == [2.0, 4.0]
    assert made["m"]["per_user"]["b"]["repeats"] == [None, 5.0]


def test_differences_are_paired_repeat_by_repeat_and_have_p_values(scipy_stats: Any) -> None:
    made = differences(
        [{"x": 5.0, "y": {"z": 1.0}}, {"x": 16.0, "y": {"z": 2.0}}, {"x": 9.0, "y": {"z": 9.0}}],
        [{"x": 4.0, "y": {"z": 1.0}}, {"x": 14.0, "y": {}}, {"x": 6.0, "y": {"z": 1.0}}],
    )
    assert made["x"]["repeats"] == [1.0, 2.0, 3.0] and made["x"]["mean"] == pytest.approx(2.0)
    assert made["x"]["p"] == pytest.approx(scipy_stats.ttest_1samp([1.0, 2.0, 3.0], 0.0).pvalue)
    assert made["y"]["z"]["repeats"] == [0.0, None, 8.0] and made["y"]["z"]["p"] is None

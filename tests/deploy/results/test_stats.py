"""Means, intervals and paired differences over repeats."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.results.stats import bootstrap_ci, differences, leaf, tree

NAN = float("nan")


def test_one_repeat_has_no_interval() -> None:
    assert leaf([3.0]) == {"mean": 3.0, "ci95": [None, None], "repeats": [3.0]}


def test_what_is_missing_is_left_out_of_the_mean_and_kept_as_null() -> None:
    made = leaf([1.0, NAN, None, 3.0])
    assert made["mean"] == 2.0 and made["repeats"] == [1.0, None, None, 3.0]
    json.dumps(made, allow_nan=False)
    assert leaf([NAN])["mean"] is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8), st.integers(0, 9))
def test_the_interval_lies_in_the_values_holds_the_mean_and_comes_again(
    values: list[float], seed: int
) -> None:
    low, high = bootstrap_ci(values, seed=seed) or (NAN, NAN)
    slack = 1e-6 * max(1.0, *(abs(v) for v in values))
    assert min(values) - slack <= low <= high <= max(values) + slack
    assert low - slack <= sorted(values)[-1] and bootstrap_ci(values, seed=seed) == (low, high)


def test_the_interval_narrows_with_more_repeats() -> None:
    few, many = bootstrap_ci([1.0, 2.0, 3.0]), bootstrap_ci([1.0, 2.0, 3.0] * 10)
    assert few and many and many[1] - many[0] < (few[1] - few[0]) / 2


def test_nested_figures_become_nested_leaves_and_all_its_parents_own() -> None:
    made = tree(
        [{"m": {"all": 1.0, "per_user": {"a": 2.0}}}, {"m": {"all": 3.0, "per_user": {"a": 4.0, "b": 5.0}}}]
    )
    assert made["m"]["mean"] == 2.0
    assert made["m"]["per_user"]["a"]["repeats"] == [2.0, 4.0]
    assert made["m"]["per_user"]["b"]["repeats"] == [None, 5.0]


def test_differences_are_paired_repeat_by_repeat() -> None:
    made = differences([{"x": 5.0}, {"x": 16.0}], [{"x": 4.0}, {"x": 14.0}])
    assert made["x"]["repeats"] == [1.0, 2.0] and made["x"]["mean"] == pytest.approx(1.5)

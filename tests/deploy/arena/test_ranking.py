"""Tests ranks and critical differences against examples computed by hand."""

import pytest

from schedbed.deploy.arena.ranking import agreement, critical_difference, front, rank


def test_ranks_by_hand():
    found = rank({"a": [1.0, 1.0, 2.0], "b": [2.0, 2.0, 1.0], "c": [3.0, 3.0, 3.0]})
    assert found.ranks == pytest.approx({"a": 4 / 3, "b": 5 / 3, "c": 3.0})
    assert list(found.ranks) == ["a", "b", "c"]
    # 12 / (3 * 3 * 4) * (16 + 25 + 81) - 3 * 3 * 4 = 14 / 3; for two degrees of freedom p is exp(-x / 2).
    assert found.p == pytest.approx(2.718281828 ** (-14 / 6))


def test_a_lost_cell_ranks_last_and_ties_share_a_rank():
    found = rank({"a": [1.0, 1.0], "b": [None, 1.0], "c": [None, 2.0]})
    assert found.ranks == pytest.approx({"a": 1.25, "b": 2.0, "c": 2.75})


def test_critical_difference_of_demsar():
    # Demsar 2006, table 5: q is 2.569 for four classifiers; CD over 14 data sets is 1.25.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_too_few_policies_have_no_interval():
    found = rank({"a": [1.0, 1.0], "b": [2.0, 2.0]})
    assert found.critical is None and found.p is None and found.interval("a") is None


def test_policies_that_are_all_alike_are_not_told_apart():
    assert rank({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [1.0, 2.0]}).p == 1.0


def test_front():
    assert front({"a": (1.0, 0.5), "b": (2.0, 0.9), "c": (2.0, 0.8)}) == ["a", "b"]


def test_orders_agree_fully_not_at_all_or_by_part():
    """Spearman's rho of the ranks 1 2 3 4 is 1 with equal ranks, -1 with 4 3 2 1, and 0.8 with 2 1 3 4."""
    one = [1.0, 2.0, 3.0, 4.0]
    assert agreement([(one, [5.0, 6.0, 7.0, 9.0])]) == {"rho": pytest.approx(1), "ci95": None, "orders": 1}
    assert agreement([(one, [9.0, 8.0, 7.0, 1.0])])["rho"] == pytest.approx(-1)
    found = agreement([(one, [2.0, 1.0, 3.0, 4.0]), (one, one), (one, [2.0, 1.0, 3.0, 4.0])])
    assert found["rho"] == pytest.approx((0.8 + 1 + 0.8) / 3)
    assert found["ci95"] == [pytest.approx(0.8667 - 4.3027 * 0.11547 / 3**0.5, abs=1e-3), 1.0]


def test_equal_policies_have_no_order():
    assert agreement([([1.0, 1.0], [1.0, 2.0])]) == {"rho": None, "ci95": None, "orders": 0}

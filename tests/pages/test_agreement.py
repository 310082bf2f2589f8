"""The arithmetic that compares a simulated run with a recorded one, by hand."""

from __future__ import annotations

import pytest

from tests.pages.agreement import agreement, mean_completion, mean_run


def test_errors_are_shares_of_what_was_recorded() -> None:
    """Completions of 10, 20 and 40 s are simulated as 11, 20 and 30 s; the last two end in another order."""
    recorded = {"a": (0.0, 10.0), "b": (10.0, 30.0), "c": (5.0, 45.0), "only here": (0.0, 1.0)}
    simulated = {"a": (0.0, 11.0), "b": (30.0, 50.0), "c": (5.0, 35.0)}
    found = agreement(recorded, simulated)
    assert (found.jobs, found.worst_job) == (3, "c")
    assert found.error == pytest.approx((0.1 + 0.0 + 0.25) / 3)
    assert found.worst == pytest.approx(-0.25)
    assert found.mean_completion == pytest.approx(61 / 70 - 1)
    assert found.makespan == pytest.approx(50 / 45 - 1)
    assert found.order == pytest.approx(1 / 3)


def test_equal_ends_have_no_order() -> None:
    together = {"a": (0.0, 10.0), "b": (0.0, 10.0)}
    assert agreement(together, together).order == 1.0
    with pytest.raises(ValueError, match="no job in common"):
        agreement(together, {"c": (0.0, 1.0)})


def test_repeats_are_averaged_by_job() -> None:
    repeats = [{"a": (0.0, 10.0), "b": (1.0, 2.0)}, {"a": (1.0, 13.0)}]
    assert mean_run(repeats) == {"a": (0.5, 11.5)}
    assert mean_completion(mean_run(repeats)) == 11.0

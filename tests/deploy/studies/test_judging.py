"""Tests how `schedbed validate` judges repeats and errors, with small numbers computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from schedbed.deploy.studies.compare import (
    Agreement,
    Pair,
    Winner,
    job_errors,
    ratio_interval,
    split_repeats,
    winners,
)
from schedbed.deploy.studies.validate import LiveRepeats, compare
from tests.harness.fake_run import FakeRun


def agreed(policy: str, live: tuple[float, ...], sim: float, **jobs: Pair) -> Agreement:
    pair = Pair(live=live, simulated=(sim,) * 3)
    same = Pair(live=(1.0,), simulated=(1.0,))
    return Agreement(
        policy=policy,
        makespan_s=pair,
        completion_s=pair,
        locality=same,
        order=1.0,
        order_live=None,
        jobs=jobs,
    )


def _winner(*found: Agreement) -> Winner | None:
    return winners(found, {each.policy: each.completion_s.live for each in found})


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_no_repeat_fits_costs_and_judges_them(count: int) -> None:
    repeats = range(10, 10 + count)
    fitted, judged = split_repeats(reversed(repeats))
    assert fitted | judged == set(repeats)
    assert not fitted & judged
    assert len(fitted) == count // 2


def test_the_interval_of_a_ratio_is_welchs() -> None:
    rng = np.random.default_rng(1)
    ones, others = np.exp(rng.normal(0.1, 0.05, 9)), np.exp(rng.normal(0.0, 0.2, 4))
    from scipy.stats import ttest_ind  # takes a second, which others need not wait for

    expected = ttest_ind(np.log(ones), np.log(others), equal_var=False).confidence_interval()
    assert ratio_interval(list(ones), list(others)) == pytest.approx(np.exp([expected.low, expected.high]))
    assert ratio_interval((2.0,) * 3, (1.0,) * 3) == pytest.approx((2.0, 2.0))
    assert ratio_interval((2.0,) * 3, (1.0,) * 2) is None
    assert ratio_interval((2.0,) * 3, (1.0, 1.0, 0.0)) is None
    assert Pair(live=(1.0,) * 3, simulated=(1.1,) * 3).error_interval == pytest.approx((0.1, 0.1))


def test_errors_of_jobs_do_not_cancel() -> None:
    jobs = {"slow": Pair(live=(10.0,), simulated=(14.0,)), "fast": Pair(live=(10.0,), simulated=(8.0,))}
    assert (
        job_errors(agreed("fifo", (10.0,), 11.0, **jobs)) == "median absolute error 30.0%, worst 40.0% (slow)"
    )


def test_a_winner_is_the_same_only_where_the_live_runs_pick_one() -> None:
    fifo, fair = agreed("fifo", (20.0, 21.0, 20.5), 19.0), agreed("fair", (10.0, 11.0, 10.5), 12.0)
    found = _winner(fifo, fair)
    assert found is not None
    assert (found.live, found.simulated, found.same) == ("fair", "fair", True)
    other = _winner(fifo, agreed("fair", (10.0, 11.0, 10.5), 30.0))
    assert other is not None and other.same is False and "ANOTHER" in str(other)
    unclear = _winner(fifo, agreed("fair", (20.1, 20.0, 21.2), 30.0))
    assert unclear is not None and unclear.same is None
    few = _winner(agreed("fifo", (20.0,), 19.0), agreed("fair", (10.0,), 12.0))
    assert few is not None and few.to_json()["same"] is None
    assert _winner(fifo) is None


def test_repeats_that_fit_costs_count_for_the_live_winner() -> None:
    """The live winner is found with all four repeats, since the two that are judged are too few to tell."""
    fifo, fair = agreed("fifo", (20.0, 20.5), 19.0), agreed("fair", (10.0, 10.5), 12.0)
    found = winners([fifo, fair], {"fifo": (20.0, 20.5, 21.0, 20.2), "fair": (10.0, 10.5, 10.2, 10.1)})
    assert found is not None and found.same is True
    turned = winners([fifo, fair], {"fifo": (10.0, 10.5, 10.2, 10.1), "fair": (20.0, 20.5, 21.0, 20.2)})
    assert turned is not None and turned.live == "fifo" and turned.same is False


def test_runs_that_are_not_trusted_are_left_out_and_named(tmp_path: Path) -> None:
    run = FakeRun(policies=("fifo",), repeats=2, jobs=2, maps=8, kill_at=None).write(tmp_path)
    for sample in run.runs[1].host_samples:
        sample[1] = 1.0
    run.save(tmp_path)
    measured = LiveRepeats.of(tmp_path, ["fifo"])
    assert (measured.repeats, list(measured.runs["fifo"])) == ([0], [0])
    (line,) = measured.left_out
    assert line.startswith("fifo, repeat 2: The host's CPU was saturated")
    assert compare({"fifo": []}, {"fifo": list(measured.runs["fifo"].values())}) == []

"""The policy CSLA: its load tags (CPU, I/O) of jobs and nodes, and its prediction of loads."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.admission import load as load_module
from schedbed.scheduler.admission.load import LoadSeries
from schedbed.scheduler.models.csla_tags import UNKNOWN, Errors, TaskSample, predict, tag, words
from schedbed.tasks.chance import chance


@pytest.mark.parametrize(("cpu", "io", "number"), [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)])
def test_the_tags_of_tables_1_and_2(cpu: int, io: int, number: int) -> None:
    """A tag has two bits: the high bit marks load of the CPU, the low bit of the I/O."""
    assert tag(bool(cpu), bool(io)) == number


def test_tags_in_words() -> None:
    """The texts of tags in the decisions table."""
    assert [words(number) for number in (UNKNOWN, 0, 1, 2, 3)] == [
        "unknown", "0", "1 (IO)", "2 (CPU)", "3 (CPU, IO)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("history", "following"),
    [
        # x = .1 .2 .4, y = .2 .4 .8: y = 2x, and 2 x .3 = .6 (then .8 x 2 is above 1).
        ([0.1, 0.2, 0.4, 0.8], 1.0),
        # x = .8 .4 .2, y = .4 .2 .1: y = x/2.
        ([0.8, 0.4, 0.2, 0.1], 0.05),
        # x = .2 .4 .3, y = .4 .3 .6: n = 3, sums .9, 1.3, xx .29, xy .38; the denominator is .87 - .81 = .06;
        # slope (1.14 - 1.17) / .06 = -.5, intercept (1.3 x .29 - .9 x .38) / .06 = .58333; .58333 - .3 = .28333.
        ([0.2, 0.4, 0.3, 0.6], 0.283333),
        # Nothing to regress on: the last value.
        ([0.3], 0.3),
        ([0.3, 0.7], 0.7),
        ([0.4, 0.4, 0.4], 0.4),
    ],
)
def test_predictions(history: list[float], following: float) -> None:
    """Equations 1 to 3 predict the value after `history`.

    The prediction is limited to the range from 0 to 1.
    """
    assert predict(history) == pytest.approx(following, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_prediction_is_a_share(history: list[float]) -> None:
    """A prediction is between 0 and 1 for any history."""
    assert 0 <= predict(history) <= 1


def test_nothing_to_predict_from() -> None:
    """A prediction from an empty history raises `ValueError`."""
    with pytest.raises(ValueError):
        predict([])


def test_errors_of_predictions() -> None:
    """Two predictions are off by 0.1 and 0.3: the mean absolute error is 0.2, the RMSE sqrt((0.01 + 0.09) /
    2).

    Predicting the last value again is off by 0 and 0.4.
    """
    errors = Errors()
    errors.add(0.5, 0.6, 0.6)
    errors.add(0.5, 0.2, 0.6)
    assert errors.to_json() == pytest.approx(
        {"mae": 0.2, "rmse": sqrt(0.05), "last_mae": 0.2, "predictions": 2}
    )
    assert Errors().to_json() == {"mae": 0.0, "rmse": 0.0, "last_mae": 0.0, "predictions": 0}


def test_a_prediction_looks_back_at_its_window_only() -> None:
    """After three equal values a series with a window of three ignores the older jump.

    The errors of all its earlier predictions are summed.
    """
    series = LoadSeries(3)
    assert series.next("n1") is None
    for value in (0.9, 0.1, 0.4, 0.4, 0.4):
        series.see("n1", value)
    assert series.next("n1") == 0.4
    # Said: .9, .1 (two values), then of .9 .1 .4: y = .4375 - .375x, .2875; of .1 .4 .4: y = .4.
    errors = series.errors()
    assert errors.count == 4
    assert errors.absolute == pytest.approx(0.8 + 0.3 + (0.4 - 0.2875) + 0.0)


@pytest.mark.parametrize(("window", "nodes"), [(10, 7), (1, 3), (2, 1), (4, 40)])
def test_many_predictions_at_once_have_the_errors_of_one_after_the_other(
    window: int, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums are the same to the last bit, wherever the series is cut into parts."""
    monkeypatch.setattr(load_module, "_AT_ONCE", 37)
    luck, series, alone, past = (
        chance(window, "loads"),
        LoadSeries(window),
        Errors(),
        dict[str, list[float]](),
    )
    for _ in range(500):
        node = f"n{luck.randrange(nodes)}"
        load = luck.choice((0.0, 1.0, 1.0, luck.random(), 1e-9 * luck.random()))
        known = past.setdefault(node, [])
        if known:
            alone.add(predict(known[-window:]), load, known[-1])
        known.append(load)
        series.see(node, load)
        assert series.next(node) == predict(known[-window:])
    together = series.errors()
    assert [getattr(together, name) for name in Errors.__slots__] == [
        getattr(alone, name) for name in Errors.__slots__
    ]


@pytest.mark.parametrize(
    ("cpu_s", "disk_s", "number"),
    [
        (8.0, 0.4, 2),  # 8 of 10 s on the core, 4% of the disk
        (5.0, 0.5, 0),  # just half, just 5%: heavy is above
        (1.0, 2.0, 1),
        (6.0, 2.0, 3),
    ],
)
def test_a_jobs_tag(cpu_s: float, disk_s: float, number: int) -> None:
    """The tag of a job with one map of 4 s and one of 6 s, from the seconds of CPU and disk that the maps
    used.
    """
    sample = TaskSample()
    sample.add(cpu_s / 2, disk_s, 4.0)
    sample.add(cpu_s / 2, 0.0, 6.0)
    assert sample.tag(0.5, 0.05) == number
    assert TaskSample().tag(0.5, 0.05) == UNKNOWN

"""Tests the speeds of the hosts' cores, measured by trials on one host after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedbed.deploy.live.ray_cluster import core_speeds


def asks(*trials_s: float) -> Callable[[], float]:
    """Return a function that returns these CPU seconds of trials one by one, then repeats the last."""
    left: Iterator[float] = iter(trials_s)
    return lambda: next(left, trials_s[-1])


def test_a_slow_moment_of_one_host_does_not_make_the_others_fast() -> None:
    assert core_speeds(None, {"a": asks(0.012, 0.010), "b": asks(0.010)}) == {"a": 1.0, "b": 1.0}


def test_the_slowest_host_is_the_measure() -> None:
    assert core_speeds(None, {"a": asks(0.010), "b": asks(0.030, 0.020)}) == {"a": 2.0, "b": 1.0}


def test_one_host_is_not_measured() -> None:
    def never() -> float:
        raise AssertionError

    assert core_speeds(None, {"a": never}) == {"a": 1.0}
    assert core_speeds("own", {}) == {"own": 1.0}

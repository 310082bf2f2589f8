"""Tests how a rate is fitted to readings of a counter.

Counters may move in steps, use up saved quota, or be read for a short time only. The result includes the
accuracy.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from schedbed.deploy.doctor.hostile_measure import CPU_LOOK_S, HOSTILE_S
from schedbed.deploy.doctor.rate_fit import FittedRate, steady_rate
from schedbed.deploy.doctor.trials import TOO_MUCH

SHORT_S = 1.5
DECLARED = 0.1
LAUNCH_S = 0.008  # of CPU time, before any limit


def counted(seconds: float, lumps: Callable[[float], float], seed: int) -> FittedRate:
    """Return the rate fitted to readings of a counter that has the value `LAUNCH_S + lumps(t)` at time `t`.

    The readings cover `seconds` and are as unevenly spaced as on a busy host; `seed` draws the times.
    """
    chance, at_s, series = random.Random(seed), 0.0, [(-0.03, 0.0), (-0.01, 0.0)]
    while at_s < seconds:
        series.append((at_s, LAUNCH_S + lumps(at_s)))
        at_s += CPU_LOOK_S * chance.uniform(1.0, 2.5)
    return steady_rate(series) or FittedRate(0.0)


def quota(share: float, period_s: float, shift: float) -> Callable[[float], float]:
    """Return the CPU time used until a given time by a process that uses its quota at the start of each
    period.

    The quota is `share` of each period of `period_s` seconds; `shift` is the part of a period that has passed
    at 0.
    """

    def used_s(at_s: float) -> float:
        periods, into_s = divmod(at_s + shift * period_s, period_s)
        return share * period_s * periods + min(into_s, share * period_s)

    return used_s


def beyond(found: FittedRate) -> float:
    """Return the lower bound of the rate as an excess over the highest allowed rate, as a share of the
    declared rate.
    """
    return (found.per_s - found.resolution) / DECLARED - 1 - TOO_MUCH["cpu"]


@pytest.mark.parametrize("shift", [0.0, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("period_s", [0.02, 0.1])
def test_a_lump_more_or_less_in_a_short_time_is_no_breach(period_s: float, shift: float) -> None:
    for seed in range(20):
        found = counted(SHORT_S, quota(DECLARED, period_s, shift), seed)
        assert beyond(found) < 0 and found.per_s == pytest.approx(DECLARED, abs=0.04 * DECLARED)


def test_four_percent_too_much_is_found_in_the_time_that_is_the_default() -> None:
    for seed in range(20):
        found = counted(HOSTILE_S, quota(1.04 * DECLARED, 0.02, 0.05 * seed), seed)
        assert beyond(found) > 0 and found.resolution < 0.01 * DECLARED


def test_the_rate_leaves_out_what_a_limit_has_banked() -> None:
    bank = [(0.1 * tick, 0.0 if tick < 10 else 20.0 + (tick - 10)) for tick in range(60)]
    idle_after = bank + [(bank[-1][0] + 0.1 * tick, bank[-1][1]) for tick in range(1, 30)]
    found = steady_rate(idle_after)
    assert found is not None and found.per_s == pytest.approx(10.0, rel=0.03)


def test_a_counter_that_moves_by_the_megabyte_gives_the_rate_all_the_same() -> None:
    """A counter of 40 MB/s moves in steps of 8 MB, so two readings 3 s apart may be off by 6%."""
    for shift in range(20):
        steps = [(0.1 * tick, 8e6 * int((0.1 * tick + 0.01 * shift) * 40e6 / 8e6)) for tick in range(50)]
        found = steady_rate(steps)
        assert found is not None and found.per_s == pytest.approx(40e6, rel=0.02)
        assert 0 < found.resolution < 0.05 * 40e6


def test_what_is_over_at_once_counts_whole() -> None:
    found = steady_rate([(0.0, 0.0), (0.1, 0.0), (0.2, 1e9), (0.3, 1e9)])
    assert found is not None and found.per_s == pytest.approx(1e10)
    assert steady_rate([(0.0, 5.0), (1.0, 5.0)]) is None
    assert steady_rate([]) is None

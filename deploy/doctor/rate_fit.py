"""The rate at which a counter grows: the slope of a line through many readings, with its possible error.

Limits grant lumps, such as a CPU quota in each period, so two readings alone are off by up to one lump each.
They also include the time before the limit: for 0.1 cores and 1.5 s, the launch of a process adds 3%. A
fitted line ignores that time, and its error shows the lumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, linear_regression

WARM_S = 1.0  # Capacity that a limit has saved is used up by this time.
WARM_SHARE = 0.25  # Share of the time that is left out instead, if shorter.
LEAST_S, LEAST_READINGS = 0.5, 5  # Least duration and number of readings for a fitted line.
BEGUN = 0.02  # Share of the growth at each end that is not part of the work.
# 95% confidence in standard errors is about ERRORS + FEW / degrees of freedom (Student's t).
ERRORS, FEW = 2.0, 3.5
ALIKE_MOST = 0.95

Series = Sequence[tuple[float, float]]
"""Readings of a counter: (time in s, value)."""


@dataclass(frozen=True, slots=True, order=True)
class FittedRate:
    """A rate per second and its possible error, 0 for a lower bound without a fitted line."""

    per_s: float
    resolution: float = 0.0

    def times(self, factor: float) -> FittedRate:
        return FittedRate(self.per_s * factor, self.resolution * factor)


def steady_rate(series: Series) -> FittedRate | None:
    """Return the rate of a growing counter, without readings before and after the growth, or None.

    If the time is too short for a line, it is growth / duration, a lower bound.
    """
    values = [value for _, value in series]
    if not values or values[-1] <= values[0]:
        return None
    grown = values[-1] - values[0]
    first = next(index for index, value in enumerate(values) if value > values[0] + BEGUN * grown) - 1
    last = next(index for index, value in enumerate(values) if value >= values[0] + (1 - BEGUN) * grown)
    span_s = series[last][0] - series[first][0]
    warm_s = series[first][0] + min(WARM_S, WARM_SHARE * span_s)
    steady = [reading for reading in series[first : last + 1] if reading[0] >= warm_s]
    if len(steady) >= LEAST_READINGS and steady[-1][0] - steady[0][0] >= LEAST_S:
        return fit_rate(steady)
    return FittedRate((values[last] - values[first]) / span_s)


def fit_rate(series: Series) -> FittedRate:
    """Return the slope through at least three readings, with its possible error.

    Readings within a lump deviate in the same direction: they are not independent, so the error is larger.
    """
    times, values = zip(*series, strict=True)
    slope, at_zero = linear_regression(times, values)
    off = [value - slope * time_s - at_zero for time_s, value in series]
    squares = sum(each * each for each in off)
    if squares == 0:
        return FittedRate(slope)
    alike = sum(one * two for one, two in pairwise(off)) / squares
    alike = min(ALIKE_MOST, max(0.0, alike))
    middle_s = fmean(times)
    spread = sum((time_s - middle_s) ** 2 for time_s in times)
    free = len(series) - 2
    error = (squares / free / spread) ** 0.5
    return FittedRate(slope, (ERRORS + FEW / free) * error * ((1 + alike) / (1 - alike)) ** 0.5)

"""LATE's arithmetic (Zaharia et al., OSDI 2008): time left, and percentiles of rates."""

from __future__ import annotations

import math
from collections.abc import Sequence


def time_left_s(progress: float, elapsed_s: float) -> float:
    """Of a task that came that far in that time and goes on as it did; infinite before it has got anywhere."""
    return (1 - progress) * elapsed_s / progress if progress > 0 else math.inf


def percentile(values: Sequence[float], percent: float) -> float:
    """Of values that are sorted, between neighbours in proportion. ValueError when there are none."""
    if not values:
        raise ValueError("no values")
    place = (len(values) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)

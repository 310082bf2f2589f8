"""The formulas of LATE (Zaharia et al., OSDI 2008): remaining time of a task, and percentiles of rates."""

from __future__ import annotations

import math
from collections.abc import Sequence


def time_left_s(progress: float, elapsed_s: float) -> float:
    """Return the remaining seconds of a task that continues at its average rate; infinite for progress 0.

    `progress` is from 0 to 1.
    """
    return (1 - progress) * elapsed_s / progress if progress > 0 else math.inf


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of sorted values, interpolated linearly. Raises ValueError without values."""
    if not values:
        raise ValueError("no values")
    place = (len(values) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)

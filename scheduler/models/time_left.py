"""The formulas of the speculation method LATE (Zaharia et al., OSDI 2008): the remaining time of a task, and
percentiles of rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def time_left_s(progress: float, elapsed_s: float) -> float:
    """Return the remaining seconds at the rate so far, infinite without progress."""
    return (1 - progress) * elapsed_s / progress if progress > 0 else math.inf


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile (0 to 100) of sorted values, interpolated linearly. Raises ValueError."""
    if not values:
        raise ValueError("no values")
    place = (len(values) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)

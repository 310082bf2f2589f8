"""The formulas of LsPS (xu2015 3.1.4.1): each user's slots by mean job size, and the variation of job
sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev


def slots_by_size(slots: float, sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return the number of slots of each user, given the users' mean job sizes (equation 2, corrected).

    `sizes` must be above 0. `alpha`: weight of the sizes, from 0 (equal parts for all users) to 1. The
    results add up to `slots`.
    """
    if not sizes:
        return {}
    total = sum(1 / size for size in sizes.values())
    equal = (1 - alpha) / len(sizes)
    return {user: slots * (alpha / size / total + equal) for user, size in sizes.items()}


def variation(sizes: Sequence[float]) -> float:
    """Return the coefficient of variation of job sizes; 0 for fewer than two sizes."""
    mean = fmean(sizes) if len(sizes) > 1 else 0.0
    return pstdev(sizes) / mean if mean > 0 else 0.0

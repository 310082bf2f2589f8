"""Slots by the sizes of jobs, and the variation of sizes (LsPS, xu2015 3.1.4.1), without a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev


def slots_by_size(slots: float, sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return equation 2, corrected: each user's part of `slots` by mean job size (above 0). The parts add up to
    `slots`."""
    if not sizes:
        return {}
    total = sum(1 / size for size in sizes.values())
    equal = (1 - alpha) / len(sizes)
    return {user: slots * (alpha / size / total + equal) for user, size in sizes.items()}


def variation(sizes: Sequence[float]) -> float:
    """Return the coefficient of variation; 0 for fewer than two sizes."""
    mean = fmean(sizes) if len(sizes) > 1 else 0.0
    return pstdev(sizes) / mean if mean > 0 else 0.0

"""The formulas of the order axis LsPS (xu2015 3.1.4.1): the number of slots of each user by mean job size,
and the variation of job sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev


def slots_by_size(slots: float, sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Divide `slots` slots among users, and return the number of slots of each user (equation 2, corrected).

    `sizes`: a dictionary from user to mean job size, above 0. `alpha`: 0 gives all users equal numbers of
    slots, 1 gives slots in proportion to 1 / size.
    """
    if not sizes:
        return {}
    total = sum(1 / size for size in sizes.values())
    equal = (1 - alpha) / len(sizes)
    return {user: slots * (alpha / size / total + equal) for user, size in sizes.items()}


def variation(sizes: Sequence[float]) -> float:
    """Return the coefficient of variation of the job sizes, or 0 for fewer than two sizes."""
    mean = fmean(sizes) if len(sizes) > 1 else 0.0
    return pstdev(sizes) / mean if mean > 0 else 0.0

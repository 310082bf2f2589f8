"""Repeats into means with confidence intervals, and paired differences; seeded, so that a report is repeatable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95


def bootstrap_ci(values: Sequence[float], *, seed: int = 0) -> tuple[float, float] | None:
    """95% interval of the mean by the percentile bootstrap; None with fewer than two values.

    With fewer than about five repeats it is somewhat too narrow; the repeats are always listed beside it.
    """
    if len(values) < 2:
        return None
    data = np.asarray(values, float)
    drawn = np.random.default_rng(seed).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.percentile(data[drawn].mean(axis=1), [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return (float(low), float(high))


def leaf(repeats: Sequence[float | None], *, seed: int = 0) -> dict[str, Any]:
    """`{"mean", "ci95": [low, high], "repeats"}`; what is missing or NaN is null and left out of the mean.

    With one repeat there is no interval: `ci95` is [null, null].
    """
    values = [None if value is None or math.isnan(value) else float(value) for value in repeats]
    known = [value for value in values if value is not None]
    interval = bootstrap_ci(known, seed=seed)
    return {
        "mean": sum(known) / len(known) if known else None,
        "ci95": list(interval) if interval else [None, None],
        "repeats": values,
    }


def tree(repeats: Sequence[Mapping[str, Any]], *, seed: int = 0) -> dict[str, Any]:
    """Nested figures of each repeat into nested leaves. The key `all` becomes a leaf of its parent itself."""
    made: dict[str, Any] = {}
    for key in dict.fromkeys(key for repeat in repeats for key in repeat):
        values = [repeat.get(key) for repeat in repeats]
        if any(isinstance(value, Mapping) for value in values):
            made[key] = tree([value or {} for value in values], seed=seed)
        elif key == "all":
            made = leaf(values, seed=seed) | made
        else:
            made[key] = leaf(values, seed=seed)
    return made


def differences(
    mine: Sequence[Mapping[str, Any]], first: Sequence[Mapping[str, Any]], *, seed: int = 0
) -> dict[str, Any]:
    """Leaves of (mine - first), repeat by repeat: the repeats are paired by their position."""
    return tree([_minus(a, b) for a, b in zip(mine, first, strict=False)], seed=seed)


def _minus(mine: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in mine.items():
        other = first.get(key)
        if isinstance(value, Mapping):
            made[key] = _minus(value, other if isinstance(other, Mapping) else {})
        else:
            made[key] = None if value is None or other is None else value - other
    return made

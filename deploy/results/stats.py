"""Statistics over repeats: intervals of means and quantiles, and tests of paired differences.

There are none with fewer than `REPEATS_LEAST` repeats. docs/statistics.md states the coverage of each method,
and tests/deploy/results/test_coverage.py measures it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

LEVEL = 0.95
REPEATS_LEAST = 3
STEPS_BELOW = 10
"""The sign-flip test is used if this many of its possible p-values are below the level of a table's tests."""
FLIPS_LOG2 = 16  # Longer series flip a seeded sample of 2**16 sign patterns instead of all patterns.
POWER = 0.8
REPEATS_MOST = 1000

SPREADS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
DRAWS = 20_000
SKEWED = 0.94
"""An interval that covers less than this is printed with its coverage."""


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean's 95% interval (Student's t), None with fewer than `REPEATS_LEAST` values."""
    if len(values) < REPEATS_LEAST:
        return None
    data = np.asarray(values, float)
    half = _t_quantile(0.5 + LEVEL / 2, len(data)) * data.std(ddof=1) / math.sqrt(len(data))
    return (float(data.mean() - half), float(data.mean() + half))


def coverage(values: Sequence[float]) -> float:
    """Return the probability with which `mean_interval` of such values contains the true mean.

    It is 0.95 for normal data and less for skewed data. Positive values are assumed to be log-normal, with
    the spread of `values`; normal, if they hardly vary, are not all positive, or are too few for an interval.
    """
    data = np.asarray(values, float)
    if len(data) < REPEATS_LEAST or data.min() <= 0:
        return LEVEL
    spread = float(np.log(data).std(ddof=1))
    return LEVEL if spread < 0.01 else float(np.interp(spread, SPREADS, _log_normal_coverage(len(data))))


@cache
def _log_normal_coverage(count: int) -> tuple[float, ...]:
    """Return the share of t intervals of `count` log-normal values that contain the true mean, by spread.

    The spread, in SPREADS, is the standard deviation of the logarithms.
    """
    drawn = np.random.default_rng(0).standard_normal((DRAWS, count))
    found = [LEVEL]
    for spread in SPREADS[1:]:
        data = np.exp(spread * drawn)
        half = _t_quantile(0.5 + LEVEL / 2, count) * data.std(axis=1, ddof=1) / math.sqrt(count)
        found.append(float((abs(data.mean(axis=1) - math.exp(spread**2 / 2)) <= half).mean()))
    return tuple(found)


def quantile_interval(values: Sequence[float], share: float = 0.5) -> tuple[float, float, float] | None:
    """Return two of the values, and the probability that the quantile `share` is between them.

    It holds for any distribution. The two are the closest in rank with at least 95%, or the extremes if there
    are too few values (75% for the median of three). Return None with fewer than `REPEATS_LEAST` values.
    """
    from scipy.special import bdtr

    count = len(values)
    if count < REPEATS_LEAST:
        return None
    below = np.concatenate([[0.0], bdtr(np.arange(count), count, share)])  # P(fewer than i values lie below)
    ranks = [(low, high) for low in range(1, count) for high in range(low + 1, count + 1)]
    covers = {pair: float(below[pair[1]] - below[pair[0]]) for pair in ranks}
    enough = [pair for pair in ranks if covers[pair] >= LEVEL] or [(1, count)]
    low, high = min(enough, key=lambda pair: (pair[1] - pair[0], -covers[pair]))
    ordered = sorted(values)
    return (float(ordered[low - 1]), float(ordered[high - 1]), covers[low, high])


def uses_sign_flips(count: int, comparisons: int) -> bool:
    """Return whether `paired_p` uses the sign-flip test for `count` pairs.

    Its p-values are multiples of 2 / 2**count: at least 0.25 with 3 pairs, 0.0625 with 5, 0.002 with 10.
    `STEPS_BELOW` of them must be significant when `comparisons` tests are adjusted together.
    """
    return 2.0 ** (1 - count) * STEPS_BELOW <= (1 - LEVEL) / comparisons


def paired_p(differences: Sequence[float], comparisons: int = 1) -> float | None:
    """Return the two-sided p-value of the hypothesis that the mean of the paired differences is zero.

    `comparisons` tests are adjusted together. The test is an exact sign-flip test if `uses_sign_flips`, else
    Student's t. Equal differences, common for counts, use sign flips, since Student's t would return zero.
    Return None with fewer than `REPEATS_LEAST`.
    """
    if len(differences) < REPEATS_LEAST:
        return None
    data = np.asarray(differences, float)
    flips = data.std() <= 1e-9 * abs(data).max() or uses_sign_flips(len(data), comparisons)
    return float((sign_flip_p if flips else paired_t_p)(data[None, :])[0])


def paired_t_p(differences: np.ndarray) -> np.ndarray:
    """Return each row's two-sided p-value (Student's t) that its mean is zero. A row must not be constant."""
    from scipy.special import stdtr

    count = differences.shape[1]
    error = differences.std(axis=1, ddof=1) / math.sqrt(count)
    return 2 * stdtr(count - 1, -abs(differences.mean(axis=1)) / error)


def sign_flip_p(differences: np.ndarray) -> np.ndarray:
    """Return each row's p-value that its mean is zero, by the sign-flip test.

    It is the share of sign patterns for which the mean is at least as far from zero.
    """
    sums = abs(differences.sum(axis=1))
    slack = 1e-12 * abs(differences).sum(axis=1)
    signs = _signs(differences.shape[1])
    return np.array(
        [
            (abs(signs @ row) >= total - s).mean()
            for row, total, s in zip(differences, sums, slack, strict=True)
        ]
    )


@cache
def _signs(count: int) -> np.ndarray:
    """Return all patterns of `count` signs, without opposites.

    If `count` is large, they are a sample with a fixed seed that includes the pattern of ones.
    """
    if count <= FLIPS_LOG2 + 1:
        bits = np.arange(2 ** (count - 1))[:, None] >> np.arange(count) & 1
        return 1.0 - 2.0 * bits
    drawn = np.random.default_rng(0).integers(0, 2, (2**FLIPS_LOG2, count))
    drawn[0] = 0
    return 1.0 - 2.0 * drawn


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method: below a level, any false positive is no likelier than that."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


def repeats_needed(differences: Sequence[float], comparisons: int = 1) -> int | None:
    """Return how many repeats a test would need to find such differences significant, with a power of 80%.

    `comparisons` tests are adjusted together. Return None with fewer than `REPEATS_LEAST` differences, with
    zero mean, or above `REPEATS_MOST` repeats.
    """
    data = np.asarray(differences, float)
    if len(data) < REPEATS_LEAST or not data.mean():
        return None
    ratio = data.std(ddof=1) / abs(data.mean())
    for count in range(REPEATS_LEAST, REPEATS_MOST + 1):
        both = _t_quantile(1 - (1 - LEVEL) / 2 / comparisons, count) + _t_quantile(POWER, count)
        if ratio * both <= math.sqrt(count):
            return count
    return None


@cache
def _t_quantile(share: float, count: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, share))


def leaf(repeats: Sequence[float | None]) -> dict[str, Any]:
    """Return a metric's entry in summary.json: `mean`, `ci95` (None with few repeats) and `repeats` (the
    values).

    Missing values and NaN become None and do not affect the mean. If the values are skewed, the interval
    contains the true mean with less than 95% probability, which the entry then has as `covers`.
    """
    values = [None if value is None or math.isnan(value) else float(value) for value in repeats]
    known = [value for value in values if value is not None]
    interval = mean_interval(known)
    made: dict[str, Any] = {
        "mean": sum(known) / len(known) if known else None,
        "ci95": list(interval) if interval else None,
        "repeats": values,
    }
    covers = coverage(known)
    return made | ({"covers": round(covers, 3)} if covers < SKEWED else {})


def tree(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge repeats' nested metrics, with each number replaced by a `leaf`. The key `all` merges into its parent."""
    made: dict[str, Any] = {}
    for key in dict.fromkeys(key for repeat in repeats for key in repeat):
        values = [repeat.get(key) for repeat in repeats]
        if any(isinstance(value, Mapping) for value in values):
            made[key] = tree([value or {} for value in values])
        elif key == "all":
            made = leaf(values) | made
        else:
            made[key] = leaf(values)
    return made


def differences(mine: Sequence[Mapping[str, Any]], first: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `mine` minus `first`, paired by repeat and nested as in `tree`, with p-values."""
    made = tree([_minus(a, b) for a, b in zip(mine, first, strict=False)])
    _add_p_values(made)
    return made


def _add_p_values(node: dict[str, Any]) -> None:
    if "repeats" in node:
        node["p"] = paired_p([value for value in node["repeats"] if value is not None])
    for value in node.values():
        if isinstance(value, dict):
            _add_p_values(value)


def _minus(mine: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in mine.items():
        other = first.get(key)
        if isinstance(value, Mapping):
            made[key] = _minus(value, other if isinstance(other, Mapping) else {})
        else:
            made[key] = None if value is None or other is None else value - other
    return made

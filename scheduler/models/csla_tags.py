"""CSLA's tags (lakshmi2019) of jobs and nodes, as two bits: the resource that a job's tasks need, or that a node will
lack.

The high bit is CPU, the low bit IO (Tables 1 and 2). Shares are from 0 to 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from math import sqrt

CPU, IO = 2, 1
UNKNOWN = -1


def tag(cpu: bool, io: bool) -> int:
    """Return the two bits as a number, 0 to 3."""
    return (CPU if cpu else 0) + (IO if io else 0)


def words(tag: int) -> str:
    """Return a tag as text, such as `3 (CPU, IO)`."""
    if tag == UNKNOWN:
        return "unknown"
    names = [name for bit, name in ((CPU, "CPU"), (IO, "IO")) if tag & bit]
    return f"{tag} ({', '.join(names)})" if names else "0"


def predict(history: Collection[float]) -> float:
    """Return the next value by least squares of U_t on U_(t-1) (eq. 1 to 3), within 0 to 1.

    The printed denominators lack the brackets of n sum(x^2) - (sum x)^2. If a denominator is 0 (fewer than three
    values, or all equal), the last value is returned. Raises ValueError without values.
    """
    if not history:
        raise ValueError("nothing to predict from")
    count = len(history) - 1
    sum_x = sum_y = sum_xx = sum_xy = 0.0
    x: float | None = None
    for y in history:
        if x is not None:
            sum_x += x
            sum_y += y
            sum_xx += x * x
            sum_xy += x * y
        x = y
    assert x is not None
    denominator = count * sum_xx - sum_x * sum_x
    if count < 2 or denominator <= 1e-12:
        return x
    slope = (count * sum_xy - sum_x * sum_y) / denominator
    intercept = (sum_y * sum_xx - sum_x * sum_xy) / denominator
    return min(1.0, max(0.0, intercept + slope * x))


class Errors:
    """Errors of predictions: MAE and RMSE (Table 3), and for comparison the MAE of predicting no change."""

    __slots__ = ("absolute", "count", "last_absolute", "squared")

    def __init__(self) -> None:
        self.count = 0
        self.absolute = self.squared = self.last_absolute = 0.0

    def add(self, predicted: float, came: float, last: float) -> None:
        """Add one prediction, the actual value, and the actual value before it."""
        self.count += 1
        self.absolute += abs(predicted - came)
        self.squared += (predicted - came) ** 2
        self.last_absolute += abs(last - came)

    def to_json(self) -> dict[str, float | int]:
        """Return `mae`, `rmse`, `last_mae` (no change predicted) and the number of predictions; all 0 without
        predictions."""
        count = max(1, self.count)
        return {
            "mae": self.absolute / count,
            "rmse": sqrt(self.squared / count),
            "last_mae": self.last_absolute / count,
            "predictions": self.count,
        }


class Predictor:
    """Prediction of the next value of a series from its last values. `errors` accumulates the errors of past
    predictions."""

    __slots__ = ("_alike", "_history", "_window", "errors", "next")

    def __init__(self, window: int, errors: Errors) -> None:
        self._history: deque[float] = deque(maxlen=window)
        self._window = window
        self._alike = 0  # equal values at the end of the series
        self.errors = errors
        self.next: float | None = None  # None before the first value

    def see(self, value: float) -> None:
        """Add the next value of the series."""
        last = value if self.next is None else self._history[-1]
        if self.next is not None:
            self.errors.add(self.next, value, last)
        self._history.append(value)
        self._alike = self._alike + 1 if value == last else 1
        steady = self._alike >= self._window and value in (0.0, 1.0)  # whose sums are exact
        self.next = value if steady else predict(self._history)


class TaskSample:
    """Sums over the first finished maps of a job: their use of a core and of a disk."""

    __slots__ = ("_cpu_s", "_disk_s", "_elapsed_s", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self._cpu_s = self._disk_s = self._elapsed_s = 0.0

    def add(self, cpu_s: float, disk_s: float, elapsed_s: float) -> None:
        """Add a map that ran `elapsed_s`, used one core for `cpu_s` and would use an idle disk for `disk_s` (all
        seconds)."""
        self.tasks += 1
        self._cpu_s += cpu_s
        self._disk_s += disk_s
        self._elapsed_s += elapsed_s

    def tag(self, cpu_share: float, io_share: float) -> int:
        """Return the tag of the resources whose use exceeds these shares; UNKNOWN if nothing was measured."""
        if self._elapsed_s <= 0:
            return UNKNOWN
        return tag(self._cpu_s / self._elapsed_s > cpu_share, self._disk_s / self._elapsed_s > io_share)

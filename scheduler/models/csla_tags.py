"""CSLA's tags (lakshmi2019): two bits for the resources, CPU and I/O, that a job's tasks use heavily or that
a node will lack.

The high bit is CPU, the low bit I/O (Tables 1 and 2). Shares are from 0 to 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from math import sqrt

CPU, IO = 2, 1
UNKNOWN = -1


def tag(cpu: bool, io: bool) -> int:
    """Return the tag with the CPU bit and the I/O bit as given, a number from 0 to 3."""
    return (CPU if cpu else 0) + (IO if io else 0)


def words(tag: int) -> str:
    """Return a tag as text, such as `3 (CPU, IO)`."""
    if tag == UNKNOWN:
        return "unknown"
    names = [name for bit, name in ((CPU, "CPU"), (IO, "IO")) if tag & bit]
    return f"{tag} ({', '.join(names)})" if names else "0"


def predict(history: Collection[float]) -> float:
    """Return the predicted next value of a series, from 0 to 1 (eq. 1 to 3).

    The prediction is a linear regression of each value U_t on the value before it, U_(t-1), by least squares.
    The printed denominators lack the brackets of n sum(x^2) - (sum x)^2. If a denominator is 0 (fewer than
    three values, or all equal), the last value is returned. Raises ValueError without values.
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
        """Add the error of one prediction, given the actual value (`came`) and the actual value before it
        (`last`)."""
        self.count += 1
        self.absolute += abs(predicted - came)
        self.squared += (predicted - came) ** 2
        self.last_absolute += abs(last - came)

    def to_json(self) -> dict[str, float | int]:
        """Return the errors as JSON values; all are 0 without predictions.

        The keys are `mae`, `rmse`, `last_mae` (the MAE of predicting no change) and `predictions` (their
        number).
        """
        count = max(1, self.count)
        return {
            "mae": self.absolute / count,
            "rmse": sqrt(self.squared / count),
            "last_mae": self.last_absolute / count,
            "predictions": self.count,
        }


class Predictor:
    """A predictor of the next value of a series from its last `window` values.

    `next` is the predicted value, None before the first value. `errors` collects the errors of past
    predictions.
    """

    __slots__ = ("_alike", "_history", "_window", "errors", "next")

    def __init__(self, window: int, errors: Errors) -> None:
        self._history: deque[float] = deque(maxlen=window)
        self._window = window
        self._alike = 0  # equal values at the end of the series
        self.errors = errors
        self.next: float | None = None  # None before the first value

    def see(self, value: float) -> None:
        """Add a value to the series, record the error of its prediction, and predict the next value."""
        last = value if self.next is None else self._history[-1]
        if self.next is not None:
            self.errors.add(self.next, value, last)
        self._history.append(value)
        self._alike = self._alike + 1 if value == last else 1
        # Sums of 0 and 1 are exact, so that the fit would give the same value.
        steady = self._alike >= self._window and value in (0.0, 1.0)
        self.next = value if steady else predict(self._history)


class TaskSample:
    """CPU and disk use of the first finished maps of a job, from which the job's tag is derived."""

    __slots__ = ("_cpu_s", "_disk_s", "_elapsed_s", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self._cpu_s = self._disk_s = self._elapsed_s = 0.0

    def add(self, cpu_s: float, disk_s: float, elapsed_s: float) -> None:
        """Add one finished map: its duration, its CPU time on one core, and its I/O time on an idle disk, in
        seconds."""
        self.tasks += 1
        self._cpu_s += cpu_s
        self._disk_s += disk_s
        self._elapsed_s += elapsed_s

    def tag(self, cpu_share: float, io_share: float) -> int:
        """Return the tag of the resources whose mean use exceeds these shares; UNKNOWN if nothing was
        measured."""
        if self._elapsed_s <= 0:
            return UNKNOWN
        return tag(self._cpu_s / self._elapsed_s > cpu_share, self._disk_s / self._elapsed_s > io_share)

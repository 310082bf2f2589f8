"""The tags of CSLA (lakshmi2019), two bits: CPU (high) and I/O (low), of jobs and nodes (Tables 1 and 2).

A job's tag marks what its tasks use heavily, a node's what it will lack. Shares are from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import sqrt

CPU, IO = 2, 1
UNKNOWN = -1


def tag(cpu: bool, io: bool) -> int:
    return (CPU if cpu else 0) + (IO if io else 0)


def words(tag: int) -> str:
    """Return a tag as text, such as `3 (CPU, IO)`."""
    if tag == UNKNOWN:
        return "unknown"
    names = [name for bit, name in ((CPU, "CPU"), (IO, "IO")) if tag & bit]
    return f"{tag} ({', '.join(names)})" if names else "0"


def predict(history: Collection[float]) -> float:
    """Predict the series' next value, from 0 to 1, by regression of each value on the one before (eq. 1 to
    3).

    Brackets missing in the paper are added: denominators are n sum(x^2) - (sum x)^2. With fewer than three or
    only equal values, the last one is predicted. Raises ValueError without any.
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
    """Errors of predictions as in Table 3 (MAE, RMSE), and the MAE of predicting no change."""

    __slots__ = ("absolute", "count", "last_absolute", "squared")

    def __init__(self) -> None:
        self.count = 0
        self.absolute = self.squared = self.last_absolute = 0.0

    def add(self, predicted: float, came: float, last: float) -> None:
        """Add a prediction, given the actual value `came` and the one before it."""
        self.add_all(((predicted, came, last),))

    def add_all(self, predictions: Iterable[tuple[float, float, float]]) -> None:
        """Add the errors of several predictions, in order. See `add`."""
        count, absolute, squared, last_absolute = self.count, self.absolute, self.squared, self.last_absolute
        for predicted, came, last in predictions:
            count += 1
            error = predicted - came
            absolute += abs(error)
            squared += error**2
            last_absolute += abs(last - came)
        self.count, self.absolute, self.squared, self.last_absolute = count, absolute, squared, last_absolute

    def to_json(self) -> dict[str, float | int]:
        """Return the errors, 0 without predictions. `last_mae` is that of predicting no change."""
        count = max(1, self.count)
        return {
            "mae": self.absolute / count,
            "rmse": sqrt(self.squared / count),
            "last_mae": self.last_absolute / count,
            "predictions": self.count,
        }


class TaskSample:
    """The CPU and disk use of a job's first finished maps, from which the job's tag is computed."""

    __slots__ = ("_cpu_s", "_disk_s", "_elapsed_s", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self._cpu_s = self._disk_s = self._elapsed_s = 0.0

    def add(self, cpu_s: float, disk_s: float, elapsed_s: float) -> None:
        """Add a finished map: seconds of CPU on one core, of I/O on an idle disk, and in total."""
        self.tasks += 1
        self._cpu_s += cpu_s
        self._disk_s += disk_s
        self._elapsed_s += elapsed_s

    def tag(self, cpu_share: float, io_share: float) -> int:
        """Return bits for mean uses above these shares of the maps' run time, UNKNOWN without maps."""
        if self._elapsed_s <= 0:
            return UNKNOWN
        return tag(self._cpu_s / self._elapsed_s > cpu_share, self._disk_s / self._elapsed_s > io_share)

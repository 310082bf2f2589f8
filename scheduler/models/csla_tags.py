"""The tags of the policy CSLA (paper lakshmi2019): numbers of two bits, one for CPU and one for I/O.

A job's tag marks the resources that its tasks use heavily; a node's tag marks the resources that the node
will lack. The high bit is CPU, the low bit I/O (Tables 1 and 2). Shares are from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import sqrt

CPU, IO = 2, 1
UNKNOWN = -1


def tag(cpu: bool, io: bool) -> int:
    """Return the tag, a number from 0 to 3, whose CPU bit is `cpu` and whose I/O bit is `io`."""
    return (CPU if cpu else 0) + (IO if io else 0)


def words(tag: int) -> str:
    """Return a tag as text, such as `3 (CPU, IO)`."""
    if tag == UNKNOWN:
        return "unknown"
    names = [name for bit, name in ((CPU, "CPU"), (IO, "IO")) if tag & bit]
    return f"{tag} ({', '.join(names)})" if names else "0"


def predict(history: Collection[float]) -> float:
    """Return a prediction of the next value of the series `history`, from 0 to 1 (eq. 1 to 3).

    The prediction is a linear regression by least squares of each value on the value before it. Brackets
    missing in the paper's equations are added: the denominators are n sum(x^2) - (sum x)^2. If there are
    fewer than three values, or if all are equal, the prediction is the last value. Raises ValueError if
    `history` is empty.
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
    """The errors of a series of predictions: mean absolute error (MAE) and root mean square error (RMSE), as
    in Table 3.

    For comparison, the errors include the MAE of predicting that each value equals the value before it.
    """

    __slots__ = ("absolute", "count", "last_absolute", "squared")

    def __init__(self) -> None:
        self.count = 0
        self.absolute = self.squared = self.last_absolute = 0.0

    def add(self, predicted: float, came: float, last: float) -> None:
        """Add the error of the prediction `predicted`, given the actual value `came` and the value before it,
        `last`."""
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
        """Return the errors as a dictionary of JSON values. All are 0 if there was no prediction.

        The keys are `mae`, `rmse`, `last_mae` (the MAE of predicting no change) and `predictions` (the number
        of predictions).
        """
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
        """Add a finished map that ran for `elapsed_s` seconds.

        `cpu_s`: seconds of CPU time on one core. `disk_s`: seconds that the map's I/O would take on an idle
        disk.
        """
        self.tasks += 1
        self._cpu_s += cpu_s
        self._disk_s += disk_s
        self._elapsed_s += elapsed_s

    def tag(self, cpu_share: float, io_share: float) -> int:
        """Return the job's tag: the CPU bit is set if the maps' mean use of the CPU exceeds `cpu_share`, the
        I/O bit if their mean use of the disk exceeds `io_share`.

        The shares are fractions of the maps' run time. The result is the constant UNKNOWN if no map was
        added.
        """
        if self._elapsed_s <= 0:
            return UNKNOWN
        return tag(self._cpu_s / self._elapsed_s > cpu_share, self._disk_s / self._elapsed_s > io_share)

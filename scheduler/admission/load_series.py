"""The predicted loads of nodes for the policy CSLA, one for each heartbeat of each node.

Most predictions are only compared with the value that came, for the table of errors. They are therefore
computed many at once, with the same operations in the same order as in `scheduler.models.csla_tags.predict`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from schedbed.scheduler.models.csla_tags import Errors, predict
from schedbed.tasks.specs import NodeId

_AT_ONCE = 20_000
"""The number of values whose predictions are computed at once."""


class LoadSeries:
    """The loads (shares from 0 to 1) of all nodes for one resource, as reported with heartbeats.

    A node's next load is predicted from its last `window` loads.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._errors = Errors()
        self._recent: dict[NodeId, deque[float]] = {}  # The last loads.
        self._before: dict[NodeId, list[float]] = {}  # The last loads without those in `_values`.
        self._nodes: list[NodeId] = []  # The node of each load in `_values`.
        self._values: list[float] = []  # Loads that are not compared with their predictions yet.

    def see(self, node: NodeId, load: float) -> None:
        """Add the node's present load."""
        recent = self._recent.get(node)
        if recent is None:
            recent = self._recent[node] = deque(maxlen=self._window)
        recent.append(load)
        self._nodes.append(node)
        self._values.append(load)
        if len(self._values) >= _AT_ONCE:
            self._compare()

    def next(self, node: NodeId) -> float | None:
        """Return the node's predicted next load, or None before its first load."""
        recent = self._recent.get(node)
        return None if recent is None else predict(recent)

    def errors(self) -> Errors:
        """Return the errors of all predictions so far."""
        self._compare()
        return self._errors

    def _compare(self) -> None:
        """Add the errors of the predictions of `_values`, in the order in which the values came."""
        import numpy as np

        of_node: dict[NodeId, list[int]] = {}
        for number, node in enumerate(self._nodes):
            of_node.setdefault(node, []).append(number)
        loads: list[float] = []
        places = np.empty(len(self._values), dtype=np.int64)  # Of each value in `loads`.
        begins = np.empty(len(self._values), dtype=np.int64)  # Place of the first known load of its node.
        for node, numbers in of_node.items():
            begin = len(loads)
            loads += self._before.get(node, [])
            places[numbers] = np.arange(len(loads), len(loads) + len(numbers))
            begins[numbers] = begin
            loads += [self._values[number] for number in numbers]
            self._before[node] = list(self._recent[node])
        series = np.array(loads)
        known = np.minimum(self._window, places - begins)
        said = _predictions(series, places, known, self._window)
        last = series[np.maximum(places - 1, 0)]
        told = known > 0
        came = np.array(self._values)[told].tolist()
        self._errors.add_all(zip(said[told].tolist(), came, last[told].tolist(), strict=True))
        self._nodes, self._values = [], []


def _predictions(series: Any, places: Any, known: Any, window: int) -> Any:
    """Return what `predict` says about each of the `places` in `series`, from the `known` values before it.

    Where no value is known, the result has no meaning.
    """
    import numpy as np

    sum_x = np.zeros(len(places))
    sum_y, sum_xx, sum_xy = sum_x.copy(), sum_x.copy(), sum_x.copy()
    for step in range(window - 1):
        at = np.minimum(places - known + step, len(series) - 2)
        counts = step < known - 1
        x, y = np.where(counts, series[at], 0.0), np.where(counts, series[at + 1], 0.0)
        sum_x += x
        sum_y += y
        sum_xx += x * x
        sum_xy += x * y
    last = series[np.maximum(places - 1, 0)]
    count = known - 1
    denominator = count * sum_xx - sum_x * sum_x
    fits = (count >= 2) & (denominator > 1e-12)
    divisor = np.where(fits, denominator, 1.0)
    slope = (count * sum_xy - sum_x * sum_y) / divisor
    intercept = (sum_y * sum_xx - sum_x * sum_xy) / divisor
    return np.where(fits, np.minimum(1.0, np.maximum(0.0, intercept + slope * last)), last)

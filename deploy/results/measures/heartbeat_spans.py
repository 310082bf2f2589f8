"""The time that each heartbeat of a node covers, and sums over the heartbeats of a node in a time window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, order_by

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class HeartbeatSpans:
    """The heartbeats of all nodes, sorted by node and time. Each covers the time since the previous one.

    `order` contains their rows in the table. `covered` is in seconds, and 0 for the first heartbeat of a
    node.
    """

    order: np.ndarray
    nodes: Coded
    t: np.ndarray
    covered: np.ndarray

    @staticmethod
    def of(heartbeats: pd.DataFrame) -> HeartbeatSpans:
        """Return the sorted heartbeats of a table."""
        times, nodes = heartbeats["t"].to_numpy(float), Coded.of(heartbeats["node"])
        order = order_by(nodes.codes, times)
        nodes, times = nodes[order], times[order]
        gaps = np.nan_to_num(np.diff(times, prepend=times[:1]))
        is_same = np.append(False, nodes.codes[1:] == nodes.codes[:-1])[: len(times)]
        return HeartbeatSpans(order, nodes, times, np.clip(np.where(is_same, gaps, 0.0), 0.0, None))

    def in_rows(self) -> np.ndarray:
        """Return the covered seconds in the order of the table's rows."""
        made = np.empty(len(self.order))
        made[self.order] = self.covered
        return made

    def sums(self, window_s: float, values: Sequence[np.ndarray]) -> tuple[Coded, list[np.ndarray]]:
        """Sum each of `values`, in this object's order, by node and window with heartbeats, sorted so."""
        window = (self.t / window_s).astype(int)
        is_first = np.append(True, np.diff(self.nodes.codes) != 0) | np.append(True, np.diff(window) != 0)
        firsts = np.flatnonzero(is_first[: len(window)])
        return self.nodes[firsts], _sums(values, firsts)


def _sums(several: Sequence[np.ndarray], firsts: np.ndarray) -> list[np.ndarray]:
    """Sum each array from each first index to the next, side by side, with Kahan summation."""
    sizes = np.diff(firsts, append=len(several[0]))
    largest_first = np.argsort(-sizes, kind="stable")
    starts = firsts[largest_first]
    # The number of groups with more than 0, 1, ... rows.
    counts = (len(sizes) - np.cumsum(np.bincount(sizes))[:-1]).tolist()
    made: list[np.ndarray] = []
    for values in several:
        total, lost = np.zeros(len(firsts)), np.zeros(len(firsts))
        for place, count in enumerate(counts):
            value = values[starts[:count] + place] - lost[:count]
            new = total[:count] + value
            lost[:count] = new - total[:count] - value
            total[:count] = new
        in_order = np.empty(len(firsts))
        in_order[largest_first] = total
        made.append(in_order)
    return made

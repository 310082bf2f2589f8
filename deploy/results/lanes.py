"""Assignment of attempts to lanes for drawing, where a lane is one slot of a node.

Attempts do not record their slot, so it is derived from their times.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NODES_DRAWN = 200  # The most nodes drawn; a larger cluster is sampled evenly.
ATTEMPTS_DRAWN = 100_000  # Beyond about this number, fewer nodes are drawn.
TOUCH_S = 0.002  # The most overlap of the recorded times of two attempts in one slot.


def drawn_nodes(names: Sequence[str], attempts: int) -> list[str]:
    """Return the names of the nodes to draw.

    If there are too many nodes or attempts, a part of the nodes is selected at equal distances.
    """
    few = min(NODES_DRAWN, ATTEMPTS_DRAWN * len(names) // max(1, attempts))
    count = min(len(names), max(1, few))
    return [names[place * len(names) // count] for place in range(count)]


def assign_lanes(attempts: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Return the attempts in order of time, with the additional columns `from_s`, `to_s` and `lane`.

    `lane` is the number of the slot in which the attempt is drawn. Map slots and reduce slots of a node are
    numbered separately, and each attempt receives the lowest number that is free. An attempt without a start
    is drawn from its assignment. An attempt without an end is drawn until `end_s`.
    """
    data = attempts.copy()
    data["from_s"] = data["start"].fillna(data["assigned"]).fillna(data["end"]).fillna(0.0)
    data["to_s"] = data["end"].fillna(end_s).clip(lower=data["from_s"])
    data = data.sort_values(["from_s", "attempt"], kind="stable").reset_index(drop=True)
    free: dict[tuple[str, str], list[int]] = {}
    busy: dict[tuple[str, str], list[tuple[float, int]]] = {}
    lanes: list[int] = []
    for node, kind, start, end in zip(data["node"], data["kind"], data["from_s"], data["to_s"], strict=True):
        mine, running = free.setdefault((node, kind), []), busy.setdefault((node, kind), [])
        while running and running[0][0] <= start + TOUCH_S:
            heapq.heappush(mine, heapq.heappop(running)[1])
        lane = heapq.heappop(mine) if mine else len(running)
        heapq.heappush(running, (end, lane))
        lanes.append(lane)
    data["lane"] = lanes
    return data

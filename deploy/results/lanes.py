"""The slot of its node in which an attempt is drawn. Attempts have no slot numbers; their times determine one."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NODES_DRAWN = 200  # at most; of a larger cluster this many, evenly chosen
ATTEMPTS_DRAWN = 100_000  # about; fewer nodes are drawn where they had more
TOUCH_S = 0.002  # an attempt may be recorded as beginning this much before the slot's last one ended


def drawn_nodes(names: Sequence[str], attempts: int) -> list[str]:
    """Return the nodes that get a lane each: all, or an even selection if nodes or attempts are too many."""
    few = min(NODES_DRAWN, ATTEMPTS_DRAWN * len(names) // max(1, attempts))
    count = min(len(names), max(1, few))
    return [names[place * len(names) // count] for place in range(count)]


def assign_lanes(attempts: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Return attempts by time, with `from_s`, `to_s` and `lane`: the lowest number that is free on the node for the
    kind.

    An attempt that never ran its first line is drawn from its assignment; one without an end until `end_s`.
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

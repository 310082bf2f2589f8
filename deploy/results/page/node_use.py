"""The nodes' use of CPU, disk and network over time: for each node or rack, on average, and at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.series import Steps
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals
from schedbed.deploy.results.page.bands import Bands
from schedbed.tasks.units import format_rate

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (("cpu", "cpu_util"), ("disk", "disk_util"), ("network", "net_util"))


def use(mine: RunTables, edges: np.ndarray, bands: Bands | None, *, simulated: bool) -> dict[str, Any]:
    """Return the use of CPU, disk and network in percent of the declared rates, for each time bin.

    The bins are between the times in `edges`. There are values for each node, or for each group of racks in
    `bands` if the cluster is large, and the mean and the maximum over all nodes. The value of a bin without
    heartbeats is null. In a simulated run, it is 0 unless a fault silenced the node, since an idle simulated
    node sends no heartbeats.
    """
    heartbeats = mine.heartbeats
    covered, t = heartbeat_intervals(heartbeats), heartbeats["t"].to_numpy(float)
    by_node = heartbeats.groupby("node").indices
    nodes = [str(node["node"]) for node in mine.nodes]
    rows = [by_node.get(node, np.zeros(0, int)) for node in nodes]
    idle = [simulated & ~_silenced(mine.tables["faults"], node, edges) for node in nodes]
    values = [heartbeats[column].fillna(0.0).to_numpy(float) for _, column in COLUMNS]
    uses = [_node_use(t[row], covered[row], [value[row] for value in values], edges) for row in rows]
    made: dict[str, Any] = {"nodes": nodes if bands is None else bands.names}
    for number, (name, _) in enumerate(COLUMNS):
        cells = np.array(
            [
                np.where(np.isnan(use[number]) & free, 0.0, use[number])
                for use, free in zip(uses, idle, strict=True)
            ]
        ).reshape(len(nodes), len(edges) - 1)
        lines = cells if bands is None else np.array([_mean(cells[of]) for of in bands.members])
        made[name] = [_percents(line) for line in lines]
        made[f"{name}_mean"] = _percents(_mean(cells))
        made[f"{name}_most"] = _percents(np.fmax.reduce(cells, axis=0) if len(cells) else _mean(cells))
    return made


def limits(mine: RunTables) -> dict[str, str]:
    """Return a dictionary from resource (CPU, disk, network) to the nodes' declared rate as text.

    If the nodes declare different rates, the text is like `3 different rates`.
    """
    return {
        "cpu": _span([f"{node['cores']:g} x {node['core_speed']:g} cores" for node in mine.nodes]),
        "disk": _span([_rate(node.get("disk_bps")) for node in mine.nodes]),
        "network": _span([_rate(node.get("network_bps")) for node in mine.nodes]),
    }


def _rate(bps: float | None) -> str:
    return "no limit" if bps is None else format_rate(bps)


def _span(rates: list[str]) -> str:
    different = list(dict.fromkeys(rates))
    return different[0] if len(different) == 1 else f"{len(different)} different rates"


def _mean(cells: np.ndarray) -> np.ndarray:
    """Return the mean of each column, ignoring NaN. The mean is NaN for a column that contains only NaN."""
    known = ~np.isnan(cells)
    count = known.sum(axis=0)
    total = np.where(known, cells, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _percents(line: np.ndarray) -> list[int | None]:
    return [None if np.isnan(share) else round(100 * share) for share in line.tolist()]


def _node_use(
    t: np.ndarray, lasts: np.ndarray, values: Sequence[np.ndarray], edges: np.ndarray
) -> list[np.ndarray]:
    """Return the mean use of each resource of a node in each time bin. NaN marks a bin with too few heartbeats.

    The bins are between the times in `edges`. `t` contains the times of the heartbeats, `lasts` the seconds
    since the previous heartbeat, and `values` the use of each resource in these seconds. After a long
    silence, a heartbeat covers only the usual interval.
    """
    usual = float(np.median(lasts[lasts > 0])) if (lasts > 0).any() else 1.0
    spoken = np.where(lasts > max(4 * usual, 3.0), usual, lasts)
    cover, *areas = _spread(t - spoken, t, [np.ones(len(t)), *values], edges)
    known = cover > 0.25 * np.diff(edges)
    return [np.divide(area, cover, out=np.full(len(area), np.nan), where=known) for area in areas]


def _spread(
    start: np.ndarray, end: np.ndarray, values: Sequence[np.ndarray], edges: np.ndarray
) -> list[np.ndarray]:
    """Return, for each of the `values` and each time bin between `edges`, the area of boxes within the bin.

    A box extends from its `start` to its `end` and has the height of the value.
    """
    deltas = [np.concatenate([value, -value]) for value in values]
    return [np.diff(steps.integral(edges)) for steps in Steps.of_all(np.concatenate([start, end]), deltas)]


def _silenced(faults: pd.DataFrame, node: str, edges: np.ndarray) -> np.ndarray:
    """Return a boolean array that is true for the time bins in which a fault on the node was in force.

    The bins are between the times in `edges`. Such a fault may have stopped the node's heartbeats.
    """
    made = np.zeros(len(edges) - 1, bool)
    for t, target, until in zip(faults["t"], faults["target"], faults["until"], strict=True):
        if node in str(target).rpartition(" on ")[2].split(","):
            made |= (edges[1:] > t) & (edges[:-1] < (np.inf if until != until else until))
    return made

"""The drawing of large clusters in the report, with one band per rack instead of one row per slot or node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals, Steps
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals
from schedbed.tasks.units import format_rate

if TYPE_CHECKING:
    import pandas as pd

NODES_ALONE = 40  # Up to this number, nodes are drawn one by one.
BANDS_MAX = 25
BAND_BINS = 160
BAND_GROUPS = 6  # The most jobs or users drawn; smaller ones are added up.
REST = "others"
PLACES = {"node": "node-local", "rack": "rack-local", "off": "off-rack"}
NO_INPUT = "reduces, no input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """The bands in which a large cluster is drawn: a rack each, or several racks if there are very many.

    `members` contains the indexes of each band's nodes in the list of nodes.
    """

    names: list[str]
    members: list[np.ndarray]

    @staticmethod
    def of(nodes: Sequence[Mapping[str, Any]]) -> Bands | None:
        """Return the bands of a cluster, or None if the cluster has few enough nodes to draw each of them."""
        if len(nodes) <= NODES_ALONE:
            return None
        racks: dict[str, list[int]] = {}
        for place, node in enumerate(nodes):
            racks.setdefault(str(node["rack"]), []).append(place)
        names = list(racks)
        cuts = np.array_split(np.arange(len(names)), min(BANDS_MAX, len(names)))
        return Bands(
            names=[_named([names[i] for i in cut]) for cut in cuts],
            members=[np.array([place for i in cut for place in racks[names[i]]]) for cut in cuts],
        )


def _named(racks: Sequence[str]) -> str:
    return f"rack {racks[0]}" if len(racks) == 1 else f"racks {racks[0]} to {racks[-1]}"


def band_lanes(mine: RunTables, bands: Bands, end_s: float) -> dict[str, Any]:
    """Return the percentage of each band's slots in use per time bin, by job, by user and by locality."""
    edges = np.linspace(0.0, end_s, BAND_BINS + 1)
    slots = [
        sum(int(mine.nodes[i]["map_slots"]) + int(mine.nodes[i]["reduce_slots"]) for i in of)
        for of in bands.members
    ]
    band_of = {str(mine.nodes[i]["node"]): band for band, of in enumerate(bands.members) for i in of}
    band = mine.attempts["node"].astype("str").map(band_of).fillna(-1).to_numpy(int)
    bands_of = Intervals.of(mine.attempts, Coded(band, np.array(bands.names)), mine.end_s).group.codes
    made: dict[str, Any] = {
        "names": bands.names,
        "nodes": [len(of) for of in bands.members],
        "slots": slots,
        "bins": BAND_BINS,
    }
    for key, groups in _groupings(mine).items():
        tasks = Intervals.of(mine.attempts, groups, mine.end_s)
        names = tasks.groups()
        shown = names[:BAND_GROUPS]
        known = {name: name for name in shown}
        tasks = replace(tasks, group=tasks.group.renamed(known, REST))
        shown += [REST] if len(names) > len(shown) else []
        made[key] = {
            "names": shown,
            "series": [
                _of_band(tasks, bands_of == number, shown, edges, slots[number])
                for number in range(len(bands.names))
            ],
        }
    return made


def _groupings(mine: RunTables) -> dict[str, Coded]:
    users = dict(zip(texts_of(mine.jobs["job"]), texts_of(mine.jobs["user"].astype(str)), strict=True))
    return {
        "job": Coded.of(mine.attempts["job"]),
        "user": Coded.mapped(mine.attempts["job"], users),
        "place": Coded.mapped(mine.attempts["locality"], PLACES, NO_INPUT),
    }


def _of_band(
    tasks: Intervals, chosen: np.ndarray, names: Sequence[str], edges: np.ndarray, slots: int
) -> list[list[int]]:
    mine = Intervals(tasks.start[chosen], tasks.end[chosen], tasks.group[chosen])
    shares = [100 * mine.binned(name, edges) / max(slots, 1) for name in names]
    return [np.round(share).astype(int).tolist() for share in shares]


# The nodes' use of CPU, disk and network over time: for each node or rack, on average, and at most.

COLUMNS = (("cpu", "cpu_util"), ("disk", "disk_util"), ("network", "net_util"))


def use(mine: RunTables, edges: np.ndarray, bands: Bands | None, *, simulated: bool) -> dict[str, Any]:
    """Return the use of CPU, disk and network per time bin, in percent of the declared rates.

    Values are per node (per band if the cluster is large), with the mean and maximum over nodes. A bin
    without heartbeats is null. In a simulation, it is 0 unless a fault silenced the node, since an idle
    simulated node sends no heartbeats.
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
    """Return each resource's declared rate as text, such as `3 different rates`."""
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
    """Return the mean of each column without NaN, or NaN if nothing is left."""
    known = ~np.isnan(cells)
    count = known.sum(axis=0)
    total = np.where(known, cells, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _percents(line: np.ndarray) -> list[int | None]:
    return [None if np.isnan(share) else round(100 * share) for share in line.tolist()]


def _node_use(
    t: np.ndarray, lasts: np.ndarray, values: Sequence[np.ndarray], edges: np.ndarray
) -> list[np.ndarray]:
    """Return a node's mean use of each resource per time bin, NaN with too few heartbeats.

    `lasts` contains the seconds since the previous heartbeat, whose use `values` are. After a long silence, a
    heartbeat covers only the usual interval.
    """
    usual = float(np.median(lasts[lasts > 0])) if (lasts > 0).any() else 1.0
    spoken = np.where(lasts > max(4 * usual, 3.0), usual, lasts)
    cover, *areas = _spread(t - spoken, t, [np.ones(len(t)), *values], edges)
    known = cover > 0.25 * np.diff(edges)
    return [np.divide(area, cover, out=np.full(len(area), np.nan), where=known) for area in areas]


def _spread(
    start: np.ndarray, end: np.ndarray, values: Sequence[np.ndarray], edges: np.ndarray
) -> list[np.ndarray]:
    """Return, per value and time bin, the area of boxes of that height from `start` to `end`."""
    deltas = [np.concatenate([value, -value]) for value in values]
    return [np.diff(steps.integral(edges)) for steps in Steps.of_all(np.concatenate([start, end]), deltas)]


def _silenced(faults: pd.DataFrame, node: str, edges: np.ndarray) -> np.ndarray:
    """Return in which time bins a fault on the node was in force, which may have stopped its heartbeats."""
    made = np.zeros(len(edges) - 1, bool)
    for t, target, until in zip(faults["t"], faults["target"], faults["until"], strict=True):
        if node in str(target).rpartition(" on ")[2].split(","):
            made |= (edges[1:] > t) & (edges[:-1] < (np.inf if until != until else until))
    return made

"""The drawing of large clusters in the report, with one band per rack instead of one row per slot or node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables

NODES_ALONE = 40  # Up to this number, nodes are drawn one by one.
BANDS_MAX = 25
BAND_BINS = 160
BAND_GROUPS = 6  # The most jobs or users drawn; smaller ones are added up.
REST = "others"
PLACES = {"node": "node-local", "rack": "rack-local", "off": "off-rack"}
NO_INPUT = "reduces, no input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """The bands in which a large cluster is drawn. A band is a rack, or several racks if there are very many.

    `names` are the labels of the bands, and `members` contains the indexes of each band's nodes in the list
    of nodes.
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
    """Return the percentage of each band's slots in use, for each time bin from 0 to `end_s`.

    `mine` contains the run's tables. There are three sets of percentages: separate values for each job, for
    each user, and for each locality.
    """
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

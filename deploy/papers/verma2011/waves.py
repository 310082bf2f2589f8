"""Figures 1 and 2: the same sort job with many slots and with few slots, and its waves of tasks.

A wave is a set of tasks that run at the same time, one in each slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES, TASKS = 64, 64  # TASKS maps and TASKS reduces
SLOTS = {"many": (64, 64), "few": (16, 22)}
LIVE = 8  # divisor of the size in live runs


def measure(bench: Bench) -> Measured:
    """Run the sort job with many slots and with few slots, and measure its waves of tasks.

    A node has at most one slot of each kind.
    """
    found: dict[str, list[float]] = {}
    series: dict[str, pd.DataFrame] = {}
    few: list[RunTables] = []
    for name, (maps, reduces) in SLOTS.items():
        finished = bench.run(f"waves-{name}", scenario(maps, reduces, live=bench.live))
        runs = finished.each("fifo")
        for kind in ("map", "reduce"):
            found[f"{kind}_{name}"] = [waves(run, kind) for run in runs]
        found[f"overlap_{name}"] = [_overlapping(run) for run in runs]
        series[name] = useful(runs[0].attempts)
        few = runs if name == "few" else few
    busier = [_busier(run) for run in few]
    found["busier_few"] = [float(len(each)) for each in busier]
    return Measured(values=found, series=series, notes=_lengths(few, busier))


def scenario(maps: int, reduces: int, *, live: bool) -> dict[str, Any]:
    """Return a scenario with one sort job of 8 GB in blocks of 128 MB.

    The first `maps` of 64 nodes have a map slot, and the first `reduces` nodes have a reduce slot. A live
    scenario has an eighth of the nodes and data.
    """
    size = LIVE if live else 1
    machines, maps, reduces = MACHINES // size, maps // size, -(-reduces // size)
    tasks = TASKS // size
    node = {
        "cores": 4,
        "core_speed": 0.15 if live else 0.1,
        "memory": "512MiB" if live else "8GiB",
        "disk": "60MB/s",
        "network": "1Gbit/s",
    }
    groups = [
        {"count": 1, "map_slots": int(number < maps), "reduce_slots": int(number < reduces)}
        for number in range(machines)
    ]
    job = {
        "app": "sort",
        "input": {"generate": "records", "size": f"{128 * tasks}MiB", "seed": 1},
        "reduces": tasks,
    }
    return {
        "scale": 0.1 if live else 1.0,
        "cluster": {"nodes": groups, "heartbeat": "500ms" if live else "1s", "node": node},
        "blocks": {"size": "128MiB"},
        "workload": {"jobs": [job]},
        "policies": ["fifo"],
    }


def waves(run: RunTables, kind: str) -> int:
    """Return the number of waves of maps or reduces: the largest number of such tasks that one node ran.

    `kind` is `map` or `reduce`. A node has at most one slot of each kind.
    """
    done = useful(run.attempts)
    return int(done[done["kind"] == kind].groupby("node").size().max())


def _busier(run: RunTables) -> list[str]:
    """Return the names of the nodes that ran more reduces than the mean number per node, rounded up.

    Only nodes that ran any reduce are included in the mean.
    """
    reduces = useful(run.attempts).query("kind == 'reduce'")
    count = reduces.groupby("node").size()
    return list(count[count > -(-len(reduces) // len(count))].index)


def _lengths(runs: Sequence[RunTables], busier: Sequence[Sequence[str]]) -> list[str]:
    """Return a note that compares reduce durations on the nodes `busier` with those on other nodes.

    `busier` has one list of nodes per run. Durations are measured from the end of the last map. The result is
    a list with one note, or empty if no node is busier.
    """
    lengths: dict[bool, list[float]] = {True: [], False: []}
    for run, nodes in zip(runs, busier, strict=True):
        if not nodes:
            continue
        done = useful(run.attempts)
        reduces, maps_s = done[done["kind"] == "reduce"], done[done["kind"] == "map"]["end"].max()
        took_s = reduces["end"] - reduces["start"].clip(lower=maps_s)
        for own, each in took_s.groupby(reduces["node"].isin(nodes)):
            lengths[bool(own)] += each.tolist()
    if not lengths[True]:
        return []
    short_s, others_s = fmean(lengths[True]), fmean(lengths[False])
    machines = sum(map(len, busier))
    return [
        f"{machines} machines in {len(runs)} repeats ran a reduce more than tasks over slots. Their reduces took "
        f"{short_s:.1f} s after the map stage on average, and {others_s:.1f} s on the other machines of these repeats."
    ]


def _overlapping(run: RunTables) -> float:
    """Return the percentage of reduces that began to shuffle before the last map ended."""
    done = useful(run.attempts)
    reduces = done[done["kind"] == "reduce"]
    return 100 * float((reduces["start"] < done[done["kind"] == "map"]["end"].max()).mean())


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the tasks over time as in the paper. Maps are below the reduces, whose shuffle is paler."""
    axes = figure.subplots(1, len(SLOTS), sharex=True, sharey=True)
    for ax, name in zip(axes, SLOTS, strict=True):
        done = measured.series[name].sort_values(["kind", "start"])
        maps, reduces = done[done["kind"] == "map"], done[done["kind"] == "reduce"]
        sorted_s = reduces["sort_end"].fillna(reduces["shuffle_end"])
        _bars(ax, range(len(maps)), maps["start"], maps["end"], OKABE[0], "map")
        rows = range(len(maps), len(maps) + len(reduces))
        _bars(ax, rows, reduces["start"], sorted_s, OKABE[4], "shuffle, sort")
        _bars(ax, rows, sorted_s, reduces["end"], OKABE[1], "reduce")
        ax.set(xlabel="time [s]", ylabel="tasks by start", title="")
        ax.set_title(f"{SLOTS[name][0]} map, {SLOTS[name][1]} reduce slots", loc="right", fontsize=8, y=1.08)
        legend(ax)


def _bars(ax: Any, rows: range, start: pd.Series, end: pd.Series, shade: str, label: str) -> None:
    ax.barh(
        list(rows),
        (end - start).to_numpy(float),
        left=start.to_numpy(float),
        height=1.0,
        color=shade,
        label=label,
    )


EXPERIMENT = Experiment(
    name="waves", measure=measure, draw=draw, takes_s={"sim": 20, "process": 200}, repeats=3, size=(7.2, 3.4)
)

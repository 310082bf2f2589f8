"""The durations of a job's phases: waves of tasks, profiles of four executions, and what they predict.

A wave is a set of tasks that run at the same time, one in each slot. A profile contains the durations of a
job's phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, Values
from schedbed.deploy.papers.figures import Panel, Samples, legend, mean_bars, panels
from schedbed.deploy.papers.verma2011.slo_slots import profile_of
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.scheduler.models.aria_bounds import Bounds, bounds
from schedbed.scheduler.models.job_profile import JobProfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Figures 1 and 2: the same sort job with many slots and with few slots, and its waves of tasks.

MACHINES, TASKS = 64, 64  # TASKS maps and TASKS reduces
SORT_SLOTS = {"many": (64, 64), "few": (16, 22)}
LIVE_SORT = 8  # divisor of the size in live runs


def waves(bench: Bench) -> Measured:
    """Run the sort job with many slots and with few slots, and measure its waves of tasks.

    A node has at most one slot of each kind.
    """
    found: dict[str, list[float]] = {}
    series: dict[str, pd.DataFrame] = {}
    few: list[RunTables] = []
    for name, (maps, reduces) in SORT_SLOTS.items():
        finished = bench.run(f"waves-{name}", sort_job(maps, reduces, live=bench.live))
        runs = finished.each("fifo")
        for kind in ("map", "reduce"):
            found[f"{kind}_{name}"] = [waves_of(run, kind) for run in runs]
        found[f"overlap_{name}"] = [_overlapping(run) for run in runs]
        series[name] = useful(runs[0].attempts)
        few = runs if name == "few" else few
    busier = [_busier(run) for run in few]
    found["busier_few"] = [float(len(each)) for each in busier]
    return Measured(values=found, series=series, notes=_lengths(few, busier))


def sort_job(maps: int, reduces: int, *, live: bool) -> dict[str, Any]:
    """Return a scenario with one sort job of 8 GB in blocks of 128 MB.

    The first `maps` of 64 nodes have a map slot, and the first `reduces` nodes have a reduce slot. A live
    scenario has an eighth of the nodes and data.
    """
    size = LIVE_SORT if live else 1
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


def waves_of(run: RunTables, kind: str) -> int:
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


def draw_waves(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the tasks over time as in the paper. Maps are below the reduces, whose shuffle is paler."""
    axes = figure.subplots(1, len(SORT_SLOTS), sharex=True, sharey=True)
    for ax, name in zip(axes, SORT_SLOTS, strict=True):
        done = measured.series[name].sort_values(["kind", "start"])
        maps, reduces = done[done["kind"] == "map"], done[done["kind"] == "reduce"]
        sorted_s = reduces["sort_end"].fillna(reduces["shuffle_end"])
        _bars(ax, range(len(maps)), maps["start"], maps["end"], OKABE[0], "map")
        rows = range(len(maps), len(maps) + len(reduces))
        _bars(ax, rows, reduces["start"], sorted_s, OKABE[4], "shuffle, sort")
        _bars(ax, rows, sorted_s, reduces["end"], OKABE[1], "reduce")
        ax.set(xlabel="time [s]", ylabel="tasks by start", title="")
        ax.set_title(
            f"{SORT_SLOTS[name][0]} map, {SORT_SLOTS[name][1]} reduce slots", loc="right", fontsize=8, y=1.08
        )
        legend(ax)


def _bars(ax: Any, rows: range, start: pd.Series, end: pd.Series, shade: str, label: str) -> None:
    took_s = (end - start).to_numpy(float)
    ax.barh(list(rows), took_s, left=start.to_numpy(float), height=1.0, color=shade, label=label)


# Table 1: the profiles of four executions of one application, and how much the profiles differ.

PHASES = ("map", "first_shuffle", "typical_shuffle", "reduce")
JOBS = ("sept_256", "oct_256", "sept_64", "oct_64")


def table1(bench: Bench) -> Measured:
    """Measure the mean duration of each phase of four jobs, and by how many percent it varies.

    Variation is measured between repeats and between the jobs.
    """
    jobs = run_months(bench)
    found = {f"{phase}_{job}": averages(jobs, job, phase) for job in JOBS for phase in PHASES}
    spread = {f"spread_{phase}": spread_of([found[f"{phase}_{job}"] for job in JOBS]) for phase in PHASES}
    return Measured(values={**found, **spread, "variation": _variation(jobs)})


def averages(jobs: Mapping[str, Sequence[Month]], job: str, phase: str) -> list[float]:
    """Return the mean duration in s of a phase of the job, such as `first_shuffle`, one number per repeat."""
    return [getattr(run.profile, phase).avg_s for run in jobs[job]]


def _variation(jobs: Mapping[str, Sequence[Month]]) -> list[float]:
    """Return the largest variation of mean task times between repeats, in percent, one number per repeat.

    For each job and kind of task, the mean time in a repeat is compared with the mean over all repeats. The
    number for a repeat is the largest distance, in percent of the mean over all repeats.
    """
    worst = [0.0] * len(jobs[JOBS[0]])
    for runs in jobs.values():
        for phase in ("map", "reduce"):
            averages = [getattr(run.profile, phase).avg_s for run in runs]
            middle = fmean(averages)
            worst = [max(w, 100 * abs(a / middle - 1)) for w, a in zip(worst, averages, strict=True)]
    return worst


def spread_of(by_job: Sequence[Sequence[float]]) -> list[float]:
    """Return how much a value differs between jobs: the largest minus the smallest, in percent of the mean.

    `by_job` has one list per job with one number per repeat. The result has one number per repeat.
    """
    return [100 * (max(four) - min(four)) / fmean(four) for four in zip(*by_job, strict=True)]


DRAW_TABLE1 = panels(
    *(
        Panel({job: f"{phase}_{job}" for job in JOBS}, f"{phase.replace('_', ' ')}, average [s]", tilted=True)
        for phase in PHASES
    )
)


# The job WikiTrends on the logs of two months and with two numbers of slots, for Table 1 and Figure 3.

MONTHS = {"sept": (720, 59.85), "oct": (740, 58.44)}
"""By month, the number of hourly logs (one map each, Table 2) and their mean size in MB (Table 1)."""

SLOTS = {"256": (4, 4), "64": (1, 2)}
"""Map and reduce slots of each machine: 256 and 256, or 64 and 128, on the paper's 64."""

SMALLER, LIVE_MONTHS = 4, 20
"""Divisors of the paper's tasks: in simulations (also of its machines), and in live runs."""

NODES = 64
REDUCES = 320  # not in the paper; Table 1 has more than one wave of reduces with 256 slots
SELECTIVITY = 10.0  # output bytes per input byte of a map, about that of Table 1
FETCH_RATE = "11MB/s"
"""Per reduce: 320 reduces that fetch 720 maps' 599 MB take 1.35 GB each, in Table 1's 121 s of a typical shuffle."""
FETCH_POLL = "4.5s"
"""Time until a reduce knows of the last map outputs: Table 1's first row has 11.5 to 12.5 s of first shuffle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A job of Table 1 in one repeat: its profile, completion time, numbers of tasks, and slots.

    The profile contains the durations of the job's phases. Times are in s and divided by the scenario's
    scale.
    """

    profile: JobProfile
    took_s: float
    maps: int
    reduces: int
    slots: tuple[int, int]


def run_months(bench: Bench) -> dict[str, list[Month]]:
    """Run the four jobs of Table 1 (`sept_256`, `oct_64`, ...), and return the results of each by name.

    Each job has one result per repeat. Each repeat draws new times of all tasks.
    """
    found: dict[str, list[Month]] = {}
    for slots in SLOTS:
        finished = bench.run(f"months-{slots}", scenario(slots, live=bench.live))
        for run in finished.each("fifo"):
            for number, month in enumerate(MONTHS, 1):
                found.setdefault(f"{month}_{slots}", []).append(
                    _month(run, f"job_{number:04d}", finished.scale)
                )
    return found


def _month(run: RunTables, job: str, scale: float) -> Month:
    (row,) = run.jobs[run.jobs["job"] == job].to_dict("records")
    return Month(
        profile=profile_of(run, job).at_scale(1 / scale),
        took_s=(row["finish"] - row["submit"]) / scale,
        maps=row["maps"],
        reduces=row["reduces"],
        slots=(sum(n["map_slots"] for n in run.nodes), sum(n["reduce_slots"] for n in run.nodes)),
    )


def scenario(slots: str, *, live: bool) -> dict[str, Any]:
    """Return a scenario in which the jobs of both months run one after the other on a part of the testbed.

    `slots` (`256` or `64`) is the total number of map slots in the paper. In simulated runs, tasks have the
    overheads of Hadoop 1, with slower polls for map outputs, and a reduce fetches map outputs at a limited
    rate. Live runs have neither overheads nor this limit, and shuffle a tenth of the data.
    """
    size = LIVE_MONTHS if live else SMALLER
    maps, reduces = SLOTS[slots]
    written = SELECTIVITY / 10 if live else SELECTIVITY
    node = {
        "cores": 4,
        "core_speed": 0.04 if live else 1.0,
        "memory": "1GiB" if live else "8GiB",
        "disk": "60MB/s" if live else "100MB/s",  # two disks of 160 GB
        "network": "500Mbit/s" if live else "1Gbit/s",
        "map_slots": maps,
        "reduce_slots": reduces,
    }
    jobs = [
        {
            "name": month,
            "app": "synthetic",
            "submit": f"{4000 * number}s",
            "maps": hours // size,
            "map": {"cpu": "132s", "read": f"{mb}MB", "write": f"{written * mb:g}MB", "variance": 0.12},
            "reduces": REDUCES // size,
            "reduce": {"cpu": "19s", "write": f"{5 * written:g}MB", "variance": 0.1},
        }
        for number, (month, (hours, mb)) in enumerate(MONTHS.items())
    ]
    nodes = 4 if live else NODES // SMALLER
    costs = {"fetch_poll": FETCH_POLL, "fetch_rate": FETCH_RATE}
    return {
        "framework": "none" if live else {"hadoop1": costs},
        "scale": 0.02 if live else 1.0,
        "cluster": {"nodes": nodes, "racks": 2, "heartbeat": "200ms" if live else "3s", "node": node},
        "blocks": {"size": "64MB"},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
    }


# Figure 3: a job's profile from one month predicts completion times in another month with other slots.

PROFILED = "sept_256"
PREDICTED = ("sept_64", "oct_256", "oct_64")


def fig3(bench: Bench) -> Measured:
    """Measure how well one job's profile predicts the completion times of the three other jobs of Table 1.

    A profile contains the durations of a job's phases. The profiled job ran on September's logs with 256
    slots. In each repeat, its profile is used for the other jobs of this repeat.
    """
    jobs = run_months(bench)
    found: dict[str, list[float]] = {}
    series: dict[str, tuple[list[float], list[Bounds]]] = {}
    for name in PREDICTED:
        predicted = [_predict(known, job) for known, job in zip(jobs[PROFILED], jobs[name], strict=True)]
        took = [job.took_s for job in jobs[name]]
        found[name] = [100 * abs(p.avg_s / t - 1) for p, t in zip(predicted, took, strict=True)]
        found[f"{name}_within"] = [
            float(p.low_s <= t <= p.up_s) for p, t in zip(predicted, took, strict=True)
        ]
        series[name] = (took, predicted)
    return Measured(values=found, series=series)


def _predict(known: Month, job: Month) -> Bounds:
    profile = known.profile.for_data(job.profile.map_input_bytes, job.maps, job.reduces)
    return bounds(profile, job.maps, job.reduces, *job.slots)


def draw_fig3(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw measured completion times, and the lower, average and upper bounds that the profile predicts."""
    ax = figure.subplots()
    took, predicted = zip(*(measured.series[name] for name in PREDICTED), strict=True)
    bars: list[tuple[str, str, Samples]] = [("measured", "#000000", took)]
    for shade, bound in zip(OKABE, ("low", "avg", "up"), strict=False):
        times_s = [[getattr(one, f"{bound}_s") for one in some] for some in predicted]
        bars.append((f"predicted T_{bound}", shade, times_s))
    mean_bars(ax, PREDICTED, bars)
    ax.set(ylabel="completion [s], before scale", xlabel="month and map slots")


EXPERIMENTS = (
    Experiment(
        "waves", waves, draw_waves, {"sim": 11, "process": 600}, sim_repeats=FEW_REPEATS, size=(7.2, 3.4)
    ),
    Experiment(
        "table1",
        table1,
        DRAW_TABLE1,
        {"sim": 120, "process": 900},
        sim_repeats=FEW_REPEATS,
        size=(7.2, 3.2),
    ),
    Experiment("fig3", fig3, draw_fig3, {"sim": 1, "process": 900}, sim_repeats=FEW_REPEATS),
)

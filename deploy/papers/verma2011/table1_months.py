"""Table 1: the profiles of four executions of one application, and how much the profiles differ.

A profile contains the durations of a job's phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.wikitrends_profiles import profile_of
from schedbed.deploy.results.metrics import RunTables
from schedbed.scheduler.models.job_profile import JobProfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASES = ("map", "first_shuffle", "typical_shuffle", "reduce")
JOBS = ("sept_256", "oct_256", "sept_64", "oct_64")
PRINTED_SPREAD = (0.75 * 26.1, 1.25 * 26.1)
"""Within 25% of the spread, in percent, that the printed first shuffles have: 10 to 13 s, 11.5 s on average."""


def measure(bench: Bench) -> Measured:
    """Measure the mean duration of each phase of four jobs, and by how many percent it varies.

    Variation is measured between repeats and between the jobs.
    """
    jobs = run_months(bench)
    found = {f"{phase}_{job}": averages(jobs, job, phase) for job in JOBS for phase in PHASES}
    spread = {f"spread_{phase}": spread_of([found[f"{phase}_{job}"] for job in JOBS]) for phase in PHASES}
    if not bench.live:
        free = run_unlimited(bench)
        shuffles = [averages(free, job, "typical_shuffle") for job in JOBS]
        spread["spread_unlimited"] = spread_of(shuffles)
        spread["unlimited_sept_256"], spread["unlimited_sept_64"] = shuffles[0], shuffles[2]
    spread["spread_first_shuffle_reached"] = [
        100.0 * (PRINTED_SPREAD[0] <= each <= PRINTED_SPREAD[1]) for each in spread["spread_first_shuffle"]
    ]
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


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean duration of each phase for the four jobs, with one panel per phase."""
    axes = figure.subplots(1, len(PHASES))
    for ax, phase in zip(axes, PHASES, strict=True):
        keys = [f"{phase}_{job}" for job in JOBS]
        beside_paper(ax, JOBS, keys, said, measured)
        ax.tick_params(axis="x", rotation=60)
        if phase != PHASES[0] and (key := ax.get_legend()):
            key.remove()
        ax.set(ylabel=f"{phase.replace('_', ' ')}, average [s]")


EXPERIMENT = Experiment(
    name="table1",
    measure=measure,
    draw=draw,
    takes_s={"sim": 170, "process": 500},
    repeats=5,
    size=(7.2, 3.2),
)


# The job WikiTrends on the logs of two months and with two numbers of slots, for Table 1 and Figure 3.

MONTHS = {"sept": (720, 59.85), "oct": (740, 58.44)}
"""By month, the number of hourly logs (one map each, Table 2) and their mean size in MB (Table 1)."""

SLOTS = {"256": (4, 4), "64": (1, 2)}
"""Map and reduce slots of each machine: 256 and 256, or 64 and 128, on the paper's 64."""

SMALLER, LIVE = 4, 20
"""Divisors of the paper's tasks: in simulations (also of its machines), and in live runs."""

NODES = 64
REDUCES = 320  # not in the paper; Table 1 has more than one wave of reduces with 256 slots
UNLIMITED_REPEATS = 10
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
    return _months(bench, "", scenario)


def run_unlimited(bench: Bench) -> dict[str, list[Month]]:
    """Run the four jobs of Table 1 with no limit on the rate at which a reduce fetches map outputs.

    Only disks and networks limit the rate. There are at most ten repeats.
    """
    return _months(bench, "-unlimited", partial(scenario, fetch_rate=None), UNLIMITED_REPEATS)


def run_changed(
    bench: Bench, name: str, change: Callable[[dict[str, Any]], object]
) -> dict[str, list[Month]]:
    """Run the four jobs of Table 1 with a changed scenario, and return the results of each job by name.

    `change` is a function that edits the scenario in place. `name` is appended to the name of the runs.
    """

    def changed(slots: str, *, live: bool) -> dict[str, Any]:
        plan = scenario(slots, live=live)
        change(plan)
        return plan

    return _months(bench, f"-{name}", changed)


def _months(
    bench: Bench, name: str, plan: Callable[..., dict[str, Any]], most_repeats: int | None = None
) -> dict[str, list[Month]]:
    found: dict[str, list[Month]] = {}
    for seed in bench.seeds[:most_repeats]:
        for slots in SLOTS:
            drawn = {**plan(slots, live=bench.live), "seed": seed}
            finished = bench.run(f"months-{slots}{name}-{seed}", drawn, repeats=1)
            scale = finished.run.scenario["scale"]
            for run in finished.each("fifo"):
                for number, month in enumerate(MONTHS, 1):
                    found.setdefault(f"{month}_{slots}", []).append(_month(run, f"job_{number:04d}", scale))
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


def scenario(slots: str, *, live: bool, fetch_rate: str | None = FETCH_RATE) -> dict[str, Any]:
    """Return a scenario in which the jobs of both months run one after the other on a part of the testbed.

    `slots` (`256` or `64`) is the total number of map slots in the paper. In simulated runs, tasks have the
    overheads of Hadoop 1, with slower polls for map outputs, and a reduce fetches map outputs at `fetch_rate`
    at most. Live runs have neither overheads nor this limit, and shuffle a tenth of the data.
    """
    size = LIVE if live else SMALLER
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
    costs = {"fetch_poll": FETCH_POLL, **({} if fetch_rate is None else {"fetch_rate": fetch_rate})}
    return {
        "framework": "none" if live else {"hadoop1": costs},
        "scale": 0.02 if live else 1.0,
        "cluster": {"nodes": nodes, "racks": 2, "heartbeat": "200ms" if live else "3s", "node": node},
        "blocks": {"size": "64MB"},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
    }

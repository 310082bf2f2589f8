"""DTSS beyond the thesis's five nodes: 100 to 1,000 nodes with three replicas, and its cost to other jobs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat, percent_less
from schedbed.deploy.papers.figures import PAPER, mean_bars
from schedbed.deploy.papers.xu2015.twenty_jobs import BLOCK, DELAY, NODES, QUARTER, jobs, scenario
from schedbed.deploy.results.metrics import RunTables, locality
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = (100, 300, 1000)
REPLICAS = 3
OTHER_S = 20.0  # core time of a map of a job without input
OUTPUT = "100kB"  # of a map
JOBS = 6
REPEATS = 3


def larger(seed: int, *, machines: int) -> Mapping[str, Any]:
    """Return the maps of the first six jobs of Figure 12 on `machines` nodes, with half as many maps for each node.

    Outputs are small, since shuffles would be most of what is simulated. A fifth of the nodes holds all input,
    three times. Every second job has no input, so that none of its maps is split.
    """
    mine = jobs(seed)[:JOBS]
    for number, each in enumerate(mine):
        each |= {"maps": each["maps"] * machines // (2 * NODES), "map": {"read": BLOCK, "write": OUTPUT}}
        each["reduce"] = {"write": OUTPUT}
        if number % 2:
            each |= {"name": f"other{number + 1}", "map": {"cpu": f"{OTHER_S}s", "write": OUTPUT}}
    made = scenario(mine, [DELAY, QUARTER], layout="skewed", live=False)
    made["cluster"]["nodes"] = machines
    made["blocks"]["replication"] = REPLICAS
    return made


def compared(finished: FinishedRun, machines: int) -> dict[str, float]:
    """Return by how much jobs with and without input end earlier under DTSS, and the shares of local input."""
    delay, split = (finished.of(policy) for policy in finished.policies)
    (reads_s, others_s), (split_s, others_split_s) = map(_completion_s, (delay, split))
    return {
        f"gain_{machines}": percent_less(split_s, reads_s),
        f"later_{machines}": -percent_less(others_split_s, others_s),
        f"later_s_{machines}": others_split_s - others_s,
        f"delay_local_{machines}": 100 * locality(delay.attempts)["bytes"]["node"],
        f"local_{machines}": 100 * locality(split.attempts)["bytes"]["node"],
    }


def _completion_s(run: RunTables) -> tuple[float, float]:
    """Return the mean completion time in s of the jobs with input, and of those without."""
    took_s = run.jobs["finish"] - run.jobs["submit"]
    other = run.jobs["name"].str.startswith("other")
    return float(took_s[~other].mean()), float(took_s[other].mean())


def measure(bench: Bench) -> Measured:
    """Measure on each number of nodes what DTSS gains for jobs with input, and what it costs other jobs."""
    found: dict[str, list[float]] = {}
    for machines in MACHINES:
        runs = bench.run(f"larger-{machines}", partial(larger, machines=machines)).split()
        found |= by_repeat(compared(finished, machines) for finished in runs)
    return Measured(values=found)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the jobs with and without input end earlier under DTSS."""
    ax = figure.subplots()
    gained = [measured.samples(f"gain_{each}") for each in MACHINES]
    others = [[-later for later in measured.samples(f"later_{each}")] for each in MACHINES]
    bars = [("jobs with input", OKABE[0], gained), ("other jobs", OKABE[1], others)]
    mean_bars(ax, [f"{each} nodes" for each in MACHINES], bars)
    ax.axhline(0, color=PAPER, linewidth=0.8)
    ax.set_ylabel("completed earlier than under delay [%]")


LARGER = Experiment("larger", measure, draw, {"sim": 120}, sim_repeats=REPEATS)

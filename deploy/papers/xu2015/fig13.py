"""Figure 13: the amount of input that maps read on the node on which they ran."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.xu2015.twenty_jobs import DELAY, MOST, NAMES, QUARTER, run_twenty_jobs
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = {"delay": DELAY, "quarter": QUARTER, "most": MOST}


def measure(bench: Bench) -> Measured:
    """Measure how many GB of local input maps read under each policy, on the jobs of Figure 12.

    The amounts are divided by the scenario's scale, since the scale also reduces the amount of data.
    """
    found: dict[str, list[float]] = {key: [] for key in SHOWN}
    for finished in run_twenty_jobs(bench):
        for key, policy in SHOWN.items():
            found[key].append(local_bytes(finished.of(policy)) / finished.run.scenario["scale"] / 1e9)
    for more, less in (("delay", "quarter"), ("quarter", "most")):
        found[f"{more}_more"] = [a - b for a, b in zip(found[more], found[less], strict=True)]
    return Measured(values=found)


def local_bytes(run: RunTables) -> int:
    """Return the number of input bytes of the maps that ran on a node with their input.

    The parts of split maps are included.
    """
    maps = useful(run.attempts)
    return int(maps.loc[(maps["kind"] == "map") & (maps["locality"] == "node"), "length"].sum())


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the amount of local input, with one bar per policy."""
    ax = figure.subplots()
    for place, (key, policy) in enumerate(SHOWN.items()):
        found = measured.samples(key)
        ax.bar(NAMES[policy], fmean(found), 0.5, color=OKABE[place])
        interval = mean_interval(found)
        if interval is not None:
            ax.vlines(place, *interval, color="black", linewidth=0.8)
    ax.set_ylabel("input processed locally [GB]")


EXPERIMENT = Experiment(
    name="fig13", measure=measure, draw=draw, takes_s={"sim": 3, "process": 2}, repeats=6, size=(4.5, 3.0)
)

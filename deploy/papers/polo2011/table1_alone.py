"""Tables 1 and 2: the time that each job takes alone, and the share of a node that its maps use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, job, said
from schedbed.deploy.papers.polo2011.paper_cluster import Size, fair_spec, scenario, size_of
from schedbed.deploy.results.metrics import RunTables, useful, utilisation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = {"sort": "J1", "combine": "J7", "select": "J3"}
USUAL_SLOTS, FEW_SLOTS = 4, 2
EXCHANGED = ("J3", "J4")
GAP = 2.0  # The gap between submissions is GAP times the printed duration, plus GAP_S seconds.
GAP_S = 300.0


def measure(bench: Bench) -> Measured:
    """Run each job alone on the cluster, and measure the time it takes and the share of a node it uses.

    J3 and J4 also run with the input sizes as printed, which seem to be exchanged.
    """
    size = size_of(bench)
    alone = jobs_apart(size, JOBS)
    finished = bench.run("alone", scenario(alone, [fair_spec(USUAL_SLOTS), fair_spec(FEW_SLOTS)], size))
    scale, found = finished.run.scenario["scale"], defaultdict[str, list[float]](list)
    usual, few = (finished.each(policy) for policy in finished.policies)
    for run, other in zip(usual, few, strict=True):
        for name, took_s in lengths(run).items():
            found[f"{name}_alone"].append(took_s / scale)
        for app in LARGEST:
            both = {USUAL_SLOTS: run, FEW_SLOTS: other}
            slots = min(both, key=lambda each: lengths(both[each])[LARGEST[app]])
            for key, percent in uses(both[slots], app, slots).items():
                found[key].append(percent)
    as_printed = jobs_apart(size, EXCHANGED, printed=True)
    for run in bench.run("alone_printed", scenario(as_printed, [fair_spec(USUAL_SLOTS)], size)).each(
        finished.policies[0]
    ):
        for name, took_s in lengths(run).items():
            found[f"{name}_printed"].append(took_s / scale)
    return Measured(values=found)


def jobs_apart(size: Size, names: Sequence[str], *, printed: bool = False) -> list[dict[str, Any]]:
    """Return the jobs `names` as in a scenario file, each submitted when the earlier jobs must have ended.

    With `printed`, J3 and J4 have the input sizes printed in Table 1.
    """
    submits_s, now_s = {}, 0.0
    for name in JOBS:
        submits_s[name] = now_s
        now_s += GAP * said()[f"{name}_alone"].number + GAP_S
    return [job(name, submits_s[name], None, size, printed=printed) for name in names]


def lengths(run: RunTables) -> Mapping[str, float]:
    """Return the time in s from submission to end of each job, by job name."""
    return dict(zip(run.jobs["name"], run.jobs["finish"] - run.jobs["submit"], strict=True))


def uses(run: RunTables, app: str, slots: int) -> Mapping[str, float]:
    """Return the percentages of a node's CPU and disk that one map of the application `app` uses.

    While the maps of the application's largest job run, the use of the whole node (including the shuffle) is
    measured and divided by the number of map slots, as in section 3.6.
    """
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    attempts = useful(run.attempts[run.attempts["job"] == ids[LARGEST[app]]])
    maps = attempts[attempts["kind"] == "map"]
    times = run.heartbeats["t"]
    used = utilisation(run.heartbeats[(times > maps["start"].min()) & (times <= maps["end"].max())])
    return {f"{app}_map_cpu": 100 * used["cpu"] / slots, f"{app}_map_io": 100 * used["disk"] / slots}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the jobs' times alone, and the CPU and disk use of the applications' maps."""
    left, right = figure.subplots(1, 2)
    keys = [f"{name}_alone" for name in JOBS]
    _bars(left, list(JOBS), keys, said, measured)
    left.set_ylabel("length alone [s], before scale")
    uses = [(f"{app}_map_{resource}", f"{app}\n{resource}") for app in LARGEST for resource in ("cpu", "io")]
    _bars(right, [label for _, label in uses], [key for key, _ in uses], said, measured)
    right.set_ylabel("a map uses [% of a node]")


def _bars(ax: Axes, labels: list[str], keys: list[str], said: Values, measured: Measured) -> None:
    printed, ours = [said[key].number for key in keys], [fmean(measured.samples(key)) for key in keys]
    grouped_bars(ax, labels, [("paper", PAPER, printed), ("ours", OURS, ours)])


EXPERIMENT = Experiment(
    name="table1",
    measure=measure,
    draw=draw,
    takes_s={"sim": 60, "process": 1350},
    repeats=3,
    size=(7.2, 3.2),
)

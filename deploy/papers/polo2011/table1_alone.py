"""Tables 1 and 2: how long each job takes alone, and what its maps use of a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.fair_slots import fair_spec
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, job, said, scenario
from schedbed.deploy.results.metrics import RunTables, useful

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = {"sort": "J1", "combine": "J7", "select": "J4"}
PROFILED_SLOTS, USUAL_SLOTS = 2, 4
GAP = 2.0  # from one submission to the next, in lengths that the paper printed, and a while
GAP_S = 300.0


def measure(bench: Bench) -> Measured:
    """The jobs one after the other, each with the cluster to itself."""
    submit_s, alone = 0.0, []
    for name in JOBS:
        alone.append(job(name, submit_s, None, live=bench.live))
        submit_s += GAP * said()[f"{name}_alone"].number + GAP_S
    policies = [fair_spec(USUAL_SLOTS), fair_spec(PROFILED_SLOTS)]
    played = bench.play("alone", scenario(alone, policies, live=bench.live))
    usual, profiled = played.policies
    found: dict[str, list[float]] = defaultdict(list)
    for run in played.each(usual):
        for name, took_s in lengths(run).items():
            found[f"{name}_alone"].append(took_s / played.run.scenario["scale"])
    for run in played.each(profiled):
        for key, percent in uses(run).items():
            found[key].append(percent)
    return Measured(values=found)


def lengths(run: RunTables) -> Mapping[str, float]:
    """From submission to end, s, by the jobs' names."""
    return dict(zip(run.jobs["name"], run.jobs["finish"] - run.jobs["submit"], strict=True))


def uses(run: RunTables) -> Mapping[str, float]:
    """What a map of each application's largest job uses of a node's CPU and disk while it runs, percent."""
    node, found = run.nodes[0], {}
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    for app, name in LARGEST.items():
        attempts = useful(run.attempts[run.attempts["job"] == ids[name]])
        maps = attempts[attempts["kind"] == "map"]
        took_s = float((maps["end"] - maps["start"]).sum())
        moved = maps[["read_local_bytes", "read_remote_bytes", "spill_bytes"]].sum(axis=1).sum()
        found[f"{app}_map_cpu"] = 100 * maps["cpu_s"].sum() / took_s / (node["cores"] * node["core_speed"])
        found[f"{app}_map_io"] = 100 * moved / took_s / node["disk_bps"]
    return found


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Lengths alone; what maps use."""
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
    takes_s={"sim": 150, "process": 1350},
    repeats=3,
    size=(7.2, 3.2),
)

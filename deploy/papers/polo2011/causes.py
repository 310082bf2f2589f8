"""The causes of RAS's ends, goals and gain: shorter reduces of sort, Table 1's sizes as printed, and an older disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.fair_slots import fair_spec
from schedbed.deploy.papers.polo2011.fig3_makespans import completions
from schedbed.deploy.papers.polo2011.fig6_goals import compared
from schedbed.deploy.papers.polo2011.hardware_map import DISKS, TRIED
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, jobs, longer, ras
from schedbed.deploy.papers.polo2011.paper_cluster import PAPER_NODE, QUARTER, NodeHardware, scenario
from schedbed.deploy.results.metrics import RunTables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTER = 0.5  # of what the jobs' lengths alone ask
PRINTED = ("J3", "J4")

Found = Mapping[str, list[float]]


def measure(bench: Bench) -> Measured:
    """Run both experiments with shorter reduce phases of sort, both with the printed sizes, and both on an old disk."""
    short_ends, short = _both(bench, "short", sort_reduce=SHORTER)
    printed_ends, printed = _both(bench, "printed", printed=True)
    found = {f"{name}_short": short_ends[1][name] for name in JOBS}
    found |= {"J1_relaxed_short": short_ends[0]["J1"]}
    found |= {f"{key}_short": short[key] for key in ("met", "worst", "J1_earlier", "J8_earlier", "J7_later")}
    found |= {f"{name}_printed": printed_ends[0][name] for name in PRINTED}
    found |= {f"{name}_tight_printed": printed_ends[1][name] for name in PRINTED}
    found |= {
        f"{key}_printed": printed[key] for key in ("met", "worst", "J1_earlier", "J8_earlier", "J7_later")
    }
    return Measured(values={**found, **_old_disk(bench)})


def _both(bench: Bench, name: str, **change: Any) -> tuple[tuple[Found, Found], Found]:
    """Return the ends in Experiments 1 and 2 with changed jobs, and the rows of `fig6` that follow from both."""
    relaxed, tight = (
        completions(_play(bench, f"{name}{goals}", jobs(QUARTER, tight=bool(goals), **change)), 1.0)
        for goals in ("", "-goals")
    )
    rows: dict[str, list[float]] = {}
    for repeat in range(bench.repeats):
        ends = [{job: each[job][repeat] for job in JOBS} for each in (tight, relaxed)]
        for key, value in compared(*ends).items():
            rows.setdefault(key, []).append(value)
    return (relaxed, tight), rows


def _play(bench: Bench, name: str, asked: Sequence[Any], node: NodeHardware = PAPER_NODE) -> list[RunTables]:
    played = bench.play(name, scenario(asked, [ras()], QUARTER, node))
    return played.each(played.policies[0])


def _old_disk(bench: Bench) -> Found:
    """Return how far the best Fair is behind RAS with goals on a disk that seeks more."""
    rate_bps, seek = DISKS["old"]
    node = NodeHardware(disk_bps=rate_bps, seek=seek)
    asked = scenario(jobs(QUARTER), [*map(fair_spec, TRIED)], QUARTER, node)
    played = bench.play("old-fair", asked)
    fairs = [played.figures(policy, "makespan_s") for policy in played.policies]
    goals = completions(_play(bench, "old-goals", jobs(QUARTER, tight=True), node), 1.0)
    ends = [max(each) for each in zip(*goals.values(), strict=True)]
    return {"gain_old": longer([min(each) for each in zip(*fairs, strict=True)], ends)}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the ends of Experiment 2 with shorter reduces beside the paper's."""
    keys = [f"{name}_short" for name in JOBS]
    printed = [said[key].number for key in keys]
    ours = [sum(measured.samples(key)) / len(measured.samples(key)) for key in keys]
    ax = figure.subplots()
    grouped_bars(ax, list(JOBS), [("paper", PAPER, printed), ("ours", OURS, ours)])
    ax.set_ylabel("end in Experiment 2 [s]")


EXPERIMENT = Experiment(
    name="causes", measure=measure, draw=draw, takes_s={"sim": 180}, repeats=3, sim_repeats=3
)

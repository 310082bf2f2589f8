"""Causes of differences between the paper's results of the policy RAS and the results here.

The experiments run with shorter reduces, with the printed job sizes, and on a slower disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.fig3_makespans import completions
from schedbed.deploy.papers.polo2011.fig6_goals import compared
from schedbed.deploy.papers.polo2011.hardware_map import TRIED
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, jobs, longer, on_hardware, ras
from schedbed.deploy.papers.polo2011.paper_cluster import PAPER_NODE, QUARTER, NodeHardware, scenario
from schedbed.deploy.results.metrics import RunTables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTER = {"short": 0.5, "shortest": 0.4}  # factors on the duration of sort's reduce phase
OLD_SEEK = 0.13  # share of the disk's rate that each additional stream costs
ROWS = ("met", "worst", "J1_earlier", "J8_earlier", "J7_later")
PRINTED = ("J3", "J4")

Found = Mapping[str, list[float]]


def measure(bench: Bench) -> Measured:
    """Run Experiments 1 and 2 with shorter reduces of sort, with printed job sizes, and on an older disk.

    The older disk has slower seeks. In Experiment 1 jobs have no tight completion goals, and in Experiment 2
    they have those of Table 1.
    """
    found: dict[str, list[float]] = {}
    for name, factor in SHORTER.items():
        short_ends, short = _both(bench, name, sort_reduce=factor)
        found |= {f"{key}_{name}": short[key] for key in ROWS}
        if name == "short":
            found |= {f"{job}_short": short_ends[1][job] for job in JOBS}
            found |= {"J1_relaxed_short": short_ends[0]["J1"]}
    printed_ends, printed = _both(bench, "printed", printed=True)
    found |= {f"{name}_printed": printed_ends[0][name] for name in PRINTED}
    found |= {f"{name}_tight_printed": printed_ends[1][name] for name in PRINTED}
    found |= {f"{key}_printed": printed[key] for key in ROWS}
    return Measured(values={**found, **_old_disk(bench)})


def _both(bench: Bench, name: str, **change: Any) -> tuple[tuple[Found, Found], Found]:
    """Simulate Experiments 1 and 2 with the job settings in `change`, which are arguments of `jobs`.

    Return the completion times of the jobs in each experiment, and the values of Figure 6 (such as the number
    of completion goals met) computed from these times. All values have one number per repeat. `name` is the
    prefix of the runs' names.
    """
    relaxed, tight = (
        completions(_run(bench, f"{name}{goals}", jobs(QUARTER, tight=bool(goals), **change)), 1.0)
        for goals in ("", "-goals")
    )
    rows: dict[str, list[float]] = {}
    for repeat in range(bench.repeats):
        ends = [{job: each[job][repeat] for job in JOBS} for each in (tight, relaxed)]
        for key, value in compared(*ends).items():
            rows.setdefault(key, []).append(value)
    return (relaxed, tight), rows


def _run(bench: Bench, name: str, asked: Sequence[Any], node: NodeHardware = PAPER_NODE) -> list[RunTables]:
    finished = bench.run(name, scenario(asked, [ras()], QUARTER, node))
    return finished.each(finished.policies[0])


def _old_disk(bench: Bench) -> Found:
    """Compare the makespans under the policies Fair and RAS on a disk with slower seeks.

    Return by how many percent Fair takes longer than RAS, one number per repeat. RAS runs once without and
    once with tight completion goals.
    """
    node = NodeHardware(seek=OLD_SEEK)
    finished = bench.run("old", on_hardware(QUARTER, node, TRIED))
    *fairs, ras_s = (finished.figures(policy, "makespan_s") for policy in finished.policies)
    best_s = [min(each) for each in zip(*fairs, strict=True)]
    goals = completions(_run(bench, "old-goals", jobs(QUARTER, tight=True), node), 1.0)
    ends = [max(each) for each in zip(*goals.values(), strict=True)]
    return {
        "gain_four_old": longer(fairs[TRIED.index(4)], ras_s),
        "gain_least_old": longer(best_s, ras_s),
        "gain_old": longer(best_s, ends),
    }


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the completion times of jobs in Experiment 2 with shorter reduces, next to the paper's."""
    keys = [f"{name}_short" for name in JOBS]
    printed = [said[key].number for key in keys]
    ours = [sum(measured.samples(key)) / len(measured.samples(key)) for key in keys]
    ax = figure.subplots()
    grouped_bars(ax, list(JOBS), [("paper", PAPER, printed), ("ours", OURS, ours)])
    ax.set_ylabel("end in Experiment 2 [s]")


EXPERIMENT = Experiment(
    name="causes", measure=measure, draw=draw, takes_s={"sim": 180}, repeats=3, sim_repeats=3
)

"""Causes of differences between the paper's results of the policy RAS and the results here.

The experiments run with shorter reduces, with the printed job sizes, with sooner goals, and on slower disks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.fig3_makespans import USUAL_SLOTS
from schedbed.deploy.papers.polo2011.fig6_goals import compared
from schedbed.deploy.papers.polo2011.hardware_map import TRIED
from schedbed.deploy.papers.polo2011.nine_jobs import APPS, JOBS, jobs, longer, ras, said, sort_reduce_s
from schedbed.deploy.papers.polo2011.paper_cluster import (
    PAPER_NODE,
    QUARTER,
    NodeHardware,
    fair_spec,
    scenario,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTER = {"short": 0.5, "shortest": 0.35}  # factors on the duration of sort's reduce phase
OLD_SEEK = 0.115  # share of the disk's rate that each additional stream costs
MIDDLE_SEEK = 0.08
ROWS = ("met", "worst", "J1_earlier", "J8_earlier", "J7_later")
PRINTED = ("J3", "J4")

Found = dict[str, list[float]]
Ends = Mapping[str, float]
"""When each job ended, in s since the first submission."""


def measure(bench: Bench) -> Measured:
    """Run Experiments 1 and 2 with one thing changed: reduces, job sizes, goals, or the cost of seeks.

    In Experiment 1 jobs have no tight completion goals, and in Experiment 2 they have those of Table 1.
    """
    found: Found = defaultdict(list)
    for seed in bench.seeds:
        for key, value in {**_jobs_changed(bench, seed), **_disk_changed(bench, seed)}.items():
            found[key].append(value)
    return Measured(values=found)


def _jobs_changed(bench: Bench, seed: int) -> Mapping[str, float]:
    """Return the ends of jobs and the values of Figure 6 with other reduces, sizes or goals."""
    found: dict[str, float] = {}
    for name, factor in SHORTER.items():
        relaxed, tight = _both(bench, seed, name, sort_reduce=factor)
        found |= _rows(name, tight, relaxed)
        if name == "short":
            found |= {f"{job}_short": tight[job] for job in JOBS}
            found["J1_relaxed_short"] = relaxed["J1"]
    relaxed, tight = _both(bench, seed, "printed", printed=True)
    found |= _rows("printed", tight, relaxed)
    found |= {f"{name}_printed": relaxed[name] for name in PRINTED}
    found |= {f"{name}_tight_printed": tight[name] for name in PRINTED}
    return found | _goals_changed(bench, seed)


def _rows(name: str, tight: Ends, relaxed: Ends) -> Mapping[str, float]:
    values = compared(tight, relaxed)
    return {f"{key}_{name}": values[key] for key in ROWS}


def _goals_changed(bench: Bench, seed: int) -> dict[str, float]:
    """Return what changes if goals are sooner: the goals of sorts by the time of their reduces, or J4's goal.

    J4's goal becomes the time at which J4 ended in the paper.
    """
    relaxed = _ends(bench, seed, "usual", jobs(QUARTER))
    reduces_s = {name: sort_reduce_s(name) for name in JOBS if APPS[name] == "sort"}
    room = _ends(bench, seed, "room", jobs(QUARTER, tight=True, sooner_s=reduces_s))
    ended_s = paper_file.load("polo2011").experiments["fig6"].values["J4"].number
    goal_s = dict(zip(JOBS, said()["goals"].numbers, strict=True))["J4"]
    early = _ends(bench, seed, "J4", jobs(QUARTER, tight=True, sooner_s={"J4": goal_s - ended_s}))
    moved = compared(room, relaxed)
    return {f"{key}_room": moved[key] for key in ROWS if key.startswith("J")} | {"J4_early": early["J4"]}


def _disk_changed(bench: Bench, seed: int) -> Mapping[str, float]:
    """Return by how many percent Fair takes longer than RAS on disks with slower seeks.

    RAS runs once without and once with tight completion goals.
    """
    old, middle = NodeHardware(seek=OLD_SEEK), NodeHardware(seek=MIDDLE_SEEK)

    def makespan_s(name: str, node: NodeHardware, policy: Any = None, *, tight: bool = False) -> float:
        return max(_ends(bench, seed, name, jobs(QUARTER, tight=tight), node, policy).values())

    fair_s = {slots: makespan_s(f"old-{slots}", old, fair_spec(slots)) for slots in TRIED}
    ras_s = makespan_s("old", old)
    goals_s = makespan_s("old-goals", old, tight=True)
    middle_s = makespan_s("middle", middle)
    middle_fair_s = makespan_s("middle-fair", middle, fair_spec(USUAL_SLOTS))
    return {
        "gain_four_old": _longer(fair_s[USUAL_SLOTS], ras_s),
        "gain_least_old": _longer(min(fair_s.values()), ras_s),
        "gain_old": _longer(min(fair_s.values()), goals_s),
        "gain_four_middle": _longer(middle_fair_s, middle_s),
    }


def _longer(mine_s: float, than_s: float) -> float:
    return longer([mine_s], [than_s])[0]


def _both(bench: Bench, seed: int, name: str, **change: Any) -> tuple[Ends, Ends]:
    """Simulate Experiments 1 and 2 with the job settings in `change`, which are arguments of `jobs`."""
    relaxed, tight = (
        _ends(bench, seed, f"{name}-{tight}", jobs(QUARTER, tight=tight, **change)) for tight in (False, True)
    )
    return relaxed, tight


def _ends(
    bench: Bench,
    seed: int,
    name: str,
    asked: Sequence[Any],
    node: NodeHardware = PAPER_NODE,
    policy: Any = None,
) -> Ends:
    """Simulate the jobs `asked` under RAS or the policy `policy`. `name` is the name of the simulation."""
    plan = {"seed": seed, **scenario(asked, [policy or ras()], QUARTER, node)}
    return {job.name: job.finish_s for job in bench.times(f"{name}-{seed}", plan)}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the completion times of jobs in Experiment 2 with shorter reduces, next to the paper's."""
    keys = [f"{name}_short" for name in JOBS]
    printed = [said[key].number for key in keys]
    ours = [sum(measured.samples(key)) / len(measured.samples(key)) for key in keys]
    ax = figure.subplots()
    grouped_bars(ax, list(JOBS), [("paper", PAPER, printed), ("ours", OURS, ours)])
    ax.set_ylabel("end in Experiment 2 [s]")


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw, takes_s={"sim": 150}, repeats=3)

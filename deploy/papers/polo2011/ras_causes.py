"""Causes of differences between the paper's results of the policy RAS and the results here.

The experiments run with shorter reduces, with the printed job sizes, with sooner goals, on slower disks, and
on other nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat
from schedbed.deploy.papers.figures import Panel, legend, panels
from schedbed.deploy.papers.polo2011.nine_jobs import (
    APPS,
    CORES,
    DISK_BPS,
    JOBS,
    PAGING,
    PAPER_NODE,
    QUARTER,
    SEEK,
    NodeHardware,
    fair_spec,
    jobs,
    longer,
    on_hardware,
    ras,
    said,
    scenario,
    sort_reduce_s,
)
from schedbed.deploy.papers.polo2011.ras_figures import USUAL_SLOTS, compared
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTER = {"short": 0.5, "shortest": 0.35}  # factors on the duration of sort's reduce phase
OLD_SEEK = 0.115  # share of the disk's rate that each additional stream costs
MIDDLE_SEEK = 0.08
ROWS = ("met", "worst", "J1_earlier", "J8_earlier", "J7_later")
PRINTED = ("J3", "J4")

Ends = Mapping[str, float]
"""When each job ended, in s since the first submission."""


def causes(bench: Bench) -> Measured:
    """Run Experiments 1 and 2 with one thing changed: reduces, job sizes, goals, or the cost of seeks.

    In Experiment 1 jobs have no tight completion goals, and in Experiment 2 they have those of Table 1.
    """
    changed = ({**_jobs_changed(bench, seed), **_disk_changed(bench, seed)} for seed in bench.seeds)
    return Measured(values=by_repeat(changed))


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


DRAW_CAUSES = panels(Panel({name: f"{name}_short" for name in JOBS}, "end in Experiment 2 [s]"))


# Beyond Figure 3: the gain of the policy RAS over Fair on nodes with other disks, cores and paging costs.

DISKS = {"old": (DISK_BPS, 0.1), "paper": (DISK_BPS, SEEK), "steady": (DISK_BPS, 0.0), "nvme": (2e9, 0.0)}
"""Disks: the rate, and the share of the rate that each additional stream costs."""
NODES = {
    "c3": (CORES, PAGING),
    "c3_fit": (CORES, 0.0),
    "c8": (8, PAGING),
}
"""Kinds of nodes: the number of cores, and the cost of paging."""
TRIED = (3, 4, 8)  # map slots per node under Fair
REPEATS = 3


def hardware_map(bench: Bench) -> Measured:
    """Measure by how many percent the policy Fair takes longer than RAS on each kind of node.

    Each value has one number per repeat. Fair runs with the number of map slots that is best on this kind of
    node. The task profiles that RAS uses are converted to the node's hardware.
    """
    found: dict[str, list[float]] = {}
    repeats = min(REPEATS, bench.repeats)
    for disk, (rate_bps, seek) in DISKS.items():
        for node, (cores, paging) in NODES.items():
            hardware = NodeHardware(cores=cores, disk_bps=rate_bps, seek=seek, paging=paging)
            asked = on_hardware(QUARTER, hardware, TRIED)
            finished = bench.run(f"map_{disk}_{node}", asked, repeats=repeats)
            *fairs, ras = (finished.figures(policy, "makespan_s") for policy in finished.policies)
            best_s = [min(each) for each in zip(*fairs, strict=True)]
            means = [fmean(each) for each in fairs]
            found[f"{disk}_{node}"] = longer(best_s, ras)
            found[f"{disk}_{node}_slots"] = [float(TRIED[means.index(min(means))])] * repeats
            found[f"{disk}_{node}_ras"] = ras
    return Measured(values=found)


def draw_map(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy Fair takes longer than RAS for each disk.

    There is one line per kind of node.
    """
    ax = figure.subplots()
    for place, node in enumerate(NODES):
        gains = [fmean(measured.samples(f"{disk}_{node}")) for disk in DISKS]
        cores, paging = NODES[node]
        label = f"{cores} cores, {'paging' if paging else 'no paging'}"
        ax.plot(list(DISKS), gains, marker="o", color=OKABE[place], label=label)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(xlabel="disk", ylabel="best Fair takes longer than RAS by [%]")
    legend(ax)


EXPERIMENTS = (
    Experiment("causes", causes, DRAW_CAUSES, {"sim": 150}),
    Experiment("map", hardware_map, draw_map, {"sim": 180}, repeats=REPEATS),
)

"""The gain of the policy RAS over Fair on nodes with other disks, cores and paging costs, beyond Figure 3."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.polo2011.nine_jobs import (
    CORES,
    DISK_BPS,
    PAGING,
    QUARTER,
    SEEK,
    NodeHardware,
    longer,
    on_hardware,
)
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISKS = {"old": (DISK_BPS, 0.1), "paper": (DISK_BPS, SEEK), "steady": (DISK_BPS, 0.0), "nvme": (2e9, 0.0)}
"""Disks: the rate, and the share of the rate that each additional stream costs."""
NODES = {
    "c3": (CORES, PAGING),
    "c3_fit": (CORES, 0.0),
    "c8": (8, PAGING),
}
"""Kinds of nodes: the number of cores, and the cost of paging."""
TRIED = (3, 4, 8)  # map slots per node under Fair


def hardware_map(bench: Bench) -> Measured:
    """Measure by how many percent the policy Fair takes longer than RAS on each kind of node.

    Each value has one number per repeat. Fair runs with the number of map slots that is best on this kind of
    node. The task profiles that RAS uses are converted to the node's hardware.
    """
    found: dict[str, list[float]] = {}
    for disk, (rate_bps, seek) in DISKS.items():
        for node, (cores, paging) in NODES.items():
            hardware = NodeHardware(cores=cores, disk_bps=rate_bps, seek=seek, paging=paging)
            asked = on_hardware(QUARTER, hardware, TRIED)
            finished = bench.run(f"map_{disk}_{node}", asked)
            *fairs, ras = (finished.figures(policy, "makespan_s") for policy in finished.policies)
            best_s = [min(each) for each in zip(*fairs, strict=True)]
            means = [fmean(each) for each in fairs]
            found[f"{disk}_{node}"] = longer(best_s, ras)
            found[f"{disk}_{node}_slots"] = [float(TRIED[means.index(min(means))])] * bench.repeats
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


EXPERIMENTS = (Experiment("map", hardware_map, draw_map, {"sim": 180}, sim_repeats=1),)

"""Figure 2: a job's utility as a function of its numbers of map slots and reduce slots.

The utility is a number with which the policy RAS compares the slots of a job with the number of slots with
which the job meets its goal.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.verdict import Exact
from schedbed.scheduler.models.ras_placement import map_utility, reduce_utility

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REQUIRED, MAPS, REDUCES = 20, 35, 10


def measure(bench: Bench) -> Measured:
    """Compute the utility of the job in Figure 2 for each number of map slots and number of reduce slots."""
    surface = [[utility(maps, reduces) for reduces in range(REDUCES + 1)] for maps in range(MAPS + 1)]
    found = {
        "required": surface[REQUIRED][REDUCES],
        "all": surface[MAPS][REDUCES],
        "no_reduce": surface[MAPS][REDUCES] - surface[MAPS][0],
        "falls": float(_falls(surface)),
        "none": float(all(value == -inf for value in surface[0])),
    }
    values = {key: Exact(value=value) for key, value in found.items()}
    return Measured(values=values, series={"surface": surface})


def utility(maps: int, reduces: int) -> float:
    """Return the utility of Figure 2's job when the job has `maps` map slots and `reduces` reduce slots.

    The formula is equation 1 of the paper.
    """
    return map_utility(maps, REQUIRED, MAPS) + reduce_utility(reduces, REDUCES)


def _falls(surface: list[list[float]]) -> int:
    """Return how many times the utility becomes lower when a job receives one more map slot or reduce slot.

    `surface` has a row for each number of map slots and a column for each number of reduce slots.
    """
    grid = np.array(surface[1:])
    return int((np.diff(grid, axis=0) < 0).sum() + (np.diff(grid, axis=1) < 0).sum())


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the utilities as a contour plot. The contour of utility 0 is black."""
    ax = figure.subplots()
    grid = np.array(measured.series["surface"][1:])
    reduces, maps = np.meshgrid(np.arange(REDUCES + 1), np.arange(1, MAPS + 1))
    filled = ax.contourf(reduces, maps, grid, levels=np.linspace(-2, 1, 13), cmap="cividis")
    ax.contour(reduces, maps, grid, levels=[0.0], colors="black", linewidths=1.2)
    figure.colorbar(filled, ax=ax, label="utility (black: 0)")
    ax.set(xlabel="reduce slots", ylabel="map slots")


EXPERIMENT = Experiment(name="fig2", measure=measure, draw=draw, takes_s={"sim": 1, "process": 1}, repeats=1)

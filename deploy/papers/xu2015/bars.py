"""The bar chart of each user's makespan under each policy, as in Figures 12 and 14."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.experiment import Measured, Values
from schedbed.deploy.papers.figures import grouped_bars
from schedbed.deploy.papers.xu2015.twenty_jobs import NAMES, USERS
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the makespan of each user, with one bar per policy."""
    ax = figure.subplots()
    bars, errors = [], []
    for number, (policy, repeats) in enumerate(measured.series["makespans"].items()):
        by_user = [[one[user] for one in repeats] for user in USERS]
        bars.append((NAMES[policy], OKABE[number], [fmean(each) for each in by_user]))
        errors.append([mean_interval(each) for each in by_user])
    grouped_bars(ax, USERS, bars, errors)
    ax.set_ylabel("makespan [s], before scale")

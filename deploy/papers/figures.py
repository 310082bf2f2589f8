"""Figures of experiments: a function that writes SVG files, and charts that several experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.plots import OKABE, RC
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from schedbed.deploy.papers.experiment import Experiment, Measured, Values

PAPER, OURS = "#999999", OKABE[0]
"""Colors of the paper's values (gray) and of ours (from a palette for color-blind readers)."""


def draw(path: Path, experiment: Experiment, said: Values, measured: Measured) -> None:
    """Draw an experiment's figure as an SVG file, of the paper's values and ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(RC):
        figure = plt.figure(figsize=experiment.size, layout="constrained")
        try:
            experiment.draw(figure, said, measured)
            figure.savefig(path, metadata={"Date": None})
        finally:
            plt.close(figure)


Bars = Sequence[float | None]
Errors = Sequence[tuple[float, float] | None]


def grouped_bars(
    ax: Axes, groups: Sequence[str], bars: Sequence[tuple[str, str, Bars]], errors: Sequence[Errors] = ()
) -> None:
    """Draw bars of (legend, color, a value or None per group), with 95% intervals in `errors`."""
    width = 0.8 / len(bars)
    for place, (label, shade, heights) in enumerate(bars):
        at = np.arange(len(groups)) + (place - (len(bars) - 1) / 2) * width
        values = np.array([np.nan if height is None else height for height in heights], float)
        hatch = "//" if shade == PAPER else None
        ax.bar(
            at, values, width * 0.92, label=label, color=shade, hatch=hatch, edgecolor="white", linewidth=0
        )
        for x, value, interval in zip(at, values, errors[place] if errors else (), strict=False):
            if interval is not None:
                ax.errorbar(x, value, [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]],
                            color="black", linewidth=0.8, capsize=2)  # fmt: skip
    ax.set_xticks(range(len(groups)), groups)
    legend(ax)


Samples = Sequence[Sequence[float]]
"""A list of numbers for each group, with a number for each repeat."""


def mean_bars(
    ax: Axes,
    groups: Sequence[str],
    bars: Sequence[tuple[str, str, Samples]],
    printed: Bars | None = None,
    printed_label: str = "paper",
) -> None:
    """Draw groups of bars that show means with 95% intervals.

    Each item of `bars` is a legend, a color, and the samples of each group. The values in `printed`, one for
    each group, are the paper's and come first.
    """
    paper = [] if printed is None else [(printed_label, PAPER, printed)]
    ours = [(label, shade, [fmean(each) for each in samples]) for label, shade, samples in bars]
    errors = [[mean_interval(each) for each in samples] for _, _, samples in bars]
    grouped_bars(ax, groups, [*paper, *ours], [*([[]] * len(paper)), *errors])


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of the paper's values beside ours.

    `bars` is a dictionary from names on the axis to keys of values. Values that were not measured are left
    out. `label` and `shade` are those of our bars.
    """

    bars: Mapping[str, str]
    ylabel: str
    xlabel: str = ""
    label: str = "ours"
    shade: str = OURS
    tilted: bool = False  # names on the axis are too long for one row


def panels(*charts: Panel, columns: int = 0, **axes: Any) -> Callable[[Figure, Values, Measured], None]:
    """Return a function that draws the charts, in one row or in `columns` columns.

    A chart has a bar of the paper's value and one of our mean, with its 95% interval, for each of its values.
    `axes` are options of `Figure.subplots`.
    """

    def draw_panels(figure: Figure, said: Values, measured: Measured) -> None:
        across = columns or len(charts)
        drawn = figure.subplots(len(charts) // across, across, squeeze=False, **axes).flat
        for ax, chart in zip(drawn, charts, strict=True):
            bars = {name: key for name, key in chart.bars.items() if key in measured.values}
            ours = [measured.samples(key) for key in bars.values()]
            printed = [said[key].number for key in bars.values()]
            mean_bars(ax, list(bars), [(chart.label, chart.shade, ours)], printed)
            ax.set(ylabel=chart.ylabel, xlabel=chart.xlabel)
            ax.tick_params(axis="x", rotation=60 * chart.tilted)

    return draw_panels


def single_bars(ax: Axes, bars: Mapping[str, Sequence[float]], shades: Sequence[str] = OKABE) -> None:
    """Draw a bar for each name in `bars`: the mean of its samples, with a line for the 95% interval."""
    for (name, samples), shade in zip(bars.items(), shades, strict=False):
        ax.bar(name, fmean(samples), 0.5, color=shade)
    intervals(ax, list(bars.values()))


def intervals(ax: Axes, bars: Samples) -> None:
    """Draw a line for the 95% interval of each bar's samples."""
    for place, samples in enumerate(bars):
        interval = mean_interval(samples)
        if interval is not None:
            ax.vlines(place, *interval, color="black", linewidth=0.8)


def legend(ax: Axes) -> None:
    """Add a legend above the axes, where it covers no data."""
    ax.legend(frameon=False, fontsize=7, ncols=4, loc="lower left", bbox_to_anchor=(-0.02, 0.99), borderpad=0)


def draw_values(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw a bar for each measured value that has a criterion, next to a bar for the paper's value."""
    keys = [key for key, value in said.items() if value.holds and key in measured.values]
    printed = [float(value) if isinstance(value := said[key].value, int | float) else None for key in keys]
    ax = figure.subplots()
    mean_bars(ax, keys, [("ours", OURS, [measured.samples(key) for key in keys])], printed, "printed")
    ax.axhline(0, color="black", linewidth=0.5)
    ax.tick_params(axis="x", labelsize=6, rotation=15)
    ax.set_ylabel("as in the table")

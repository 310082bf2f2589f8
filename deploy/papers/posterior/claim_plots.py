"""A plot for each claim: our values on the matching clusters, and the range in which the claim holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.figures import OURS, PAPER
from schedbed.deploy.papers.posterior.claim_shares import ClaimShare
from schedbed.deploy.results.plots import OKABE, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 2
MOST_BINS, FEW_VALUES = 20, 12  # with fewer values, each is drawn as a line


def draw(path: Path, claims: Sequence[ClaimShare]) -> None:
    """Draw a panel for each claim, and write all panels to one SVG file at `path`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    rows = math.ceil(len(claims) / COLUMNS)
    with matplotlib.rc_context(RC):
        figure, axes = plt.subplots(
            rows, COLUMNS, figsize=(7.2, 1.9 * rows), layout="constrained", squeeze=False
        )
        try:
            for ax in axes.flat[len(claims) :]:
                ax.set_visible(False)
            for ax, claim in zip(axes.flat, claims, strict=False):
                _panel(ax, claim)
            figure.savefig(path, metadata={"Date": None})
        finally:
            plt.close(figure)


def _panel(ax: Axes, claim: ClaimShare) -> None:
    values = np.array(claim.values)
    low, high = claim.bounds
    shown = [*values.tolist(), *(edge for edge in (low, high) if math.isfinite(edge))]
    margin = 0.08 * (max(shown) - min(shown)) or 1.0
    left, right = min(shown) - margin, max(shown) + margin
    ax.axvspan(
        max(low, left), min(high, right), color=PAPER, alpha=0.3, linewidth=0, label="where the claim holds"
    )
    if len(values) < FEW_VALUES:
        ax.vlines(values, 0, 1, color=OURS, linewidth=1.2)
        ax.set_yticks([])
    else:
        inside = (low <= values) & (values <= high)
        bins = np.linspace(left, right, MOST_BINS + 1)
        ax.hist(
            [values[inside], values[~inside]], bins=list(bins), stacked=True, color=[OURS, OKABE[1]],
            label=["holds", "does not hold"],
        )  # fmt: skip
        ax.set_ylabel("clusters")
    ax.set_xlim(left, right)
    ax.set_title(f"{claim.key}: {claim.share}", loc="left", fontsize=8)
    ax.set_xlabel(claim.said.unit or "value", fontsize=7)

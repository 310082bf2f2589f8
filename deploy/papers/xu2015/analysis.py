"""Section 4.1.1.3: how the completion time of a split map depends on its split point P.

The policy DTSS splits a map without local input into two parts, and P is the share of the first part. The
completion time is computed by the thesis's model from measured durations.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, legend
from schedbed.deploy.papers.xu2015.twenty_jobs import DELAY, QUARTER, held_slots, run_twenty_jobs
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.scheduler.models.dtss import best_share, gain_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = {"quarter": 0.25, "most": 0.75}


def measure(bench: Bench) -> Measured:
    """Measure the three durations in the thesis's model, and compute how much time splitting maps saves.

    The durations are those of unsplit maps with local input (N) and with remote input (M) under delay
    scheduling, and the wait of a split map's second part under the policy DTSS with P=0.25 (D). All values
    have one number per repeat, which is a mean over maps.
    """
    names = ("local", "remote", "wait", "best", "limit", "quarter_saves", "most_saves")
    found: dict[str, list[float]] = {name: [] for name in names}
    for finished in run_twenty_jobs(bench):
        scale = finished.run.scenario["scale"]
        local_s, remote_s = whole_maps(held_slots(finished, DELAY))
        measured = local_s / scale, remote_s / scale, waited(finished.of(QUARTER)) / scale
        local_s, remote_s, wait_s = measured
        found["best"].append(best_share(*measured))
        found["limit"].append((wait_s + local_s) / remote_s)
        for key, value in zip(names, measured, strict=False):
            found[key].append(value)
        for name, share in SHARES.items():
            found[f"{name}_saves"].append(gain_s(share, *measured))
    return Measured(values=found)


def whole_maps(run: RunTables) -> tuple[float, float]:
    """Return the mean duration in s of maps with local input, and that of all other maps.

    A value is NaN if there are no such maps.
    """
    maps = useful(run.attempts)
    maps = maps[maps["kind"] == "map"]
    took_s, local = maps["end"] - maps["start"], maps["locality"] == "node"
    return float(took_s[local].mean()), float(took_s[~local].mean())


def waited(run: RunTables) -> float:
    """Return the mean time in s from the assignment of a split map's first part to that of the second part.

    Only maps whose second part had local input are included.
    """
    parts = useful(run.attempts)
    parts = parts[parts["split_of"].notna() & (parts["split_of"] != "")].sort_values("offset")
    began = parts.groupby("split_of")["assigned"].first()
    rests = parts[parts.duplicated("split_of") & (parts["locality"] == "node")]
    return float((rests["assigned"] - rests["split_of"].map(began)).mean())


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw how the completion times of both parts and of the split map depend on the split point P.

    A line shows the completion time under delay scheduling.
    """
    ax = figure.subplots()
    local_s, remote_s, wait_s = (fmean(measured.samples(key)) for key in ("local", "remote", "wait"))
    share = np.linspace(0, 1, 101)
    part_s, rest_s = share * remote_s, (1 - share) * local_s + wait_s
    ax.plot(share, part_s, color=OKABE[0], linestyle="--", linewidth=1, label="part, P M")
    ax.plot(share, rest_s, color=OKABE[1], linestyle=":", linewidth=1, label="rest, (1-P) N + D")
    ax.plot(share, np.maximum(part_s, rest_s), color=OKABE[2], label="split map (eq. 20)")
    ax.axhline(local_s + wait_s, color="black", linewidth=1, label="delay, N + D")
    for each in SHARES.values():
        ax.axvline(each, color=PAPER, linewidth=0.8, linestyle="--")
    ax.set(xlabel="P (gray: the thesis's settings)", ylabel="map ends after [s], before scale", xlim=(0, 1))
    legend(ax)


EXPERIMENT = Experiment(
    name="analysis", measure=measure, draw=draw, takes_s={"sim": 40, "process": 1200}, repeats=6
)

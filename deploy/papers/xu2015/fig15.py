"""Figure 15 and Tables 6 to 9: map slots of each user by scheduling epoch, and how near that is to a fair share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.xu2015.twenty_jobs import APART_S, DELAY, NODES, QUARTER, USERS, play
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables, fairness
from schedbed.deploy.results.plots import DASHES, OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS = 20  # in the tables
EPOCHS_BETWEEN_JOBS = 5  # users appear in epochs 1, 6 and 11, and jobs are 30 s apart
EPOCH_S = APART_S / EPOCHS_BETWEEN_JOBS
SHOWN = {"delay": DELAY, "quarter": QUARTER}


def measure(bench: Bench) -> Measured:
    """Of the runs of Figure 12; the thesis's own tables are reduced the same way."""
    said = paper_file.load("xu2015").experiments["fig15"].values
    found: dict[str, Exact | list[float]] = {}
    runs, shown = play(bench, skewed=True), {}
    off: dict[str, list[float]] = {key: [] for key in SHOWN}
    jain: dict[str, list[float]] = {key: [] for key in SHOWN}
    for played in runs:
        for key, policy in SHOWN.items():
            run, epoch_s = played.of(policy), EPOCH_S * played.run.scenario["scale"]
            shown[key] = slots(run, epoch_s)
            off[key].append(_off(ratios(shown[key], run, epoch_s)))
            jain[key].append(fairness(run)["jain"])
    for key in SHOWN:
        printed = {user: np.array(said[f"{key}_{user}"].numbers) for user in USERS}
        found[f"{key}_printed_off"] = Exact(value=_off(printed))
        found[f"{key}_off"] = off[key]
        found[f"{key}_jain"] = jain[key]
    found["fairer"] = [a - b for a, b in zip(off["delay"], off["quarter"], strict=True)]
    found["jain_more"] = [b - a for a, b in zip(jain["delay"], jain["quarter"], strict=True)]
    notes = [
        "Parts end within seconds here, and nothing of their job is left to start, so that slots stand idle and a user "
        "runs less than the share under P=0.25, too; in Table 9 the same slots stay taken for many epochs."
    ]
    return Measured(values=found, series={"slots": shown}, notes=notes)


def slots(run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Mean running maps of each user in each epoch, to the last finish."""
    owners = run.jobs.set_index("job")["user"]
    maps = run.attempts[run.attempts["kind"] == "map"]
    tasks = Intervals.of(maps, maps["job"].map(owners).to_numpy(str), run.end_s)
    edges = np.arange(0.0, run.jobs["finish"].max() + epoch_s, epoch_s)
    return {user: tasks.binned(user, edges) for user in USERS}


def ratios(held: Mapping[str, np.ndarray], run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Fair share ratios (equations 40 and 41) in the first epochs, from the user's first job on."""
    submits = run.jobs.groupby("user")["submit"].min()
    first = {str(user): round(submit_s / epoch_s) for user, submit_s in submits.items()}
    users = np.array([sum(came <= epoch for came in first.values()) for epoch in range(EPOCHS)])
    share = NODES / users  # of the map slots, one a node
    return {user: held[user][came:EPOCHS] / share[came:] for user, came in first.items() if came < EPOCHS}


def _off(found: Mapping[str, np.ndarray]) -> float:
    """Mean distance from 1 over users and epochs."""
    return float(np.abs(np.concatenate(list(found.values())) - 1).mean())


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Map slots over the epochs of the last repeat, a row a policy."""
    axes = figure.subplots(len(SHOWN), 1, sharex=True, sharey=True)
    for ax, (key, policy) in zip(axes, SHOWN.items(), strict=True):
        for number, (user, held) in enumerate(measured.series["slots"][key].items()):
            epochs = np.arange(1, len(held) + 1)
            shade, dash = OKABE[number], DASHES[number]
            ax.step(epochs, held, dash, where="mid", color=shade, linewidth=0.9, label=user)
        ax.set_ylabel(f"map slots, {policy}")
    legend(axes[0])
    axes[-1].set_xlabel(f"scheduling epoch ({EPOCH_S:g} s)")


EXPERIMENT = Experiment(
    name="fig15", measure=measure, draw=draw, takes_s={"sim": 5, "process": 3}, repeats=6, size=(6.4, 4.2)
)

"""Figure 15 and Tables 6 to 9: each user's map slots in each epoch, and their distance from a fair share.

An epoch is an interval of fixed length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.xu2015.twenty_jobs import (
    DELAY,
    EPOCH_S,
    LONG_START,
    MIXED,
    NAMES,
    PER_BYTE,
    QUARTER,
    USERS,
    Setting,
    epochs,
    held_slots,
    off_fair,
    off_table,
    ratios,
    run_twenty_jobs,
    slots,
)
from schedbed.deploy.results.metrics import fairness
from schedbed.deploy.results.plots import DASHES, OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = {"delay": DELAY, "quarter": QUARTER}
TABLES = {"delay": (6, 8), "quarter": (7, 9)}  # numbers of the tables of map slots and of fair share ratios
BEFORE_RAMP = 15  # epochs of Table 6 with one slot in use


def measure(bench: Bench) -> Measured:
    """Measure each user's map slots by epoch for the jobs of Figure 12, and the distance from a fair share.

    The distance between our values and the thesis's tables is also measured.
    """
    said = paper_file.load("xu2015").experiments["fig15"].values
    found: dict[str, Exact | list[float]] = {}
    shown: dict[str, Mapping[str, np.ndarray]] = {}
    runs = run_twenty_jobs(bench)
    for key, policy in SHOWN.items():
        in_slots, in_shares = TABLES[key]
        table = {user: np.array(said[f"{key}_slots_{user}"].numbers) for user in USERS}
        printed = {user: np.array(said[f"{key}_{user}"].numbers) for user in USERS}
        off, slots_off, shares_off = [], [], []
        for finished in runs:
            run, epoch_s = held_slots(finished, policy), EPOCH_S * finished.run.scenario["scale"]
            shown[key] = slots(run, epoch_s)
            shares = ratios(shown[key], run, epoch_s)
            off.append(off_fair(shares))
            slots_off.append(off_table(shown[key], table))
            shares_off.append(off_table(shares, printed))
        found[f"{key}_printed_off"] = Exact(value=off_fair(printed))
        found[f"{key}_off"] = off
        found[f"table{in_slots}_off"], found[f"table{in_shares}_off"] = slots_off, shares_off
        found[f"{key}_jain"] = [fairness(held_slots(finished, policy))["jain"] for finished in runs]
    if not bench.live:
        found["long_start_table7_off"] = _table_off(bench, "quarter", LONG_START)
        found["per_byte_table6_off"] = _table_off(bench, "delay", PER_BYTE)
        found["mixed_table6_off"] = _table_off(bench, "delay", MIXED)
        found["per_byte_table7_off"] = _table_off(bench, "quarter", PER_BYTE)
    found |= _calibration(runs)
    note = (
        "Under P=0.25 all maps of a job are soon started in part, and slots stand idle while their rests wait for the "
        "one node; in Table 7 all five slots are in use, and one changes hands in an epoch. Starts of 25 s have that "
        "pace (long_start), but then the run takes more than twice the 141 epochs: jobs of 5 to 10 maps, most in two "
        "parts, are too many tasks for both."
    )
    measured = Measured(values=found, series={"slots": shown}, notes=[note])
    for key, less, more in (
        ("fairer", "quarter_off", "delay_off"),
        ("jain_more", "delay_jain", "quarter_jain"),
    ):
        found[key] = [b - a for a, b in zip(measured.samples(less), measured.samples(more), strict=True)]
    return measured


def _table_off(bench: Bench, key: str, setting: Setting) -> list[float]:
    """Return the mean difference between our map slots and those in a printed table, one number per repeat.

    `key` selects the table: `delay` for Table 6, and `quarter` for Table 7. `setting` has the parameters that
    the thesis does not print, and with which the jobs are run.
    """
    said = paper_file.load("xu2015").experiments["fig15"].values
    table = {user: np.array(said[f"{key}_slots_{user}"].numbers) for user in USERS}
    policy = setting.policies[list(SHOWN).index(key)]
    runs = [held_slots(finished, policy) for finished in run_twenty_jobs(bench, setting=setting)]
    return [off_table(slots(run, EPOCH_S), table) for run in runs]


def _calibration(runs: Sequence[FinishedRun]) -> dict[str, list[float]]:
    """Return the values to which the simulation's unknown parameters were fitted, one number per repeat.

    They are the mean number of slots in use in the first epochs under delay scheduling, and the number of
    epochs, intervals of fixed length, until the last map ends under the policy DTSS.
    """
    busy, ended = [], []
    for finished in runs:
        scale = finished.run.scenario["scale"]
        held = slots(held_slots(finished, DELAY), EPOCH_S * scale)
        busy.append(float(np.sum(list(held.values()), axis=0)[:BEFORE_RAMP].mean()))
        ended.append(epochs(finished.of(QUARTER), scale))
    return {"busy": busy, "epochs": ended}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw each user's map slots by epoch in the last repeat, with one row per policy."""
    axes = figure.subplots(len(SHOWN), 1, sharex=True, sharey=True)
    for ax, (key, policy) in zip(axes, SHOWN.items(), strict=True):
        for number, (user, held) in enumerate(measured.series["slots"][key].items()):
            numbers = np.arange(1, len(held) + 1)
            shade, dash = OKABE[number], DASHES[number]
            ax.step(numbers, held, dash, where="mid", color=shade, linewidth=0.9, label=user)
        ax.set_ylabel(f"map slots, {NAMES[policy]}")
    legend(axes[0])
    axes[-1].set_xlabel(f"scheduling epoch ({EPOCH_S:g} s)")


EXPERIMENT = Experiment(
    name="fig15", measure=measure, draw=draw, takes_s={"sim": 10, "process": 3}, repeats=6, size=(6.4, 4.2)
)

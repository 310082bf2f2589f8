"""Figures 12 to 15 with the policy DTSS, which splits maps without local input into two parts.

Before them stands the thesis's model of one split map, and after them its future work and the main result in
live runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat, minus, percent_less
from schedbed.deploy.papers.figures import PAPER, legend, mean_bars, single_bars
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.xu2015.twenty_jobs import (
    COPIES,
    DELAY,
    EPOCH_S,
    LEARNT,
    MOST,
    NAMES,
    QUARTER,
    USERS,
    epochs,
    gains,
    held_slots,
    jobs,
    makespans,
    off_fair,
    off_table,
    ratios,
    run_twenty_jobs,
    scenario,
    slots,
)
from schedbed.deploy.results.metrics import RunTables, fairness, locality, makespan, useful
from schedbed.deploy.results.plots import DASHES, OKABE
from schedbed.scheduler.models.dtss import best_share, gain_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Section 4.1.1.3: how the completion time of a split map depends on its split point P, the share of the first
# part. The completion time is computed by the thesis's model from measured durations.

SHARES = {"quarter": 0.25, "most": 0.75}


def analysis(bench: Bench) -> Measured:
    """Measure the three durations in the thesis's model, and compute how much time splitting maps saves.

    The durations are those of unsplit maps with local input (N) and with remote input (M) under delay
    scheduling, and the wait of a split map's second part under the policy DTSS with P=0.25 (D). All values
    have one number per repeat, which is a mean over maps.
    """
    return Measured(values=by_repeat(map(_modeled, run_twenty_jobs(bench))))


def _modeled(finished: FinishedRun) -> Mapping[str, float]:
    scale = finished.scale
    local_s, remote_s = (each / scale for each in whole_maps(held_slots(finished, DELAY)))
    wait_s = waited(finished.of(QUARTER)) / scale
    return {
        "local": local_s,
        "remote": remote_s,
        "wait": wait_s,
        "best": best_share(local_s, remote_s, wait_s),
        "limit": (wait_s + local_s) / remote_s,
        **{f"{name}_saves": gain_s(share, local_s, remote_s, wait_s) for name, share in SHARES.items()},
    }


def _maps(run: RunTables) -> Any:
    """Return the attempts of maps whose work counts."""
    done = useful(run.attempts)
    return done[done["kind"] == "map"]


def _split(maps: Any) -> Any:
    """Return for each attempt in `maps` whether it is a part of a split map."""
    return maps["split_of"].notna() & (maps["split_of"] != "")


def whole_maps(run: RunTables) -> tuple[float, float]:
    """Return the mean duration in s of maps with local input, and that of all other maps.

    A value is NaN if there are no such maps.
    """
    maps = _maps(run)
    took_s, local = maps["end"] - maps["start"], maps["locality"] == "node"
    return float(took_s[local].mean()), float(took_s[~local].mean())


def waited(run: RunTables) -> float:
    """Return the mean time in s from the assignment of a split map's first part to that of the second part.

    Only maps whose second part had local input are included.
    """
    maps = _maps(run)
    parts = maps[_split(maps)].sort_values("offset")
    began = parts.groupby("split_of")["assigned"].first()
    rests = parts[parts.duplicated("split_of") & (parts["locality"] == "node")]
    return float((rests["assigned"] - rests["split_of"].map(began)).mean())


def draw_analysis(figure: Figure, said: Values, measured: Measured) -> None:
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


# Figure 12: each user's makespan if all input is on one of five nodes, under delay scheduling and DTSS.


def fig12(bench: Bench) -> Measured:
    """Measure by how many percent the policy DTSS reduces the users' makespans against delay scheduling."""
    runs = run_twenty_jobs(bench)
    found = by_repeat(map(_gained, runs))
    found["tasks"] = [tasks_a_map(finished.of(QUARTER)) for finished in runs]
    return Measured(values=found, series=_by_user(runs, (DELAY, QUARTER, MOST)))


def _gained(finished: FinishedRun) -> dict[str, float]:
    """Return the gains of DTSS with both split points.

    A gain is the reduction of a user's makespan against delay scheduling in percent.
    """
    quarter, most = (gains(finished, policy) for policy in (QUARTER, MOST))
    return {
        "quarter_mean": fmean(quarter),
        "quarter_least": min(quarter),
        "quarter_most": max(quarter),
        "most_mean": fmean(most),
        "most_most": max(most),
        "less_is_better": fmean(quarter) - fmean(most),
    }


def tasks_a_map(run: RunTables) -> float:
    """Return the number of map tasks divided by the number of maps before splitting."""
    maps = _maps(run)
    split = _split(maps)
    return len(maps) / float((~split).sum() + maps.loc[split, "split_of"].nunique())


def _by_user(runs: Sequence[FinishedRun], policies: Sequence[str]) -> Mapping[str, Any]:
    """Return the makespans that `draw_users` draws."""
    return {
        policy: [[makespans(finished, policy)[user] for finished in runs] for user in USERS]
        for policy in policies
    }


def draw_users(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the makespan of each user, with one bar per policy."""
    ax = figure.subplots()
    by_policy = zip(measured.series.items(), OKABE, strict=False)
    mean_bars(ax, USERS, [(NAMES[policy], shade, users) for (policy, users), shade in by_policy])
    ax.set_ylabel("makespan [s], before scale")


# Figure 13: the amount of input that maps read on the node on which they ran.

FIG13 = {"delay": DELAY, "quarter": QUARTER, "most": MOST}


def fig13(bench: Bench) -> Measured:
    """Measure how many GB of local input maps read under each policy, on the jobs of Figure 12.

    The amounts are divided by the scenario's scale, since the scale also reduces the amount of data.
    """
    found = by_repeat(
        {key: local_bytes(finished.of(policy)) / finished.scale / 1e9 for key, policy in FIG13.items()}
        for finished in run_twenty_jobs(bench)
    )
    for more, less in (("delay", "quarter"), ("quarter", "most")):
        found[f"{more}_more"] = minus(found[more], found[less])
    return Measured(values=found)


def local_bytes(run: RunTables) -> int:
    """Return the number of input bytes of the maps that ran on a node with their input.

    The parts of split maps are included.
    """
    maps = _maps(run)
    return int(maps.loc[maps["locality"] == "node", "length"].sum())


def draw_fig13(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the amount of local input, with one bar per policy."""
    ax = figure.subplots()
    single_bars(ax, {NAMES[policy]: measured.samples(key) for key, policy in FIG13.items()})
    ax.set_ylabel("input processed locally [GB]")


# Figure 14: each user's makespan under delay scheduling and DTSS if the input is spread over all nodes.


def fig14(bench: Bench) -> Measured:
    """Measure the gains of the policy DTSS and the local input for Figure 12's jobs, with input on all nodes."""
    runs = run_twenty_jobs(bench, layout="even")
    found = by_repeat(map(_local, runs)) | {
        "quarter_mean": [fmean(gains(finished, QUARTER)) for finished in runs],
        "quarter_most": [max(gains(finished, QUARTER)) for finished in runs],
    }
    return Measured(values=found, series=_by_user(runs, (DELAY, QUARTER)))


def _local(finished: FinishedRun) -> Mapping[str, float]:
    """Return the percentages of local input bytes and of local map tasks.

    Keys begin with `delay` (delay scheduling) or `quarter` (the policy DTSS with P=0.25). The key
    `quarter_local_whole` has the percentage of DTSS's map tasks that are local and unsplit, and `rests_local`
    the percentage of split maps' second parts that are local.
    """
    shares = locality(finished.of(QUARTER).attempts)
    whole, rests = whole_and_rests(finished.of(QUARTER))
    return {
        "delay_local": 100 * locality(finished.of(DELAY).attempts)["bytes"]["node"],
        "quarter_local": 100 * shares["bytes"]["node"],
        "quarter_local_tasks": 100 * shares["tasks"]["node"],
        "quarter_local_whole": whole,
        "rests_local": rests,
    }


def whole_and_rests(run: RunTables) -> tuple[float, float]:
    """Return two percentages: of map tasks that are local and unsplit, and of second parts that are local.

    The first is a share of all map tasks, and the second a share of the second parts of split maps, or 100 if
    no map was split.
    """
    maps = _maps(run).sort_values("offset")
    local, split = maps["locality"] == "node", _split(maps)
    rests = split & maps.duplicated("split_of")
    return 100 * float((local & ~split).mean()), 100 * float(local[rests].mean()) if rests.any() else 100.0


# Figure 15 and Tables 6 to 9: each user's map slots in each epoch, an interval of fixed length, and their
# distance from a fair share.

TABLES = {"delay": (6, 8), "quarter": (7, 9)}  # numbers of the tables of map slots and of fair share ratios
BEFORE_RAMP = 15  # epochs of Table 6 with one slot in use


def fig15(bench: Bench) -> Measured:
    """Measure each user's map slots by epoch for the jobs of Figure 12, and the distance from a fair share.

    The distance between our values and the thesis's tables is also measured.
    """
    runs = run_twenty_jobs(bench)
    found = by_repeat(
        {**_distances(finished, "delay"), **_distances(finished, "quarter"), **_calibration(finished)}
        for finished in runs
    )
    found["fairer"] = minus(found["delay_off"], found["quarter_off"])
    found["jain_more"] = minus(found["quarter_jain"], found["delay_jain"])
    fair = {f"{key}_printed_off": Exact(value=off_fair(_printed(key))) for key in TABLES}
    shown = {key: _held(runs[-1], key)[1] for key in TABLES}
    return Measured(values=found | fair, series=shown)


def _printed(key: str) -> Mapping[str, np.ndarray]:
    """Return each user's values in a printed table, such as `delay` (Table 8) or `delay_slots` (Table 6)."""
    said = paper_file.load("xu2015").experiments["fig15"].values
    return {user: np.array(said[f"{key}_{user}"].numbers) for user in USERS}


def _held(finished: FinishedRun, key: str) -> tuple[RunTables, Mapping[str, np.ndarray]]:
    """Return the tables of the run under the policy `key`, and each user's map slots by epoch."""
    run = held_slots(finished, FIG13[key])
    return run, slots(run, EPOCH_S * finished.scale)


def _distances(finished: FinishedRun, key: str) -> Mapping[str, float]:
    """Return how far the run is from a fair share and from the printed tables, under the policy `key`."""
    run, held = _held(finished, key)
    shares = ratios(held, run, EPOCH_S * finished.scale)
    in_slots, in_shares = TABLES[key]
    return {
        f"{key}_off": off_fair(shares),
        f"table{in_slots}_off": off_table(held, _printed(f"{key}_slots")),
        f"table{in_shares}_off": off_table(shares, _printed(key)),
        f"{key}_jain": fairness(run)["jain"],
    }


def _calibration(finished: FinishedRun) -> dict[str, float]:
    """Return the values to which the simulation's unknown parameters were fitted.

    They are the mean number of slots in use in the first epochs under delay scheduling, and the number of
    epochs, intervals of fixed length, until the last map ends under the policy DTSS.
    """
    _, held = _held(finished, "delay")
    return {
        "busy": float(np.sum(list(held.values()), axis=0)[:BEFORE_RAMP].mean()),
        "epochs": epochs(finished.of(QUARTER), finished.scale),
    }


def draw_fig15(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw each user's map slots by epoch in the last repeat, with one row per policy."""
    axes = figure.subplots(len(TABLES), 1, sharex=True, sharey=True)
    for ax, by_user, policy in zip(axes, measured.series.values(), (DELAY, QUARTER), strict=True):
        for number, (user, held) in enumerate(by_user.items()):
            numbers = np.arange(1, len(held) + 1)
            shade, dash = OKABE[number], DASHES[number]
            ax.step(numbers, held, dash, where="mid", color=shade, linewidth=0.9, label=user)
        ax.set_ylabel(f"map slots, {NAMES[policy]}")
    legend(axes[0])
    axes[-1].set_xlabel(f"scheduling epoch ({EPOCH_S:g} s)")


# Chapter 6 (future work) with two variants of the policy DTSS: one learns at which point to split maps, and
# the other keeps copies of fetched blocks.

VARIANTS = (QUARTER, MOST, LEARNT, COPIES)


def beyond(bench: Bench) -> Measured:
    """Measure the users' mean gains and the share of local input with two variants of the policy DTSS.

    The jobs are those of Figure 12. A gain is the reduction of a user's makespan against delay scheduling, in
    percent.
    """
    runs = run_twenty_jobs(bench)
    mean = {policy: [fmean(gains(finished, policy)) for finished in runs] for policy in VARIANTS}
    local = {
        policy: [100 * locality(finished.of(policy).attempts)["bytes"]["node"] for finished in runs]
        for policy in (QUARTER, COPIES)
    }
    found = {
        "learnt": mean[LEARNT],
        "learnt_most": minus(mean[LEARNT], mean[MOST]),
        "learnt_quarter": minus(mean[LEARNT], mean[QUARTER]),
        "copies": mean[COPIES],
        "copies_quarter": minus(mean[COPIES], mean[QUARTER]),
        "copies_local": minus(local[COPIES], local[QUARTER]),
    }
    note = "Each job reads an input of its own, so that a copy helps only the rest of the map that made it."
    return Measured(values=found, series=mean, notes=[note])


def draw_beyond(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the users' mean gain over delay scheduling for each variant of the policy DTSS."""
    ax = figure.subplots()
    single_bars(ax, {NAMES[policy]: gained for policy, gained in measured.series.items()})
    ax.axhline(0, color=PAPER, linewidth=0.8)
    ax.set_ylabel(f"makespan shorter than under {NAMES[DELAY]} [%]")


# The main result of Figure 12 in live runs: ten jobs under delay scheduling and under DTSS with P=0.25.

LIVE_JOBS = 10


def plan(seed: int) -> Mapping[str, Any]:
    """Return the live scenario of Figure 12 with ten random jobs drawn from the seed."""
    return scenario(jobs(seed)[:LIVE_JOBS], [DELAY, QUARTER], layout="skewed", live=True)


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return the mean percentage by which the policy DTSS reduces the users' makespans, for each repeat."""
    found: list[float] = []
    for pair in zip(*(finished.each(policy) for policy in finished.policies), strict=True):
        delay_s, quarter_s = (makespan(run.jobs)["per_user"] for run in pair)
        found.append(fmean(percent_less(quarter_s[user], delay_s[user]) for user in delay_s))
    return found


EXPERIMENTS = (
    Experiment("analysis", analysis, draw_analysis, {"sim": 90, "process": 1500}),
    Experiment("fig12", fig12, draw_users, {"sim": 4, "process": 10}),
    Experiment("fig13", fig13, draw_fig13, {"sim": 2, "process": 2}, size=(4.5, 3.0)),
    Experiment("fig14", fig14, draw_users, {"sim": 40, "process": 1000}),
    Experiment("fig15", fig15, draw_fig15, {"sim": 2, "process": 3}, size=(6.4, 4.2)),
    Experiment("beyond", beyond, draw_beyond, {"sim": 4}),
    live_experiment(lambda _: plan, gain, 240),
)

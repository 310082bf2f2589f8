"""RAS's own settings in one table, and the reasons for which it leaves CPU idle, beyond Figure 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat
from schedbed.deploy.papers.figures import single_bars
from schedbed.deploy.papers.polo2011.nine_jobs import (
    APPS,
    QUARTER,
    fair_spec,
    jobs,
    longer,
    ras,
    said,
    scenario,
)
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FAIR_SLOTS = (3, 4)  # the best static numbers on this cluster
CYCLES_S, CAPACITIES = (10, 30, 60), (100, 110)
USUAL = "cycle30_capacity100"
REPEATS = 3  # for each seed; a repeat takes half a minute


def settings() -> dict[str, dict[str, Any]]:
    """Return RAS's settings by the keys of their values."""
    found = {
        f"cycle{cycle}_capacity{each}": _set(cycle, each) for cycle, each in product(CYCLES_S, CAPACITIES)
    }
    return found | {
        f"{USUAL}_memory": _set(30, 100, shuffling=True),
        f"{USUAL}_steps1": _set(30, 100, steps=1),
    }


def _set(cycle_s: int, capacity: int, *, shuffling: bool = False, steps: int = 100) -> dict[str, Any]:
    """Return RAS. With `shuffling`, reduces that shuffle count with their memory, for which Table 2 has "-"."""
    asked = ras()["ras"]
    profiles: Mapping[str, Any] = asked["profiles"]
    if shuffling:
        profiles = {
            name: {**each, "shuffle": {**each["shuffle"], "memory": each["reduce"]["memory"]}}
            for name, each in profiles.items()
        }
    return {"ras": {"cycle": f"{cycle_s}s", "capacity": capacity, "steps": steps, "profiles": profiles}}


def knobs(bench: Bench) -> Measured:
    """Measure how much longer Fair takes than RAS with each setting, and the CPU that RAS leaves idle by reason.

    Fair has its best number of slots in each repeat.
    """
    asked = settings()
    finished = bench.run(
        "knobs", scenario(jobs(QUARTER), [*map(fair_spec, FAIR_SLOTS), *asked.values()], QUARTER)
    )
    spans = [finished.figures(policy, "makespan_s") for policy in finished.policies]
    best_s = list(map(min, zip(*spans[: len(FAIR_SLOTS)], strict=True)))
    gains = {key: longer(best_s, mine) for key, mine in zip(asked, spans[len(FAIR_SLOTS) :], strict=True)}
    usual = finished.policies[len(FAIR_SLOTS) + list(asked).index(USUAL)]
    return Measured(values=gains | by_repeat(map(idle, finished.each(usual))))


REASONS = ("no_map", "memory", "io", "cpu", "room")


def idle(run: RunTables) -> dict[str, float]:
    """Return the CPU that is idle until the last job's end, in percent of all, by reason.

    `no_map`: no submitted job has a map to start. Else, of the pending maps on this node by Table 2's
    profiles: `memory`, `io` or `cpu`, the resource that is missing for the map that is nearest to fitting; or
    `room`: one fits, and waits for a heartbeat or for the next cycle, or for a poorer job's task.
    """
    end_s = run.jobs["finish"].max()
    heartbeats = run.heartbeats[run.heartbeats["t"] <= end_s]
    lasted_s = heartbeat_intervals(heartbeats)
    middle_s = heartbeats["t"].to_numpy(float) - lasted_s / 2
    unused_s = (1 - heartbeats["cpu_util"].fillna(0).to_numpy(float)) * lasted_s
    why = _reasons(run, heartbeats["node"].to_numpy(str), middle_s)
    whole_s = end_s * len(run.nodes)
    found = {f"idle_{reason}": 100 * float(unused_s[why == reason].sum()) / whole_s for reason in REASONS}
    return {"idle": sum(found.values()), **found}


def _reasons(run: RunTables, nodes: np.ndarray, times_s: np.ndarray) -> np.ndarray:
    """Return why each node's CPU is idle at each of these times. Reduces that shuffle use nothing, as in Table 2."""
    used = np.zeros((3, len(times_s)))
    pending = {}
    for row in run.jobs.to_dict("records"):
        mine = run.attempts[run.attempts["job"] == row["job"]]
        maps, reduces = (mine[mine["kind"] == kind] for kind in ("map", "reduce"))
        assigned = np.searchsorted(np.sort(maps["assigned"]), times_s, "right")
        pending[row["name"]] = (row["submit"] <= times_s) & (assigned < row["maps"])
        of_map, of_reduce = demands(APPS[row["name"]])
        computing = reduces.assign(assigned=reduces["shuffle_end"].fillna(reduces["assigned"]))
        for attempts, amounts in ((maps, of_map), (computing, of_reduce)):
            used += np.array(amounts)[:, None] * _running(attempts, nodes, times_s)
    lacking = np.full(len(times_s), np.inf)
    why = np.full(len(times_s), "no_map", dtype="<U8")
    for name, waits in pending.items():
        missing = used + np.array(demands(APPS[name])[0])[:, None] - 100
        worst = missing.argmax(axis=0)
        most = np.maximum(missing.max(axis=0), 0)
        nearer = waits & (most < lacking)
        why[nearer] = np.where(most <= 1e-6, "room", np.array(("cpu", "io", "memory"))[worst])[nearer]
        lacking[nearer] = most[nearer]
    return why


def demands(app: str) -> tuple[Sequence[float], Sequence[float]]:
    """Return the CPU, I/O and memory of a map and of a reduce, in percent of a node (Table 2)."""
    memory, _, *of_reduce = said()[f"{app}_rest"].numbers
    return (said()[f"{app}_map_cpu"].number, said()[f"{app}_map_io"].number, memory), of_reduce


def _running(attempts: pd.DataFrame, nodes: np.ndarray, times_s: np.ndarray) -> np.ndarray:
    """Return how many of the attempts each node runs at each time."""
    found = np.zeros(len(times_s))
    for node, mine in attempts.groupby("node"):
        here = nodes == node
        began, ended = (np.sort(mine[column].to_numpy(float)) for column in ("assigned", "end"))
        now = np.searchsorted(began, times_s[here], "right") - np.searchsorted(ended, times_s[here], "right")
        found[here] = now
    return found


def draw_knobs(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw how much longer Fair takes than RAS with each setting, and the idle CPU by reason."""
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    single_bars(left, {key: measured.samples(key) for key in settings()})
    left.axhline(0, color="black", linewidth=0.6)
    left.set_ylabel("best Fair takes longer than RAS by [%]")
    left.tick_params(axis="x", rotation=90, labelsize=6)
    means = [fmean(measured.samples(f"idle_{reason}")) for reason in REASONS]
    right.bar(REASONS, means)
    right.set_ylabel("idle CPU [% of all]")


EXPERIMENTS = (Experiment("knobs", knobs, draw_knobs, {"sim": 80}, sim_repeats=REPEATS, size=(7.2, 3.6)),)

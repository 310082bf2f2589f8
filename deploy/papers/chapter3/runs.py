"""Functions for chapter 3's experiments: jobs and nodes, runs and gains.

Setups follow the original paper as far as an abstract or the thesis describes it; the rest was chosen for
schedbed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import SIM_REPEATS, Experiment, Measured, percent_less
from schedbed.deploy.papers.figures import draw_values

Job = dict[str, Any]
Scenario = Mapping[str, Any]
Found = dict[str, list[float]]

FIFO, FAIR, DELAY = "fifo", "fair", "delay"
EDF = "mrcp:jobs=1"
"""Earliest deadline first: MRCP with a plan of one job, the one due first; all others follow by deadline."""

MEAN = ("completion_s", "mean")
LOCAL = ("locality", "tasks", "node")


def job(
    name: str,
    user: str,
    submit_s: float,
    maps: tuple[int, float],
    reduces: tuple[int, float] = (0, 0.0),
    **more: Any,
) -> Job:
    """Return a job that only computes, with (number of tasks, CPU seconds of each), and further keys."""
    made: Job = {
        "name": name,
        "app": "synthetic",
        "user": user,
        "maps": maps[0],
        "map": {"cpu": f"{maps[1]:.3f}s"},
        "reduces": reduces[0],
        "submit": f"{submit_s:.3f}s",
    }
    if reduces[0]:
        made["reduce"] = {"cpu": f"{reduces[1]:.3f}s"}
    return {**made, **more}


def nodes(count: int, map_slots: int, reduce_slots: int, **more: Any) -> dict[str, Any]:
    """Return `cluster` with equal nodes of a core per slot and 100 Mbit/s; `more` overrides keys."""
    node = {
        "cores": map_slots + reduce_slots,
        "core_speed": 1.0,
        "memory": "8GiB",
        "disk": "80MB/s",
        "network": "100Mbit/s",
        "map_slots": map_slots,
        "reduce_slots": reduce_slots,
    }
    return {"nodes": count, "heartbeat": "1s", "node": node, **more}


def run_each(
    bench: Bench, name: str, drawn: Callable[[int], Scenario], *, slowdowns: bool = False
) -> list[FinishedRun]:
    """Run `drawn(seed)` with a seed for each repeat, and return the run of each."""
    return bench.run(name, drawn, slowdowns=slowdowns).split()


def figures_of(runs: Sequence[FinishedRun], policy: str, *path: str) -> list[float]:
    """Return a value of the policy from the summary.json of each of the runs, which have one repeat.

    `path` are the keys that lead to the value.
    """
    return [finished.figures(policy, *path)[0] for finished in runs]


def gains(
    runs: Sequence[FinishedRun],
    policy: str,
    than: str,
    *path: str,
    than_runs: Sequence[FinishedRun] | None = None,
) -> list[float]:
    """Return by how many percent a value of summary.json is smaller than under `than`, for each repeat."""
    mine, theirs = figures_of(runs, policy, *path), figures_of(than_runs or runs, than, *path)
    return [percent_less(a, b) for a, b in zip(mine, theirs, strict=True)]


def fewer(mine: float, than: float) -> float:
    """Return by how many percent the number `mine` is smaller than the number `than`, or 0 if that is 0."""
    return percent_less(mine, than) if than else 0.0


def on_nodes(finished: FinishedRun, policy: str, kind: str, nodes: Collection[str]) -> float:
    """Return the percentage of maps that ran on one of the `nodes`, for the jobs whose names start with `kind`."""
    tables = finished.of(policy)
    names = tables.jobs.set_index("job")["name"]
    maps = tables.attempts[(tables.attempts["kind"] == "map") & (tables.attempts["state"] == "succeeded")]
    mine = maps[maps["job"].map(names).str.startswith(kind)]
    return 100 * float(mine["node"].isin(nodes).mean())


def reviewed(
    name: str, measure: Callable[[Bench], Measured], takes_s: float, repeats: int = SIM_REPEATS
) -> Experiment:
    """Return an experiment of chapter 3, which is simulated and takes about `takes_s` seconds."""
    return Experiment(name, measure, draw_values, {"sim": takes_s}, sim_repeats=repeats)

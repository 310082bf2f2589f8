"""The nine jobs of Tables 1 and 2 as synthetic ones, and the cluster that they run on.

There is a map for each 64 MB. The paper does not say how long one takes: here so long that the jobs alone take about
what Table 1 says. Table 2's shares of the disk for that long are more bytes than a block has (seeks count as use
there); a map reads as many. A node has four cores (two Xeons of that time, hyper-threaded), of which a synthetic map
keeps one busy: 25%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.experiment import Values
from schedbed.deploy.papers.polo2011.fair_slots import fair_spec

NODES, CORES = 20, 4
MAP_BYTES = 64e6  # of input
DISK_BPS = 40e6
MAPS_S = {"sort": 45.0, "combine": 150.0, "select": 45.0}
COMBINE_REDUCE_S, COMBINE_REDUCE_S_PER_GB = 80.0, 15.0
"""Its one reduce: so its lengths alone are about Table 1's, and maps do not fill all of the paper's makespan."""
SORT_REDUCES = 20
SORT_REDUCE_BPS = 5e6
"""Of its reduce phase: each byte is read once and written three times, which is Table 2's 50% of a node's disk."""
SLOTS = (1, 2, 3, 4, 6, 8)  # map slots a node in Figure 3
RELAXED_S = 100_000.0
"""A goal so relaxed that one slot is enough for any job (Experiment 1)."""

LIVE_NODES, LIVE_SCALE = 5, 0.015
LIVE_SLOTS = (2, 4, 8)

JOBS = tuple(f"J{number}" for number in range(1, 10))
APPS = {
    **dict.fromkeys(("J1", "J8", "J9"), "sort"),
    **dict.fromkeys(("J2", "J6", "J7"), "combine"),
    **dict.fromkeys(("J3", "J4", "J5"), "select"),
}


def said() -> Values:
    """What Tables 1 and 2 say."""
    return paper_file.load("polo2011").experiments["table1"].values


def job(name: str, submit_s: float, goal_s: float | None, *, live: bool) -> dict[str, Any]:
    """A job as in a scenario file; live it has a quarter of the tasks, since there are a quarter of the nodes."""
    app, size_bytes = APPS[name], 1e9 * dict(zip(JOBS, said()["sizes"].numbers, strict=True))[name]
    part = LIVE_NODES / NODES if live else 1.0
    made: dict[str, Any] = {
        "name": name,
        "app": "synthetic",
        "maps": ceil(part * size_bytes / MAP_BYTES),
        "map": {**_map(app), "variance": 0.1},
        "reduces": ceil(part * SORT_REDUCES) if app == "sort" else 1,
        "reduce": {"cpu": "5s", "write": "1MB"},
        "submit": f"{submit_s}s",
    }
    if app == "sort":  # what it has read, in equal parts
        sorted_bytes = part * size_bytes / made["reduces"]
        made["reduce"] = {"cpu": f"{sorted_bytes / SORT_REDUCE_BPS}s", "write": f"{round(sorted_bytes)}B"}
    elif app == "combine":
        made["reduce"]["cpu"] = f"{COMBINE_REDUCE_S + COMBINE_REDUCE_S_PER_GB * size_bytes / 1e9}s"
    return made if goal_s is None else {**made, "deadline": f"{goal_s}s"}


def _map(app: str) -> dict[str, str]:
    took_s, written_bytes = MAPS_S[app], MAP_BYTES if app == "sort" else 64e3
    moved_bytes = said()[f"{app}_map_io"].number / 100 * DISK_BPS * took_s
    return {
        "cpu": f"{took_s}s",
        "read": f"{round(moved_bytes - written_bytes)}B",
        "write": f"{round(written_bytes)}B",
    }


def goals(*, tight: bool) -> Mapping[str, float]:
    """Goals in s since the submission: Table 1's, or ones that are always met."""
    if not tight:
        return dict.fromkeys(JOBS, RELAXED_S)
    since = zip(JOBS, said()["goals"].numbers, said()["submits"].numbers, strict=True)
    return {name: goal_s - submit_s for name, goal_s, submit_s in since}


def jobs(*, tight: bool, live: bool) -> list[dict[str, Any]]:
    """Table 1's, with its goals (`tight`, Experiment 2) or with relaxed ones."""
    due = goals(tight=tight)
    submits = zip(JOBS, said()["submits"].numbers, strict=True)
    return [job(name, submit_s, due[name], live=live) for name, submit_s in submits]


def ras() -> dict[str, Any]:
    """RAS with profiles of these tasks (3.6): Table 2's, but for the CPU, of which each task keeps one core busy."""
    return {"ras": {"cycle": "30s", "profiles": {name: _profile(app) for name, app in APPS.items()}}}


def _profile(app: str) -> dict[str, dict[str, float]]:
    told = said()
    memory, shuffle_io, _, io, reduce_memory = told[f"{app}_rest"].numbers
    cpu = 100 / CORES
    return {
        "map": {"cpu": cpu, "io": told[f"{app}_map_io"].number, "memory": memory},
        "shuffle": {"io": shuffle_io},
        "reduce": {"cpu": cpu, "io": io, "memory": reduce_memory},
    }


def slots(*, live: bool) -> tuple[int, ...]:
    """Fair's map slots a node that are tried."""
    return LIVE_SLOTS if live else SLOTS


def experiment1(*, live: bool) -> dict[str, Any]:
    """Fair with each number of map slots, then RAS."""
    policies = [*map(fair_spec, slots(live=live)), ras()]
    return scenario(jobs(tight=False, live=live), policies, live=live)


def experiment2(*, live: bool) -> dict[str, Any]:
    """RAS with Table 1's goals."""
    return scenario(jobs(tight=True, live=live), [ras()], live=live)


def scenario(jobs: Sequence[Mapping[str, Any]], policies: Sequence[Any], *, live: bool) -> dict[str, Any]:
    """20 nodes of 4 cores, 2 GB and a gigabit; live five, 67 times as fast, with slower cores and as fast disks."""
    node = {
        "cores": CORES,
        "core_speed": 0.12 if live else 1.0,
        "memory": "512MiB" if live else "2GiB",
        "disk": f"{round(DISK_BPS)}B/s",
        "network": "1Gbit/s",
        "map_slots": SLOTS[-1],
        "reduce_slots": 2,
    }
    return {
        "scale": LIVE_SCALE if live else 1.0,
        "cluster": {
            "nodes": LIVE_NODES if live else NODES,
            "heartbeat": "200ms" if live else "10s",
            "node": node,
        },
        "blocks": {"size": "64MB", "replication": 3},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
    }


def longer(mine_s: list[float], than_s: list[float]) -> list[float]:
    """By how many percent, repeat by repeat."""
    return [100 * (mine / than - 1) for mine, than in zip(mine_s, than_s, strict=True)]

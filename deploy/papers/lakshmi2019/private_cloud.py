"""The paper's private cloud: four virtual machines, the jobs that were run there, and two queues of half each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from schedbed.deploy.papers.bench import Played, paired

APPS = ("wc", "pi", "rtw", "sort", "grep")
NAMES = {"wc": "WordCount", "pi": "Pi", "rtw": "RandomTextWriter", "sort": "Sort", "grep": "Grep"}
PAIRS = tuple(combinations(APPS, 2))
FOURS = tuple(combinations(APPS, 4))
QUEUES = ("a", "b")
POLICIES = ("capacity", "csla")
SAMPLES = 5_000_000  # of a map of Pi: about as much CPU as WordCount needs for a block
MAPS_PER_GB = 16
APART_S_PER_GB = 260.0  # from one group of jobs to the next: each group is alone


def cluster(*, live: bool) -> dict[str, Any]:
    """Four nodes; an emulated core is as slow as Hadoop's Java made one: a block of WordCount takes 20 s."""
    node = {
        "cores": 2,
        "core_speed": 0.05,
        "memory": "1GiB" if live else "4GiB",
        "disk": "100MB/s",
        "network": "1Gbit/s",
        "map_slots": 3,
        "reduce_slots": 1,
    }
    return {"nodes": 4, "heartbeat": "500ms" if live else "1s", "node": node}


def job(app: str, size_gb: int, queue: str, submit_s: float) -> dict[str, Any]:
    """One of the five jobs; a job without input gets as many maps as one of that size has blocks."""
    common: dict[str, Any] = {"name": app, "queue": queue, "submit": f"{submit_s:g}s"}
    maps = MAPS_PER_GB * size_gb
    size = f"{size_gb}GiB"
    jobs: dict[str, dict[str, Any]] = {
        "wc": {"app": "wordcount", "input": {"generate": "text", "size": size, "seed": 1}, "reduces": 2},
        "pi": {"app": "pi", "maps": maps, "params": {"samples": SAMPLES}},
        "rtw": {"app": "randomtextwriter", "maps": maps},
        "sort": {"app": "sort", "input": {"generate": "records", "size": size, "seed": 2}, "reduces": 2},
        "grep": {
            "app": "grep",
            "input": {"generate": "text", "size": size, "seed": 1},
            "params": {"pattern": "[a-z]*ing"},
        },
    }
    return common | jobs[app]


def scenario(
    groups: Sequence[Sequence[Mapping[str, Any]]], *, live: bool, user_limit_factor: int = 1
) -> dict[str, Any]:
    """Groups of jobs under Capacity and CSLA with the paper's queues.

    With a `user_limit_factor` of 1, Hadoop's default, a user never holds more of a queue than its own half.
    """
    queue = {"capacity": 50, "user_limit_factor": user_limit_factor}
    queues = {"queues": dict.fromkeys(QUEUES, queue)}
    return {
        "scale": 0.05 if live else 1.0,
        "cluster": cluster(live=live),
        "blocks": {"size": "64MiB", "replication": 2},
        "workload": {"jobs": [dict(job) for group in groups for job in group]},
        "policies": [{policy: queues} for policy in POLICIES],
    }


def makespans(played: Played, groups: int) -> dict[str, list[list[float]]]:
    """By policy, for each group of jobs (which were submitted together) one makespan a repeat, seconds."""
    found: dict[str, list[list[float]]] = {}
    for name, policy in zip(POLICIES, played.policies, strict=True):
        spans: list[list[float]] = [[] for _ in range(groups)]
        for run in played.each(policy):
            by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
            ended_s, began_s = by_submit.to_numpy(float), by_submit.index.to_numpy(float)
            for mine, span_s in zip(spans, (ended_s - began_s).tolist(), strict=True):
                mine.append(span_s)
        found[name] = spans
    return found


def shares(played: Played) -> dict[str, tuple[float, float]]:
    """Of the maps of each job name under the first policy: the share of a core they used, and MB/s moved."""
    run = played.of(played.policies[0])
    maps = run.attempts[run.attempts["kind"] == "map"].merge(run.jobs[["job", "name"]], on="job")
    moved = ["read_local_bytes", "read_remote_bytes", "spill_bytes", "output_bytes"]
    speed = float(run.nodes[0]["core_speed"])
    found: dict[str, tuple[float, float]] = {}
    for name, mine in maps.groupby("name"):
        held_s = float((mine["end"] - mine["start"]).sum())
        rate = float(mine[moved].to_numpy(float).sum()) / 1e6 / held_s
        found[str(name)] = (float(mine["cpu_s"].sum()) / speed / held_s, rate)
    return found


def gains(spans: Mapping[str, list[list[float]]]) -> list[list[float]]:
    """How much earlier CSLA ends each group than Capacity, in %, one number a repeat."""
    groups = zip(spans["csla"], spans["capacity"], strict=True)
    return [[100 * share for share in paired(csla, capacity)] for csla, capacity in groups]

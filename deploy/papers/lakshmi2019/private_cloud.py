"""The paper's private cloud and jobs: four virtual machines on one host, five applications, two queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from schedbed.deploy.papers.bench import FinishedRun, paired

APPS = ("wc", "pi", "rtw", "sort", "grep")
NAMES = {"wc": "WordCount", "pi": "Pi", "rtw": "RandomTextWriter", "sort": "Sort", "grep": "Grep"}
PAIRS = tuple(combinations(APPS, 2))
FOURS = tuple(combinations(APPS, 4))
QUEUES = ("a", "b")
SHARED = (QUEUES[0], QUEUES[0])
POLICIES = ("capacity", "csla")
SAMPLES = 5_000_000  # of a map of Pi, with about the CPU time of a WordCount map
MAPS_PER_GB = 16
BLOCK_BYTES = 64 * 2**20
RTW_CPU_S = 1.0
"""Of a map of RandomTextWriter: what writing its block takes of a core in the simulator, and nothing beside that. For
each byte moved that is 1.3 times what a map of Sort uses, and the paper calls the two alike. Hadoop's program is
I/O-bound; ours in Python computes 21 s for a block and would be CPU-bound."""

HEAVY_IO_MBPS = 5.0  # tasks above this rate are IO-heavy in the paper
HOST_DISK_MBPS = 100
ALONE_S_PER_GB = {"wc": 45.0, "pi": 45.0, "rtw": 25.0, "sort": 100.0, "grep": 85.0}
"""A time longer than 1 GB of a job takes alone on such a disk, which separates groups of jobs."""
WRITERS = ("rtw", "sort")  # jobs that wait for the disk
BETWEEN_S = 60.0  # per queue, since a job may have only half of the cluster with two queues


def cluster(*, live: bool, disk_mbps: int | None = None) -> dict[str, Any]:
    """Return the value of a scenario's key `cluster`: four nodes with two cores and three map slots each.

    The cores are so slow that a map of WordCount takes 20 s, about as long as in Hadoop. With `disk_mbps`,
    the nodes are virtual machines that share one disk of this rate in MB/s. Otherwise, each node has a disk
    of 100 MB/s.
    """
    node: dict[str, Any] = {
        "cores": 2,
        "core_speed": 0.05,
        "memory": "1GiB" if live else "4GiB",
        "disk": f"{disk_mbps or 100}MB/s",
        "network": "1Gbit/s",
        "map_slots": 3,
        "reduce_slots": 1,
    }
    if disk_mbps is not None:
        node["shared_disk"] = "esxi"
    return {"nodes": 4, "heartbeat": "500ms" if live else "1s", "node": node}


def job(app: str, size_gb: float, queue: str, submit_s: float, finer: int = 1) -> dict[str, Any]:
    """Return a job of the application `app` as in a scenario file, submitted at `submit_s` seconds.

    `app` is one of the five applications: `wc`, `pi`, `rtw`, `sort` or `grep`. Jobs without input have as
    many maps as `size_gb` GB of input would have blocks. `finer` multiplies the number of maps and divides
    the work of each map.
    """
    common: dict[str, Any] = {"name": app, "queue": queue, "submit": f"{submit_s:g}s"}
    maps = round(MAPS_PER_GB * size_gb) * finer
    block_bytes = BLOCK_BYTES // finer
    size = f"{maps * block_bytes}B"
    writes = {"cpu": f"{RTW_CPU_S / finer}s", "write": f"{block_bytes}B"}
    jobs: dict[str, dict[str, Any]] = {
        "wc": {"app": "wordcount", "input": {"generate": "text", "size": size, "seed": 1}, "reduces": 2},
        "pi": {"app": "pi", "maps": maps, "params": {"samples": SAMPLES // finer}},
        "rtw": {"app": "synthetic", "maps": maps, "map": writes},
        "sort": {"app": "sort", "input": {"generate": "records", "size": size, "seed": 2}, "reduces": 2},
        "grep": {
            "app": "grep",
            "input": {"generate": "text", "size": size, "seed": 1},
            "params": {"pattern": "[a-z]*ing"},
        },
    }
    return common | jobs[app]


def groups_of(
    groups: Sequence[Sequence[str]],
    size_gb: float,
    queues: Sequence[str],
    disk_mbps: int = HOST_DISK_MBPS,
    finer: int = 1,
) -> list[list[dict[str, Any]]]:
    """Return the jobs of each group of applications. All jobs of a group are submitted at the same time.

    Each job has `size_gb` GB of data, and `queues` has the queue of each job of a group. A group is submitted
    at a time by which the previous group should have ended on disks of `disk_mbps` MB/s. `finer` multiplies
    the number of maps and divides the work of each map.
    """
    found: list[list[dict[str, Any]]] = []
    now_s = 0.0
    for group in groups:
        pairs = zip(group, queues, strict=True)
        found.append([job(app, size_gb, queue, now_s, finer) for app, queue in pairs])
        slower = max(1.0, HOST_DISK_MBPS / disk_mbps)
        alone_s = sum(ALONE_S_PER_GB[app] * (slower if app in WRITERS else 1.0) for app in group)
        now_s += BETWEEN_S * len(set(queues)) + size_gb * alone_s
    return found


def scenario(
    groups: Sequence[Sequence[Mapping[str, Any]]],
    *,
    live: bool,
    disk_mbps: int = HOST_DISK_MBPS,
    user_limit_factor: int = 1,
    host_disk: bool = True,
    finer: int = 1,
) -> dict[str, Any]:
    """Return a scenario in which groups of jobs run under the policies Capacity and CSLA.

    The scenario has the paper's two queues, and a heartbeat starts at most one task whose input is outside
    the node's rack. `user_limit_factor` is the limit on the share of a single user, as a multiple of the
    queue's capacity (half of the cluster). With `host_disk`, CSLA regards a node as busy if the disk of its
    host, with a rate of `disk_mbps` MB/s, is busy. Blocks are `finer` times smaller than usual.
    """
    queue = {"capacity": 50, "user_limit_factor": user_limit_factor}
    capacity = {"queues": dict.fromkeys(QUEUES, queue), "off_switch_per_heartbeat": 1}
    csla = {**capacity, "io_share": HEAVY_IO_MBPS / disk_mbps, "host_disk": host_disk}
    return {
        "scale": 0.05 if live else 1.0,
        "cluster": cluster(live=live, disk_mbps=disk_mbps),
        "blocks": {"size": f"{BLOCK_BYTES // finer}B", "replication": 2},
        "workload": {"jobs": [dict(job) for group in groups for job in group]},
        "policies": [{"capacity": capacity}, {"csla": csla}],
    }


def makespans(finished: FinishedRun, groups: int) -> dict[str, list[list[float]]]:
    """Return the makespan in s of each group of jobs, as a dictionary from policy to one list per group.

    Each list has one number per repeat. Raises ValueError if a group still ran when the next group was
    submitted, since such groups compete for the cluster.
    """
    found: dict[str, list[list[float]]] = {}
    for name, policy in zip(POLICIES, finished.policies, strict=True):
        spans: list[list[float]] = [[] for _ in range(groups)]
        for run in finished.each(policy):
            by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
            ended_s, began_s = by_submit.to_numpy(float), by_submit.index.to_numpy(float)
            if (ended_s[:-1] > began_s[1:]).any():
                raise ValueError(f"{finished.folder.name}: jobs of two groups ran at the same time")
            for mine, span_s in zip(spans, (ended_s - began_s).tolist(), strict=True):
                mine.append(span_s)
        found[name] = spans
    return found


def shares(finished: FinishedRun) -> dict[str, tuple[float, float]]:
    """Return the mean CPU use (share of a core) and I/O rate (MB/s) of the maps of each job, by job name.

    The means are those under the run's first policy.
    """
    run = finished.of(finished.policies[0])
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
    """Return by how many percent each group's makespan is shorter under CSLA than under Capacity.

    `spans` is a dictionary from policy to one list of makespans per group. The result has one list per group.
    All lists have one number per repeat.
    """
    groups = zip(spans["csla"], spans["capacity"], strict=True)
    return [[100 * share for share in paired(csla, capacity)] for csla, capacity in groups]

"""Pairs of jobs under Capacity and CSLA: tags (CPU-heavy, I/O-heavy, both, neither), and makespans saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun, paired
from schedbed.deploy.papers.experiment import minus
from schedbed.scheduler.models.csla_tags import UNKNOWN, tag, words

# The paper's private cloud and jobs: four virtual machines on one host, five applications, two queues.

APPS = ("wc", "pi", "rtw", "sort", "grep")
NAMES = {"wc": "WordCount", "pi": "Pi", "rtw": "RandomTextWriter", "sort": "Sort", "grep": "Grep"}
PAIRS = tuple(combinations(APPS, 2))
FOURS = tuple(combinations(APPS, 4))
QUEUES = ("a", "b")
SHARED = (QUEUES[0], QUEUES[0])
POLICIES = ("capacity", "csla", "anywhere")
"""The policies of a run in this order. The last is CSLA that asks for no local data, as the paper's text."""
SAMPLES = 5_000_000  # of a map of Pi, with about the CPU time of a WordCount map
LIVE_SCALE = 0.05
MAPS_PER_GB = 16
BLOCK_BYTES = 64 * 2**20
RTW_CPU_S = 1.0
"""The core time of a map of RandomTextWriter, which is that of writing its block alone. For
each byte moved that is 1.3 times what a map of Sort uses, and the paper calls the two alike. Hadoop's program is
I/O-bound; ours in Python computes 21 s for a block and would be CPU-bound."""

HEAVY_IO_MBPS = 5.0  # tasks above this rate are IO-heavy in the paper
HOST_DISK_MBPS, LIVE_SEEK = 100, 0.04
"""The rate of the disk of `pairs` and `fours`, and in live runs what each further stream costs there."""
ALONE_S_PER_GB = {"wc": 45.0, "pi": 45.0, "rtw": 25.0, "sort": 100.0, "grep": 85.0}
"""A time longer than 1 GB of a job takes alone on such a disk, which separates groups of jobs."""
WRITERS = ("rtw", "sort")  # jobs that wait for the disk
BETWEEN_S = 60.0  # per queue, since a job may have only half of the cluster with two queues


NODES = 4


def cluster(*, live: bool, disk_mbps: int | None = None, nodes: int = NODES) -> dict[str, Any]:
    """Return `cluster`: nodes of two cores and three map slots. A map of WordCount takes 20 s, as in Hadoop.

    With `disk_mbps`, they are virtual machines on one disk of this rate, which seeks in live runs; otherwise each has
    100 MB/s.
    """
    node: dict[str, Any] = {
        "cores": 2,
        "core_speed": 0.05,
        "memory": "1GiB" if live else "4GiB",
        "disk": {"rate": f"{disk_mbps or 100}MB/s", "seek": LIVE_SEEK if live and disk_mbps else 0},
        "network": "1Gbit/s",
        "map_slots": 3,
        "reduce_slots": 1,
    }
    if disk_mbps is not None:
        node["shared_disk"] = "esxi"
    return {"nodes": nodes, "heartbeat": "500ms" if live else "1s", "node": node}


def job(app: str, size_gb: float, queue: str, submit_s: float, scale: float = 1.0) -> dict[str, Any]:
    """Return a job of `wc`, `pi`, `rtw`, `sort` or `grep`, with as many maps as `size_gb` GB has blocks.

    `scale` is the scenario's, which does not shorten Pi.
    """
    common: dict[str, Any] = {"name": app, "queue": queue, "submit": f"{submit_s:g}s"}
    maps = round(MAPS_PER_GB * size_gb)
    size = f"{maps * BLOCK_BYTES}B"
    writes = {"cpu": f"{RTW_CPU_S}s", "write": f"{BLOCK_BYTES}B"}
    jobs: dict[str, dict[str, Any]] = {
        "wc": {"app": "wordcount", "input": {"generate": "text", "size": size, "seed": 1}, "reduces": 2},
        "pi": {"app": "pi", "maps": maps, "params": {"samples": round(scale * SAMPLES)}},
        "rtw": {"app": "synthetic", "maps": maps, "map": writes},
        "sort": {"app": "sort", "input": {"generate": "records", "size": size, "seed": 2}, "reduces": 2},
        "grep": {
            "app": "grep",
            "input": {"generate": "text", "size": size, "seed": 1},
            "params": {"pattern": "[a-z]*ing"},
        },
    }
    return common | jobs[app]


Group = tuple[str, ...]
Gains = Mapping[Group, list[float]]
"""By group of jobs that run together, one number per repeat: gains in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRun:
    """The settings with which groups of jobs run, one group after the other. A group is submitted at once.

    `groups` has the applications of each group, and `queues` the queue of each job of a group. Each job has
    `size_gb` GB of data. `factor` is the limit on the share of a single user, as a multiple of the queue's
    capacity (half of the cluster). The `nodes` share one disk, unless `own_disks`. The policy CSLA regards a node
    as busy if its host's disk is busy. `anywhere` adds a run under CSLA that asks for no local data.
    """

    name: str  # name of the run's folder
    groups: Sequence[Group] = PAIRS
    size_gb: float = 3
    queues: Sequence[str] = SHARED
    factor: int = 2
    nodes: int = NODES
    own_disks: bool = False
    anywhere: bool = False

    def jobs(self, *, live: bool = False) -> list[dict[str, Any]]:
        """Return the jobs of all groups. A group comes when the one before should have ended, also on a busy host."""
        found: list[dict[str, Any]] = []
        now_s, patience, scale = 0.0, *((2.0, LIVE_SCALE) if live else (1.0, 1.0))
        for group in self.groups:
            pairs = zip(group, self.queues, strict=True)
            found += [job(app, self.size_gb, queue, now_s, scale) for app, queue in pairs]
            alone_s = sum(ALONE_S_PER_GB[app] for app in group)
            alone_s *= max(1.0, NODES / self.nodes)
            now_s += patience * (BETWEEN_S * len(set(self.queues)) + self.size_gb * alone_s)
        return found

    def scenario(self, *, live: bool) -> dict[str, Any]:
        """Return a scenario in which the groups run under the policies Capacity and CSLA.

        The scenario has the paper's two queues, and a heartbeat starts at most one task whose input is outside
        the node's rack.
        """
        queue = {"capacity": 50, "user_limit_factor": self.factor}
        capacity = {"queues": dict.fromkeys(QUEUES, queue), "off_switch_per_heartbeat": 1}
        csla = {**capacity, "io_share": HEAVY_IO_MBPS / HOST_DISK_MBPS, "host_disk": True}
        other = [{"csla": {**csla, "local_data": False}}] if self.anywhere else []
        disk = None if self.own_disks else HOST_DISK_MBPS
        return {
            "scale": LIVE_SCALE if live else 1.0,
            "cluster": cluster(live=live, disk_mbps=disk, nodes=self.nodes),
            "blocks": {"size": f"{BLOCK_BYTES}B", "replication": 2},
            "workload": {"jobs": self.jobs(live=live)},
            "policies": [{"capacity": capacity}, {"csla": csla}, *other],
        }

    def run(self, bench: Bench, repeats: int | None = None) -> FinishedRun:
        """Run the groups on the bench, live or simulated."""
        return bench.run(self.name, self.scenario(live=bench.live), repeats=repeats)


def makespans(finished: FinishedRun, groups: int) -> dict[str, list[list[float]]]:
    """Return each policy's makespans by group and repeat. Raises ValueError if groups overlap."""
    found: dict[str, list[list[float]]] = {}
    for name, policy in zip(POLICIES, finished.policies, strict=False):
        spans: list[list[float]] = [[] for _ in range(groups)]
        for run in finished.each(policy):
            by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
            ended_s, began_s = by_submit.to_numpy(float), by_submit.index.to_numpy(float)
            if (ended_s[:-1] > began_s[1:]).any():
                raise ValueError(
                    f"{finished.folders[0].parent.name}: jobs of two groups ran at the same time"
                )
            for mine, span_s in zip(spans, (ended_s - began_s).tolist(), strict=True):
                mine.append(span_s)
        found[name] = spans
    return found


def shares(finished: FinishedRun) -> dict[str, tuple[float, float]]:
    """Return each job's mean CPU use (of a core) and I/O rate (MB/s) of maps, under the first policy."""
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


def saved(mine: list[list[float]], first: list[list[float]]) -> list[list[float]]:
    """Return by how many percent each group's makespans are shorter in `mine` than in `first`."""
    return [[100 * share for share in paired(*both)] for both in zip(mine, first, strict=True)]


HEAVY_CPU = 0.5  # tasks above this share of a core are CPU-heavy in the paper
SAMPLE_GB = 0.25  # one map per node


def group_gains(bench: Bench, way: GroupRun) -> Gains:
    """Run the groups of jobs with the settings `way`, and return the gain of the policy CSLA for each group.

    A gain says by how many percent the makespan is shorter than under Capacity. Each group has one number per
    repeat.
    """
    return gains_of(way.groups, makespans(way.run(bench), len(way.groups)))


def gains_of(groups: Sequence[Group], spans: Mapping[str, list[list[float]]], policy: str = "csla") -> Gains:
    """Return the gain of `policy` for each group. `spans` has each policy's makespans of the groups."""
    return dict(zip(groups, saved(spans[policy], spans["capacity"]), strict=True))


def untagged(finished: FinishedRun) -> list[float]:
    """Return the percentage of tasks launched before CSLA had tagged their job, for each repeat."""
    found: list[float] = []
    for run in finished.each(finished.policies[1]):
        decisions = run.tables["decisions"]
        reasons = decisions[decisions["answer"] == "launch"]["reason"]
        found.append(100 * float(reasons.str.contains(f"job tag {words(UNKNOWN)}").mean()))
    return found


def run_alone(bench: Bench) -> FinishedRun:
    """Run a small job of each application alone once, with one map per node."""
    each = [(app,) for app in APPS]
    return GroupRun(name="alone", groups=each, size_gb=SAMPLE_GB, queues=QUEUES[:1]).run(bench, 1)


def tags_of(alone: FinishedRun) -> dict[str, int]:
    """Return each job's tag, by the maps' mean use alone and the paper's thresholds."""
    return {app: _tag(cpu, rate) for app, (cpu, rate) in shares(alone).items()}


def unlike(tags: Mapping[str, int], pair: Group) -> bool:
    """Return whether the jobs of a pair have different tags."""
    return tags[pair[0]] != tags[pair[1]]


def mean_gain(found: Gains, pairs: Sequence[Group]) -> list[float]:
    """Return the mean gain of some pairs, for each repeat."""
    return [fmean(repeat) for repeat in zip(*(found[pair] for pair in pairs), strict=True)]


def split_gains(found: Gains, tags: Mapping[str, int]) -> tuple[list[float], list[float], list[float]]:
    """Return mean gains of pairs with different tags, with equal ones, and the difference."""
    others = mean_gain(found, [pair for pair in found if unlike(tags, pair)])
    control = mean_gain(found, [pair for pair in found if not unlike(tags, pair)])
    return others, control, minus(others, control)


def described(measured: Mapping[str, tuple[float, float]]) -> str:
    """Describe the CPU share, I/O rate and tag of each application's maps."""
    return ", ".join(
        f"{NAMES[app]} {100 * cpu:.0f}% of a core and {rate:.1f} MB/s (tag {words(_tag(cpu, rate))})"
        for app, (cpu, rate) in measured.items()
    )


def _tag(cpu: float, rate: float) -> int:
    return tag(cpu > HEAVY_CPU, rate > HEAVY_IO_MBPS)

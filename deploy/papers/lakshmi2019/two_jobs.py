"""Pairs of jobs under the policies Capacity and CSLA: the tags of the jobs, and CSLA's gain for each pair.

A tag says whether the tasks of a job are CPU-heavy, I/O-heavy, both or neither. A gain is a reduction of the
makespan against Capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from schedbed.deploy.papers.bench import Bench, FinishedRun, paired
from schedbed.deploy.papers.lakshmi2019.private_cloud import (
    APPS,
    HEAVY_IO_MBPS,
    HOST_DISK_MBPS,
    NAMES,
    PAIRS,
    QUEUES,
    SHARED,
    groups_of,
    makespans,
    scenario,
    shares,
)
from schedbed.scheduler.models.csla_tags import CPU, UNKNOWN, tag, words

Pair = tuple[str, str]
Gains = Mapping[Pair, Sequence[float]]
"""By pair, one number per repeat: gains in percent, or seconds."""


HEAVY_CPU = 0.5  # tasks above this share of a core are CPU-heavy in the paper
SAMPLE_GB = 0.25  # one map per node


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """The settings with which pairs of jobs are run. The first job of a pair is submitted first.

    `factor` is the limit on the share of a single user, as a multiple of the queue's capacity (half of the
    cluster). With `host_disk`, the policy CSLA regards a node as busy if the disk of its host is busy.
    `finer` multiplies the number of maps of each job and divides the work of each map.
    """

    name: str  # name of the run's folder
    pairs: Sequence[Pair] = PAIRS
    size_gb: int = 3
    queues: Pair = SHARED
    factor: int = 2
    disk_mbps: int = HOST_DISK_MBPS
    host_disk: bool = True
    finer: int = 1


def run_pairs(bench: Bench, way: PairRun) -> FinishedRun:
    """Run the pairs of jobs with the settings `way`, under the policies Capacity and CSLA.

    The pairs run one after the other.
    """
    groups = groups_of(way.pairs, way.size_gb, way.queues, way.disk_mbps, way.finer)
    plan = scenario(
        groups,
        live=bench.live,
        disk_mbps=way.disk_mbps,
        user_limit_factor=way.factor,
        host_disk=way.host_disk,
        finer=way.finer,
    )
    return bench.run(way.name, plan)


def pair_spans(bench: Bench, way: PairRun) -> Mapping[str, Gains]:
    """Run the pairs of jobs with the settings `way`, and return the makespan in s of each pair.

    The result is a dictionary from policy to a dictionary from pair to one number per repeat.
    """
    spans = makespans(run_pairs(bench, way), len(way.pairs))
    return {policy: dict(zip(way.pairs, found, strict=True)) for policy, found in spans.items()}


def pair_gains(bench: Bench, way: PairRun) -> Gains:
    """Run the pairs of jobs with the settings `way`, and return the gain of the policy CSLA for each pair.

    A gain says by how many percent the makespan is shorter than under Capacity. Each pair has one number per
    repeat.
    """
    spans = pair_spans(bench, way)
    return earlier(spans["csla"], spans["capacity"])


def untagged(finished: FinishedRun) -> list[float]:
    """Return the percentage of tasks that the policy CSLA launched before it had given their job a tag.

    A tag says whether tasks are CPU-heavy, I/O-heavy, both or neither. The result has one number per repeat.
    """
    found: list[float] = []
    for run in finished.each(finished.policies[1]):
        decisions = run.tables["decisions"]
        reasons = decisions[decisions["answer"] == "launch"]["reason"]
        found.append(100 * float(reasons.str.contains(f"job tag {words(UNKNOWN)}").mean()))
    return found


def earlier(mine: Gains, first: Gains) -> Gains:
    """Return by how many percent the makespan of each pair of jobs is shorter in `mine` than in `first`.

    Both are dictionaries from pair to makespans in s, one number per repeat.
    """
    return {pair: [100 * share for share in paired(mine[pair], first[pair])] for pair in mine}


def run_alone(bench: Bench) -> FinishedRun:
    """Run a small job of each application, with one map per node. Each job is alone on the cluster."""
    groups = groups_of([(app,) for app in APPS], SAMPLE_GB, QUEUES[:1])
    return bench.run("alone", scenario(groups, live=bench.live, user_limit_factor=2))


def tags_of(alone: FinishedRun) -> dict[str, int]:
    """Return the tag of each job: a number for CPU-heavy, I/O-heavy, both or neither.

    The tags follow from the mean CPU and disk use of each job's maps and the paper's thresholds. `alone` is a
    run in which each job was alone on the cluster.
    """
    return {app: _tag(cpu, rate) for app, (cpu, rate) in shares(alone).items()}


def unlike(tags: Mapping[str, int], pair: Pair) -> bool:
    """Return whether the two jobs of a pair have different tags.

    `tags` is a dictionary from job to tag, which says whether the job is CPU-heavy, I/O-heavy, both or
    neither.
    """
    return tags[pair[0]] != tags[pair[1]]


def cpu_heavy_first(tags: Mapping[str, int]) -> list[Pair]:
    """Return all pairs of jobs with different tags, with the CPU-heavy job of each pair first.

    `tags` is a dictionary from job to tag, which says whether the job is CPU-heavy or I/O-heavy.
    """
    return [pair if tags[pair[0]] & CPU else (pair[1], pair[0]) for pair in PAIRS if unlike(tags, pair)]


def mean_gain(found: Gains, pairs: Sequence[Pair]) -> list[float]:
    """Return the mean over `pairs` of the gains in `found`, one number per repeat.

    `found` is a dictionary from pair of jobs to gains.
    """
    return [fmean(repeat) for repeat in zip(*(found[pair] for pair in pairs), strict=True)]


def split_gains(found: Gains, tags: Mapping[str, int]) -> tuple[list[float], list[float], list[float]]:
    """Return the mean gain of pairs with different tags, of pairs with equal tags, and the difference.

    `found` is a dictionary from pair of jobs to gains, and `tags` from job to tag. Each value has one number
    per repeat.
    """
    others = mean_gain(found, [pair for pair in found if unlike(tags, pair)])
    control = mean_gain(found, [pair for pair in found if not unlike(tags, pair)])
    return others, control, [mine - alike for mine, alike in zip(others, control, strict=True)]


def described(measured: Mapping[str, tuple[float, float]]) -> str:
    """Return text with the CPU share, the I/O rate in MB/s and the tag of the maps of each application.

    `measured` is a dictionary from application to CPU share and I/O rate.
    """
    return ", ".join(
        f"{NAMES[app]} {100 * cpu:.0f}% of a core and {rate:.1f} MB/s (tag {words(_tag(cpu, rate))})"
        for app, (cpu, rate) in measured.items()
    )


def _tag(cpu: float, rate: float) -> int:
    return tag(cpu > HEAVY_CPU, rate > HEAVY_IO_MBPS)

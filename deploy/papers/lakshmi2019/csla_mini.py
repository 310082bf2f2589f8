"""The gains of the policy CSLA on randomly drawn hosts that match the paper, for pairs of jobs of 3 GB.

A host matches if CSLA gives each job the same tag as in the paper. A tag says whether the tasks of a job are
CPU-heavy, I/O-heavy, both or neither. All runs are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.job_times import JobTime, makespan_s
from schedbed.deploy.papers.lakshmi2019.private_cloud import (
    APPS,
    PAIRS,
    QUEUES,
    SHARED,
    cluster,
    groups_of,
    scenario,
)
from schedbed.deploy.papers.lakshmi2019.two_jobs import SAMPLE_GB, Gains, split_gains, tags_of
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn

SIZE_GB = 3
TAGGED = ("wc", "rtw", "sort")
"""Jobs whose tags are consistent in the paper."""

LAYOUTS = ((SHARED, 2), (QUEUES, 2), (QUEUES, 1))
"""The queues of a pair's jobs and the user limit factor, by the drawn parameter `queues`."""


def fits(bench: Bench, drawn: Drawn) -> Iterator[tuple[str, float]]:
    """Yield the values that must match the paper: the tags that the policy CSLA gives to jobs that ran alone.

    Each item is a pair of a key, such as `tag_sort`, and the tag as a number. `drawn` are the parameters of
    the randomly drawn host.
    """
    tags = _tags(bench, drawn)
    for app in TAGGED:
        yield f"tag_{app}", float(tags[app])


def claims(bench: Bench, drawn: Drawn) -> Mapping[str, float]:
    """Return our values for the claims: the mean gains of the policy CSLA for pairs of jobs, by kind of pair.

    The pairs have different or equal tags, where a tag says whether tasks are CPU-heavy, I/O-heavy, both or
    neither. A gain is a reduction of the makespan in percent. The third value is the difference of the two
    mean gains.
    """
    queues, factor = LAYOUTS[int(drawn["queues"])]
    asked = _scenario(drawn, PAIRS, SIZE_GB, queues, factor)
    capacity_s, csla_s = (
        _makespans(bench.times(f"pairs-{number}", {**asked, "policies": [policy]}))
        for number, policy in enumerate(asked["policies"])
    )
    found: Gains = {
        pair: [100 * (1 - mine / theirs)]
        for pair, mine, theirs in zip(PAIRS, csla_s, capacity_s, strict=True)
    }
    unlike, alike, more = split_gains(found, _tags(bench, drawn))
    return {"pairs/unlike_3": unlike[0], "pairs/alike_3": alike[0], "pairs/unlike_minus_alike": more[0]}


def _makespans(jobs: Sequence[JobTime]) -> list[float]:
    """Return the makespan in s of each pair of jobs, where `jobs` has two consecutive items per pair.

    Raises ValueError if two pairs ran at the same time.
    """
    pairs = [jobs[place : place + 2] for place in range(0, len(jobs), 2)]
    for pair, later in pairwise(pairs):
        if max(job.finish_s for job in pair) > later[0].submit_s:
            raise ValueError(f"{pair[0].name}, {pair[1].name}: still ran when the next pair came")
    return [makespan_s(pair) for pair in pairs]


def _tags(bench: Bench, drawn: Drawn) -> Mapping[str, int]:
    groups = [(app,) for app in APPS]
    return tags_of(bench.run("alone", _scenario(drawn, groups, SAMPLE_GB, QUEUES[:1], 2)))


def _scenario(
    drawn: Drawn, groups: Sequence[Sequence[str]], size_gb: float, queues: Sequence[str], factor: int
) -> dict[str, Any]:
    """Return a scenario of groups of jobs that run one after the other on the drawn host.

    A group is a list of applications with `size_gb` GB of data each, and `queues` has the queue of each job
    of a group. Gaps between groups are long enough for a slow drawn host. `factor` is the limit on the share
    of a single user, as a multiple of the queue's capacity (half of the cluster).
    """
    disk_mbps = max(1, round(drawn["disk_mbps"]))
    node = cluster(live=False)["node"]
    slower = (1 + drawn["seek"] * 4 * node["map_slots"]) * max(1.0, node["core_speed"] / drawn["core_speed"])
    jobs = groups_of(groups, size_gb, queues, disk_mbps)
    spread = [[_drawn_job(job, drawn, slower) for job in group] for group in jobs]
    asked = scenario(spread, live=False, disk_mbps=disk_mbps, user_limit_factor=factor)
    machine = {
        **asked["cluster"]["node"],
        "core_speed": drawn["core_speed"],
        "disk": {"rate": f"{disk_mbps}MB/s", "seek": drawn["seek"]},
    }
    costs = {"yarn": {"jvm": f"{drawn['start_s']}s"}}
    return {**asked, "cluster": {**asked["cluster"], "node": machine}, "framework": costs}


def _drawn_job(job: Mapping[str, Any], drawn: Drawn, slower: float) -> dict[str, Any]:
    """Return a copy of the job with its submit time multiplied by `slower`.

    If the job is RandomTextWriter, its maps use the CPU time in `drawn`, the parameters of the random host.
    """
    made = {**job, "submit": f"{slower * float(job['submit'].removesuffix('s'))}s"}
    if job["name"] == "rtw":
        made["map"] = {**job["map"], "cpu": f"{drawn['writer_cpu_s']}s"}
    return made


MINI = Mini(fits=fits, claims=claims)

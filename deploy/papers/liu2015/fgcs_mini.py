"""The gains of the policy FGCS over YARN's policy on randomly drawn nodes that match the paper.

A test is a set of jobs that run together. Nodes match if, under YARN's policy, the maps of Pi take about as
long as in the paper, and the longest job of a test takes at most twice as long as the shortest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.job_times import JobTime
from schedbed.deploy.papers.liu2015.eight_tests import (
    CONTAINERS,
    DISK_BPS,
    IO_JOBS,
    MIXES,
    Mix,
    demands,
    jobs_of,
    sample_jobs,
    scenario,
)
from schedbed.deploy.papers.liu2015.mixes import map_times
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn

MAP_TEST = "pi-teragen"


def fits(bench: Bench, drawn: Drawn) -> Iterator[tuple[str, float]]:
    """Yield the values that must match the paper: Pi's mean map time in s, and ratios of job times.

    All are measured under YARN's policy. A ratio is the longest job time of a test divided by the shortest.
    For each kind of test, only the largest ratio must match. Each item is a pair of key and number.
    """
    (mix,) = (each for each in MIXES if each.name == MAP_TEST)
    jobs = jobs_of(mix, live=False)
    ((map_s,),) = map_times(bench.run("maps", _scenario(drawn, jobs, _yarn_policy(drawn))), mix.cpu[0])
    yield "pi_map", map_s
    for pattern in ("balanced", "io", "cpu"):
        yield (
            f"ratio_{pattern}",
            max(_uneven(_yarn(bench, drawn, each)) for each in MIXES if each.pattern == pattern),
        )


def claims(bench: Bench, drawn: Drawn) -> Mapping[str, float]:
    """Return by how many percent the policy FGCS reduces job times on the drawn nodes, for each claim.

    The result is a dictionary from the claim's key (EXPERIMENT/VALUE, as in paper.yaml) to our value.
    """
    samples = _scenario(drawn, sample_jobs(), {"fgcs": {"profiles": "none"}})
    fgcs = {"fgcs": {"profiles": demands(bench.run("samples", samples))}}
    gains: dict[tuple[str, str], float] = {}
    for mix in MIXES:
        mine = bench.times(f"{mix.name}-fgcs", _scenario(drawn, jobs_of(mix, live=False), fgcs))
        before, after = ({job.name: job.took_s for job in jobs} for jobs in (_yarn(bench, drawn, mix), mine))
        gains |= {(mix.name, name): 100 * (1 - after[name] / before[name]) for name in mix.jobs}
    of_cpu = {
        pattern: [gains[mix.name, name] for mix in MIXES if mix.pattern == pattern for name in mix.cpu]
        for pattern in ("balanced", "io", "cpu")
    }
    return {
        "tests/balanced_least": min(of_cpu["balanced"]),
        "tests/balanced_most": max(of_cpu["balanced"]),
        "tests/io_least": min(of_cpu["io"]),
        "tests/io_most": max(of_cpu["io"]),
        "tests/cpu_mean": fmean(of_cpu["cpu"]),
        "tests/io_jobs_mean": fmean(gains[mix.name, name] for mix in MIXES for name in mix.io),
    }


def _uneven(jobs: Sequence[JobTime]) -> float:
    return max(job.took_s for job in jobs) / min(job.took_s for job in jobs)


def _yarn(bench: Bench, drawn: Drawn, mix: Mix) -> list[JobTime]:
    """Return the times of the jobs of the test `mix` under YARN on the drawn nodes.

    The test is simulated only at the first call.
    """
    return bench.times(f"{mix.name}-yarn", _scenario(drawn, jobs_of(mix, live=False), _yarn_policy(drawn)))


def _yarn_policy(drawn: Drawn) -> str:
    return f"{CONTAINERS}:reserved_cores={drawn['reserved_cores']:.0f}"


def _scenario(drawn: Drawn, jobs: Sequence[Mapping[str, Any]], policy: Any) -> dict[str, Any]:
    asked = scenario([_drawn_job(job, drawn) for job in jobs], [policy], live=False)
    disk = {"rate": f"{drawn['disk_mbps']:.3f}MB/s", "seek": drawn["seek"]}
    node = {**asked["cluster"]["node"], "disk": disk}
    costs = {"yarn": {"jvm": f"{drawn['start_s']}s"}}
    return {**asked, "cluster": {**asked["cluster"], "node": node}, "framework": costs}


def _drawn_job(job: Mapping[str, Any], drawn: Drawn) -> dict[str, Any]:
    """Return a copy of the job with the variation of task lengths in `drawn`, the parameters of the nodes.

    The CPU time of an I/O-bound job is changed such that its tasks use Table 1's share of a core on a disk
    with the drawn rate.
    """
    each = {**job["map"], "variance": drawn["spread"]}
    if job["name"] in IO_JOBS:
        cpu_s = float(each["cpu"].removesuffix("s")) * DISK_BPS / 1e6 / drawn["disk_mbps"]
        each["cpu"] = f"{cpu_s}s"
    return {**job, "map": each}


MINI = Mini(fits=fits, claims=claims)

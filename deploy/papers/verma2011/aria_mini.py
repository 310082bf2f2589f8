"""The results of the policy ARIA on randomly drawn machines that match the paper.

A job's profile has the durations of its phases. Machines match if the profile measured on them is close to
the one from which ARIA computes the numbers of slots in Figure 5's table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn
from schedbed.deploy.papers.verma2011.fig5_bounds import (
    SLOS_S,
    SLOTS,
    job,
    jobs_by_bound,
    profile_values,
    scenario,
)
from schedbed.deploy.papers.verma2011.fixed_slots import SPEC
from schedbed.deploy.papers.verma2011.wikitrends_profiles import profile_of
from schedbed.scheduler.models.aria_bounds import BOUNDS
from schedbed.scheduler.models.job_profile import JobProfile


def fits(bench: Bench, drawn: Drawn) -> Iterator[tuple[str, float]]:
    """Yield the values that must match the paper: the durations in the job's profile in s.

    Each item is a pair of key and number.
    """
    for key, (value,) in profile_values([_profile(bench, drawn)]).items():
        yield key, value


def claims(bench: Bench, drawn: Drawn) -> Mapping[str, float]:
    """Return our values for the claims on a drawn machine, as a dictionary from EXPERIMENT/VALUE to number.

    With slots from the average bound of the policy ARIA's model, the value is the largest distance of a job's
    end from its deadline in percent. With slots from the lower or the upper bound, it is the number of late
    jobs.
    """
    jobs = jobs_by_bound(_profile(bench, drawn), _job(drawn), SLOTS, BOUNDS)
    ratios = [
        job.took_s / ((job.deadline_s or 0.0) - job.submit_s)
        for job in bench.times("bounds", _scenario(drawn, jobs, SPEC))
    ]
    took = {
        bound: ratios[number * len(SLOS_S) : (number + 1) * len(SLOS_S)]
        for number, bound in enumerate(BOUNDS)
    }
    return {
        "fig5/avg_off": 100 * max(abs(ratio - 1) for ratio in took["avg"]),
        "fig5/low_missed": float(sum(ratio > 1 for ratio in took["low"])),
        "fig5/up_missed": float(sum(ratio > 1 for ratio in took["up"])),
    }


def _profile(bench: Bench, drawn: Drawn) -> JobProfile:
    """Return the profile of the job, measured in a run without other jobs. The bench runs it only once."""
    alone = bench.run("alone", _scenario(drawn, [_job(drawn)], "fifo"))
    return profile_of(alone.of("fifo"), "job_0001")


def _job(drawn: Drawn) -> dict[str, Any]:
    made = job(live=False)
    return {**made, "map": {**made["map"], "variance": drawn["variance"]}}


def _scenario(drawn: Drawn, jobs: Sequence[Any], policy: str) -> dict[str, Any]:
    asked = scenario(list(jobs), [policy], live=False)
    node = {
        **asked["cluster"]["node"],
        "disk": {"rate": f"{drawn['disk_mbps']:.3f}MB/s", "seek": drawn["seek"]},
        "network": f"{drawn['network_mbitps']:.3f}Mbit/s",
    }
    costs = {"hadoop1": {"jvm": f"{drawn['start_s']}s"}}
    return {**asked, "cluster": {**asked["cluster"], "node": node}, "framework": costs}


MINI = Mini(fits=fits, claims=claims)

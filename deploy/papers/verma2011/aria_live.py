"""The main result of Figure 5, live: a job runs with the slots of the average bound for each deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench, Played
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment, simulating
from schedbed.deploy.papers.verma2011.fig5_bounds import (
    SLOTS,
    completion_ratios,
    job,
    jobs_by_bound,
    scenario,
)
from schedbed.deploy.papers.verma2011.fixed_slots import SPEC
from schedbed.deploy.papers.verma2011.wikitrends_profiles import profile_of
from schedbed.scheduler.models.job_profile import JobProfile


def measure(bench: Bench) -> Measured:
    """Measure the time left at the deadlines, live and simulated.

    The job's profile is that of a simulated run alone on the same nodes.
    """
    alone = simulating(bench).play("alone", scenario([job(live=True)], ["fifo"], live=True), repeats=1)
    profile = profile_of(alone.of("fifo"), "job_0001").at_scale(1 / alone.run.scenario["scale"])
    return compare(bench, "headline", plan(profile), left)


def plan(profile: JobProfile) -> Mapping[str, Any]:
    """Return the live scenario of Figure 5 with the average bound only."""
    jobs = jobs_by_bound(profile, job(live=True), SLOTS // 2, ("avg",))
    return scenario(jobs, [SPEC], live=True)


def left(played: Played) -> Sequence[float]:
    """Return the mean percentage of the deadline that is left at the job's end, one number per repeat."""
    return [100 * (1 - fmean(completion_ratios(run))) for run in played.each(played.policies[0])]


EXPERIMENT = live_experiment(measure, 480)

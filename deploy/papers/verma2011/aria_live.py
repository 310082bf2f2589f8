"""Figure 5's main result in live runs: a job runs with the slots that the policy ARIA computes.

ARIA computes the slots that a job needs to meet its deadline, here from the average bound of its model of
completion times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment, simulating
from schedbed.deploy.papers.verma2011.fig5_bounds import (
    SLOTS,
    SPEC,
    completion_ratios,
    job,
    jobs_by_bound,
    scenario,
)
from schedbed.deploy.papers.verma2011.wikitrends_profiles import profile_of
from schedbed.scheduler.models.job_profile import JobProfile


def measure(bench: Bench) -> Measured:
    """Measure how much time is left before the deadline when a job ends, live and simulated.

    The job's profile is measured in a simulated run in which the job is alone on the same nodes.
    """
    alone = simulating(bench).run("alone", scenario([job(live=True)], ["fifo"], live=True), repeats=1)
    profile = profile_of(alone.of("fifo"), "job_0001").at_scale(1 / alone.run.scenario["scale"])
    return compare(bench, "headline", plan(profile), left)


def plan(profile: JobProfile) -> Mapping[str, Any]:
    """Return the live scenario of Figure 5: a copy of the job for each deadline, with the slots it needs.

    The slots are computed from the job's profile with the average bound of the policy ARIA's model.
    """
    jobs = jobs_by_bound(profile, job(live=True), SLOTS // 2, ("avg",))
    return scenario(jobs, [SPEC], live=True)


def left(finished: FinishedRun) -> Sequence[float]:
    """Return how long before their deadlines jobs end on average, in percent of the deadline.

    The result has one number per repeat.
    """
    return [100 * (1 - fmean(completion_ratios(run))) for run in finished.each(finished.policies[0])]


EXPERIMENT = live_experiment(measure, 400)

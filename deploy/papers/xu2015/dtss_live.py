"""The main result of Figure 12 in live runs: ten jobs under delay scheduling and under DTSS with P=0.25.

The policy DTSS splits maps without local input into two parts. P is the share of the first part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment
from schedbed.deploy.papers.xu2015.twenty_jobs import DELAY, FITTED, QUARTER, jobs, scenario
from schedbed.deploy.results.metrics import makespan

JOBS = 10


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy DTSS reduces the users' makespans, live and simulated.

    Live runs and simulations have the same jobs.
    """
    return compare(bench, "headline", plan(bench.seed), gain)


def plan(seed: int) -> Mapping[str, Any]:
    """Return the live scenario of Figure 12 with ten random jobs drawn from the seed.

    Live attempts start at once, so the CPU time of each task contains the time that Hadoop takes for a start.
    """
    return scenario(jobs(seed, 0, cpu_s=FITTED.start_s)[:JOBS], [DELAY, QUARTER], layout="skewed", live=True)


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return the mean percentage by which the policy DTSS reduces the users' makespans, for each repeat."""
    found: list[float] = []
    for pair in zip(*(finished.each(policy) for policy in finished.policies), strict=True):
        delay_s, quarter_s = (makespan(run.jobs)["per_user"] for run in pair)
        found.append(fmean(100 * (1 - quarter_s[user] / delay_s[user]) for user in delay_s))
    return found


EXPERIMENT = live_experiment(measure, 240)

"""Figure 4's main result in live runs: two jobs of 3 GB each under the policies Capacity and CSLA.

The jobs are WordCount and Sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.lakshmi2019.two_jobs import SHARED, gains, groups_of, makespans, scenario
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment

PAIR = ("wc", "sort")
SIZE_GB = 3


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy CSLA reduces the two jobs' makespan, live and simulated."""
    return compare(bench, "headline", plan(), gain)


def plan(size_gb: float = SIZE_GB) -> Mapping[str, Any]:
    """Return the live scenario, in which WordCount and Sort, of `size_gb` GB each, run in one queue."""
    return scenario(groups_of([PAIR], size_gb, SHARED), live=True, user_limit_factor=2)


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the two jobs' makespan is shorter under the policy CSLA than under Capacity.

    The result has one number per repeat.
    """
    (found,) = gains(makespans(finished, 1))
    return found


EXPERIMENT = live_experiment(measure, 580)

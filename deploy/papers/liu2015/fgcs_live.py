"""Figure 4's main result in live runs: the jobs Pi and TeraGen together, under YARN's policy and under FGCS.

YARN assigns virtual cores (vcores) to tasks, and FGCS the CPU demands that it measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.liu2015.eight_tests import MIXES, YARN, demands, jobs_of, samples, scenario
from schedbed.deploy.papers.liu2015.mixes import lengths
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment, simulating

TEST, JOB = "pi-teragen", "pi"
SCALE = 0.1
STRETCH = 2  # starts of tasks alone keep two cores busy for half of the time


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy FGCS reduces the time of the job Pi, live and simulated.

    FGCS uses CPU demands that were measured in simulated samples on the same nodes.
    """
    found = demands(samples(simulating(bench), live=True))
    return compare(bench, "headline", plan(found), gain)


def plan(profiles: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the live scenario with the jobs Pi and TeraGen.

    `profiles` are the CPU demands that the policy FGCS uses, by job name.
    """
    (mix,) = (each for each in MIXES if each.name == TEST)
    policies = [YARN, {"fgcs": {"profiles": profiles}}]
    return {**scenario(jobs_of(mix, live=True), policies, live=True), "scale": SCALE, "stretch": STRETCH}


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the time of the job Pi is shorter under FGCS than under YARN's policy.

    The result has one number per repeat.
    """
    scale = finished.run.scenario["scale"]
    pairs = zip(*(finished.each(policy) for policy in finished.policies), strict=True)
    return [100 * (1 - lengths(fgcs, scale)[JOB] / lengths(yarn, scale)[JOB]) for yarn, fgcs in pairs]


EXPERIMENT = live_experiment(measure, 420)

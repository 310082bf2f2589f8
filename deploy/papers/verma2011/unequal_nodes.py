"""Slow and failing nodes (section 8): what recomputing the slots gives, for the job of Figure 5.

The paper says that the policy compensates slower nodes by adding slots, and leaves failures to later work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import accumulate
from statistics import fmean
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, by_repeat
from schedbed.deploy.papers.figures import draw_values
from schedbed.deploy.papers.verma2011.slo_slots import (
    APART_S,
    SLOS_S,
    SLOTS,
    SPEC,
    completion_ratios,
    job,
    jobs_by_bound,
    profile_of,
    scenario,
    slots_of,
)
from schedbed.deploy.results.metrics import RunTables
from schedbed.scheduler.models.job_profile import JobProfile
from schedbed.tasks.specs import NodeId

SLOW, OTHER_WORK = 16, 0.875
"""A quarter of the 64 nodes loses so much of its four cores to other work that a map alone runs at half the speed."""
LOST, LOST_S, BACK_S = 8, 100, 400
"""This many nodes fail this long after each submission, and are back for the next job."""
USER = "verma"
CONDITIONS = ("equal", "slow", "lost")
POLICIES = ("aria", "fixed")


def nodes(bench: Bench) -> Measured:
    """Run the job for each of Figure 5's deadlines on equal, on partly slow and on failing nodes.

    Slots are recomputed on each task's end (ARIA), or stay as computed at the submission. Both have the profile of
    the job alone on equal nodes.
    """
    alone = bench.run("fig5-alone", scenario([job(live=False)], ["fifo"], live=False))
    profile = reduce(JobProfile.merged, [profile_of(run, "job_0001") for run in alone.each("fifo")])
    found: dict[str, list[float]] = {}
    for condition in CONDITIONS:
        finished = bench.run(f"nodes-{condition}", _on(condition, profile))
        for name, policy in zip(POLICIES, finished.policies, strict=True):
            for key, values in by_repeat(map(_figures, finished.each(policy))).items():
                found[f"{condition}_{name}_{key}"] = values
        found[f"{condition}_more"] = _more(finished)
    return Measured(values=found)


def _on(condition: str, profile: JobProfile) -> dict[str, Any]:
    jobs = [{**each, "user": USER} for each in jobs_by_bound(profile, job(live=False), SLOTS, ("avg",))]
    known = {f"{USER}/{each['name']}": profile.to_json() for each in jobs}
    made = scenario(jobs, [{"aria": {"profiles": known, "spare": "none"}}, SPEC], live=False)
    if condition == "slow":
        groups = [{"count": SLOTS - SLOW}, {"count": SLOW, "foreground": OTHER_WORK}]
        made["cluster"] = {**made["cluster"], "nodes": groups}
    if condition == "lost":
        made["faults"] = [
            {"at": f"{APART_S * number + LOST_S}s", "kill": node, "for": f"{BACK_S}s"}
            for number in range(len(SLOS_S))
            for node in _lost(number)
        ]
    return made


def _lost(number: int) -> list[NodeId]:
    """Return the nodes that fail during the job with this number: of one rack, so that each block has a replica."""
    return [f"n{1 + 2 * ((LOST * number + place) % (SLOTS // 2))}" for place in range(LOST)]


def _figures(run: RunTables) -> Mapping[str, float]:
    ratios = completion_ratios(run)
    return {"late": sum(ratio > 1 for ratio in ratios), "worst": 100 * (max(ratios) - 1)}


def _more(finished: FinishedRun) -> list[float]:
    """Return how many more maps ran at a time under ARIA than it first asked slots for, as the mean of the jobs."""
    found: list[float] = []
    for run in finished.each(finished.policies[0]):
        above: list[float] = []
        for each in run.jobs.itertuples():
            maps = run.attempts[(run.attempts["job"] == each.job) & (run.attempts["kind"] == "map")]
            steps = sorted([(at, 1) for at in maps["assigned"]] + [(at, -1) for at in maps["end"]])
            most = max(accumulate(step for _, step in steps))
            above.append(most - slots_of(str(each.name))[0])
        found.append(fmean(above))
    return found


EXPERIMENTS = (Experiment("nodes", nodes, draw_values, {"sim": 340}, sim_repeats=FEW_REPEATS),)

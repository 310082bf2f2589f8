"""The scenario setting `profiles: {learn: true}`, which stores measurements of a run's jobs for later runs.

Three policies use them: ARIA uses durations of phases, FGCS uses CPU demand, and RAS uses resource use. The
measurements come from the attempts alone, so the policy of the run does not matter. Failed runs are ignored.
New phase durations are averaged with earlier ones (paper verma2011, section 2.2). CPU demand and resources of
a workload are stored once and stay until they are cleared (liu2015, section 2.2.1). In contrast, the command
`schedbed profile` measures a job that runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from schedbed.deploy.results.measured_profiles import SHORTEST_S, demands, phase_profile, resource_profile
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.scheduler.admission.fgcs import DEMAND
from schedbed.scheduler.history import read_tables
from schedbed.scheduler.models.job_profile import JobProfile
from schedbed.scheduler.models.resource_profiles import RESOURCES
from schedbed.scheduler.models.same_workload import workload_of
from schedbed.scheduler.policies.aria import PROFILES as PHASES
from schedbed.scheduler.policies.aria import profile_name
from schedbed.scheduler.profiles import ProfileStore, named_store
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import PlannedJob


def learn(folder: Path, record: RunFile, scenario: ResolvedScenario) -> list[str]:
    """Measure the jobs of a run's successful repeats, and add the values to the scenario's profile store.

    `folder` contains the run's tables. Return the names of the workloads that received new values.
    """
    store = ProfileStore(named_store(scenario.profiles.store))
    done = [run for run in record.runs if run.state == "succeeded"]
    if not done:
        return []
    tables, learnt = read_tables(folder), {}
    for run in done:
        finished = select(tables, record.nodes, run.policy, run.repeat)
        for job, own in _jobs(scenario, finished):
            learnt |= dict.fromkeys(_keep(store, scenario, job, own))
    return sorted(learnt)


def _jobs(scenario: ResolvedScenario, run: RunTables) -> Iterator[tuple[PlannedJob, RunTables]]:
    """Yield each job that has attempts, together with tables in which only that job's attempts are left."""
    by_job = dict(tuple(run.attempts.groupby("job", sort=False)))
    for job in scenario.jobs:
        attempts = by_job.get(job.job)
        if attempts is not None:
            yield job, replace(run, tables={**run.tables, "attempts": attempts})


def _keep(store: ProfileStore, scenario: ResolvedScenario, job: PlannedJob, run: RunTables) -> Iterator[str]:
    """Store the phase durations, CPU demand and resource use of one job.

    Yield the name of the job's workload once for each kind of value that was stored.
    """
    scale, workload = scenario.scale, workload_of(job)
    nodes = {node.node: node for node in scenario.cluster.nodes}
    whole = not run.attempts["split_of"].astype(bool).any()
    if whole:  # The parts of split maps say little about whole maps.
        known, name = store.load(PHASES, profile_name(job)), profile_name(job)
        phases = phase_profile(run, scale)
        store.save(PHASES, name, (JobProfile.from_json(known).merged(phases) if known else phases).to_json())
        yield workload
    found = demands(run, job, nodes, SHORTEST_S * scale)
    if store.save(DEMAND, workload, found.to_values(), overwrite=False):
        yield workload
    try:
        resources = resource_profile(
            run, job, nodes, replication=scenario.cluster.blocks.replication, scale=scale, alone=False
        )
    except BadInput:
        return  # The maps took no time.
    if whole and store.save(RESOURCES, workload, resources.to_values(), overwrite=False):
        yield workload

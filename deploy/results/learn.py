"""The setting `profiles: {learn: true}`: measurements of a run's jobs are kept in the profile store for later
runs.

Runs under any policy count, since the values come from the attempts alone: phases for ARIA, the CPU demand
for FGCS, resources for RAS. Only successful runs count, so failed jobs leave no profile. Phases are averaged
with those of earlier runs (verma2011 2.2). The first CPU demand and the first resources of a workload stay
until they are cleared (liu2015 2.2.1). `schedbed profile` measures resources of a job that runs alone, not
slowed down by other jobs.
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
    """Add the measurements to the scenario's profile store.

    Return the names of the workloads with new values.
    """
    store = ProfileStore(named_store(scenario.profiles.store))
    done = [run for run in record.runs if run.state == "succeeded"]
    if not done:
        return []
    tables, learnt = read_tables(folder), {}
    for run in done:
        played = select(tables, record.nodes, run.policy, run.repeat)
        for job, own in _jobs(scenario, played):
            learnt |= dict.fromkeys(_keep(store, scenario, job, own))
    return sorted(learnt)


def _jobs(scenario: ResolvedScenario, run: RunTables) -> Iterator[tuple[PlannedJob, RunTables]]:
    """Yield the jobs that have attempts, each with tables that contain only its own attempts."""
    by_job = dict(tuple(run.attempts.groupby("job", sort=False)))
    for job in scenario.jobs:
        attempts = by_job.get(job.job)
        if attempts is not None:
            yield job, replace(run, tables={**run.tables, "attempts": attempts})


def _keep(store: ProfileStore, scenario: ResolvedScenario, job: PlannedJob, run: RunTables) -> Iterator[str]:
    """Store the measurements of one job of a run.

    Yield the job's workload for each kind of value that is stored.
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

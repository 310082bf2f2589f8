"""The scenario setting `profiles: {learn: true}`, which stores measurements of a run's jobs for later runs.

ARIA uses durations of phases, FGCS CPU demand, RAS resource use. They are measured in attempts alone, so the
policy of the run does not matter. Phase durations are averaged with earlier ones (verma2011, section 2.2).
The others are stored once and stay until cleared (liu2015, section 2.2.1). `schedbed profile`, in contrast,
measures a job that runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.scheduler.admission.fgcs import DEMAND, disk_name, hardware_of
from schedbed.scheduler.history import read_tables
from schedbed.scheduler.models.fgcs_demand import DemandMean, Demands, TaskUse, cpu_demand
from schedbed.scheduler.models.job_profile import JobProfile, Profiler
from schedbed.scheduler.models.resource_profiles import (
    FULL,
    PARALLEL_COPIES,
    RESOURCES,
    Amounts,
    ResourceProfile,
    rates_of,
)
from schedbed.scheduler.models.same_workload import workload_of
from schedbed.scheduler.policies.aria import PROFILES as PHASES
from schedbed.scheduler.policies.aria import profile_name
from schedbed.scheduler.profiles import ProfileStore, named_store
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Demand
from schedbed.tasks.workloads.planned import PlannedJob

if TYPE_CHECKING:
    import pandas as pd


def learn(folder: Path, record: RunFile, scenario: ResolvedScenario) -> list[str]:
    """Add measurements of a run's successful repeats to the profile store. Return the workloads with new values."""
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
    """Store one job's phases, CPU demand and resource use. Yield its workload for each kind stored."""
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


# Profiles of a job computed from a run's tables: resource use, CPU demand, and durations of phases.
#
# The paper polo2011 (section 3.6) divides the use of a whole node, measured by `vmstat`, by the node's
# slots. Here, each attempt measures its use, which gives the same values if the job runs alone. Only memory
# is measured for whole nodes.


def resource_profile(
    run: RunTables,
    job: PlannedJob,
    nodes: Mapping[str, NodeSpec],
    *,
    replication: int,
    scale: float,
    alone: bool = True,
) -> ResourceProfile:
    """Return the CPU, disk, memory and network that the job's tasks used, in percent of what the first of `nodes` has.

    `replication` is that of output blocks, and `scale` the scenario's factor on durations. If the job did not
    run `alone`, its declared memory is used, since nodes report the memory of all jobs together. Raises
    BadInput if its maps took no time.
    """
    first = next(iter(nodes.values()))
    reference = rates_of(first)
    done = _succeeded(run)
    maps, reduces = done[done["kind"] == "map"], done[done["kind"] == "reduce"]
    map_s = maps["end"] - maps["start"]
    if not map_s.sum() > 0:
        raise BadInput(f"{job.name}: its maps took no time, expected some that can be measured")
    copies = int(job.params.get("parallel_copies", PARALLEL_COPIES))
    core = round(FULL / first.cores, 2)  # An attempt uses one core at most, up to clock errors.
    # An attempt has one CPU counter, so a shuffle's CPU counts as the reduce's.
    fetch_s, reduce_s = reduces["shuffle_end"] - reduces["start"], reduces["end"] - reduces["shuffle_end"]
    fetch_io = _share(reduces["shuffle_bytes"] + reduces["spill_bytes"], fetch_s, reference.io)
    fetch_network = _share(reduces["shuffle_bytes"], fetch_s, reference.network)
    at_once = max(1, min(copies, job.maps))
    sent = 0 if job.reduces else replication - 1  # Copies of each output byte that go to other nodes.
    memory = _memory(run, job, reference, alone=alone)
    return ResourceProfile(
        map=Amounts(
            min(core, _share(maps["cpu_s"], map_s, reference.cpu)),
            _share(_disk_bytes(maps, not job.reduces, replication), map_s, reference.io),
            memory[0],
            _share(maps["read_remote_bytes"] + maps["output_bytes"] * sent, map_s, reference.network),
        ),
        shuffle=Amounts(0.0, round(fetch_io / at_once, 4), memory[1], round(fetch_network / at_once, 4)),
        reduce=Amounts(
            min(core, _share(reduces["cpu_s"], reduce_s, reference.cpu)),
            _share(reduces["output_bytes"] * replication, reduce_s, reference.io),
            memory[1],
            _share(reduces["output_bytes"] * (replication - 1), reduce_s, reference.network),
        ),
        parallel_copies=copies,
        map_s=float((maps["end"] - maps["assigned"]).mean()) / scale,
        node=reference,
    )


SHORTEST_S = 5.0
"""Shorter tasks (before the scenario's scale) give no CPU demand, as in the policy `fgcs`."""


def _share(used: pd.Series, took_s: pd.Series, rate: float) -> float:
    """Return the mean rate of use while the tasks ran, in percent of `rate`."""
    total_s = float(took_s.sum())
    return round(min(FULL, FULL * float(used.sum()) / total_s / rate), 2) if total_s > 0 else 0.0


def _disk_bytes(attempts: pd.DataFrame, writes_file: bool, replication: int) -> pd.Series:
    """Return the bytes that each attempt read from and wrote to the disks of all nodes.

    If it writes a file to the block store, each output byte counts once for each replica.
    """
    read = attempts["read_local_bytes"] + attempts["read_remote_bytes"]
    written = attempts["output_bytes"] * replication if writes_file else 0
    return read + attempts["spill_bytes"] + written


def _memory(run: RunTables, job: PlannedJob, reference: Amounts, *, alone: bool) -> tuple[float, float]:
    """Return the memory of a map and of a reduce, in percent of that in `reference`.

    They are fitted by least squares to heartbeats. If that fails or other jobs ran too, the declared memory
    is used.
    """
    from scipy.optimize import nnls

    heartbeats = run.heartbeats[
        (run.heartbeats["running_maps"] > 0) | (run.heartbeats["running_reduces"] > 0)
    ]
    running = heartbeats[["running_maps", "running_reduces"]].to_numpy(dtype=float)
    held = heartbeats["memory_bytes"].to_numpy(dtype=float)
    found = nnls(running, held)[0] if alone and len(heartbeats) else np.zeros(2)

    def percent(bytes_: float, declared: Demand) -> float:
        known = bytes_ if bytes_ > 0 else float(declared.memory_bytes)
        return round(min(FULL, FULL * known / reference.memory), 2)

    return percent(float(found[0]), job.map_demand), percent(float(found[1]), job.reduce_demand)


def _succeeded(run: RunTables) -> pd.DataFrame:
    return run.attempts[run.attempts["state"] == "succeeded"].sort_values("end", kind="stable")


def demands(run: RunTables, job: PlannedJob, nodes: Mapping[str, NodeSpec], shortest_s: float) -> Demands:
    """Return the CPU demand of the job's maps and reduces (liu2015, equations 2 and 3).

    Disk rates and core speeds are those declared. Tasks shorter than `shortest_s` are ignored.
    """
    means = {"map": DemandMean(), "reduce": DemandMean()}
    for row in _succeeded(run).itertuples():
        attempt: Any = row
        spec = nodes[attempt.node]
        writes_file = attempt.kind == "reduce" or not job.reduces
        use = TaskUse.of(attempt, core_speed=spec.core_speed, writes_file=writes_file)
        demand = cpu_demand(use, spec.disk_bps, spec.disk_bps)
        means[attempt.kind].add(demand, attempt.end - attempt.start)
    values = {kind: mean.value(shortest_s) for kind, mean in means.items()}
    return Demands(**values, hardware=hardware_of(next(iter(nodes.values()))))


def phase_profile(run: RunTables, scale: float) -> JobProfile:
    """Return the durations of the job's phases and the bytes processed (verma2011, section 2.2), in full size."""
    profiler = Profiler()
    for row in _succeeded(run).itertuples():
        attempt: Any = row
        if attempt.kind == "map":
            profiler.map_ended(attempt.assigned, attempt.end, attempt.length, attempt.output_bytes)
        else:
            sorted_s = next((t for t in (attempt.sort_end, attempt.shuffle_end) if t == t), None)
            profiler.reduce_ended(
                attempt.assigned, sorted_s, attempt.end, attempt.shuffle_bytes, attempt.output_bytes
            )
    profile = profiler.profile()
    assert profile is not None, "a job that succeeded has run maps"
    return profile.at_scale(1 / scale)


def measured_rates(run: RunTables, nodes: Mapping[str, NodeSpec]) -> dict[str, float]:
    """Return the mean rate, in bytes/s, at which maps moved data on each kind of disk, named by declared rate."""
    moved: dict[str, float] = {}
    took_s: dict[str, float] = {}
    for row in _succeeded(run).itertuples():
        attempt: Any = row
        if attempt.kind != "map":
            continue
        spec = nodes[attempt.node]
        use = TaskUse.of(attempt, core_speed=spec.core_speed, writes_file=not attempt.spill_bytes)
        disk = disk_name(spec)
        moved[disk] = moved.get(disk, 0.0) + use.local_bytes + use.hdfs_bytes
        took_s[disk] = took_s.get(disk, 0.0) + attempt.end - attempt.start
    return {disk: moved[disk] / took_s[disk] for disk in moved if took_s[disk] > 0}

"""Resolution of a scenario: the file is loaded, overrides are applied, and the data for a run is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedbed.cluster.spec import BlockSettings
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.scenario.check import Complaints, check, did_you_mean
from schedbed.deploy.scenario.cluster import resolve_cluster, tiny_rates
from schedbed.deploy.scenario.draw_models import GOES_WITH, Generated
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import TASKS_MAX, check_fits, plan_jobs
from schedbed.deploy.scenario.models import SOURCES, TRACE_KEYS, JobModel, Scenario
from schedbed.deploy.scenario.own_code import choices_in
from schedbed.deploy.scenario.planned_faults import resolve_faults
from schedbed.deploy.scenario.policies import (
    check_queues,
    check_rigid,
    check_sizes,
    check_speculation,
    resolve_changes,
    resolve_policies,
    resolve_profiles,
)
from schedbed.deploy.scenario.resolved import FORMAT, PolicyChoice, ResolvedScenario, SimulateChoice
from schedbed.deploy.scenario.scalars import AUTO
from schedbed.deploy.scenario.sections import framework_fault, framework_of
from schedbed.deploy.scenario.suites import suites
from schedbed.deploy.scenario.trace_jobs import Planned, SyntheticPlanner, assumptions
from schedbed.deploy.scenario.yaml_file import Document, apply_set, from_values, load_file
from schedbed.deploy.shipped import scenario_file
from schedbed.scheduler.core.snapshots import no_collections
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.models.aria_bounds import allocate, curve
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.trace import Trace, TraceJob
from schedbed.tasks.units import format_bytes
from schedbed.tasks.workloads.drawn import (
    Drawn,
    drawn_trace,
    heavy_tailed,
    isolated_s,
    poisson_arrivals,
    popular_inputs,
    task_seconds,
    threshold_arrivals,
    with_deadlines,
)
from schedbed.tasks.workloads.from_trace import SyntheticJob, synthesize
from schedbed.tasks.workloads.planned import PlannedJob

WORK = ("workload", "faults", "changes")  # keys that a cluster without jobs ignores
Source = str | Path | Mapping[str, Any] | Scenario | ResolvedScenario
"""A path, a shipped scenario's name, the values of a scenario file or of run.json's `scenario`, or such an object."""


def resolve(
    source: Source,
    *,
    sets: Sequence[str] = (),
    policies: Sequence[Any] | None = None,
    nodes: int | None = None,
    scale: float | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    base: Path | str | None = None,
    idle: bool = False,
) -> ResolvedScenario:
    """Return the resolved scenario, which contains all data that a run needs.

    Times and sizes are scaled, jobs planned, inputs divided into blocks. `sets` are overrides of the form
    KEY=VALUE; `policies`, `nodes`, `scale`, `repeats` and `seed` replace the key of that name. Relative paths
    start from `base`, by default the scenario file's folder, or the working folder. With `idle`, there are no
    jobs and faults. Raises BadInput with one line per error.
    """
    own = dict(choices_in(policies or ()))
    if policies is None and isinstance(source, ResolvedScenario):
        own = {index: choice for index, choice in enumerate(source.policies) if choice.make is not None}
    elif policies is not None:
        policies = [own[index].given if index in own else policy for index, policy in enumerate(policies)]
    options = {"policies": policies, "nodes": nodes, "scale": scale, "repeats": repeats, "seed": seed}
    overrides = {name: value for name, value in options.items() if value is not None}
    if isinstance(source, ResolvedScenario):
        if not sets and not overrides:
            return source
        source = source.to_json()
    if isinstance(source, Mapping) and source.get("format") == FORMAT:
        if not sets and not overrides:
            return ResolvedScenario.from_json(source)
        source, base = source["given"], base or source["base"]
    document, folder = _document(source, base)
    for setting in sets:
        apply_set(document, setting)
    _override(document, overrides)
    return _resolve(document, folder, idle, own)


def _document(source: Any, base: Path | str | None) -> tuple[Document, Path]:
    if isinstance(source, Scenario):
        source = source.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(source, Mapping):
        return from_values(source), Path(base or ".").resolve()
    path, folder = scenario_file(source)
    return load_file(path), Path(base or folder).resolve()


def _override(document: Document, overrides: Mapping[str, Any]) -> None:
    if not isinstance(document.value, dict):
        return
    for name, value in overrides.items():
        if name == "nodes":
            _override_nodes(document, value)
            continue
        document.value[name] = list(value) if name == "policies" else value
        document.mark((name,), "--policy" if name == "policies" else f"--{name} {value}")


def _override_nodes(document: Document, nodes: int) -> None:
    cluster = document.value.get("cluster") or {}
    if not isinstance(cluster, dict):
        return
    if isinstance(cluster.get("nodes"), list):
        raise BadInput(f"--nodes {nodes}: cluster.nodes is a list of groups, set a group's count instead")
    document.value["cluster"] = {**cluster, "nodes": nodes}
    document.mark(("cluster", "nodes"), f"--nodes {nodes}")


def _resolve(document: Document, base: Path, idle: bool, own: Mapping[int, PolicyChoice]) -> ResolvedScenario:
    if idle and isinstance(document.value, dict):
        document.value = {key: value for key, value in document.value.items() if key not in WORK}
    scenario = check(document)
    complaints = Complaints(document)
    cluster = resolve_cluster(scenario, base, complaints)
    faults = resolve_faults(scenario, cluster, complaints)
    profiles = resolve_profiles(scenario.profiles, base, complaints)
    beside = None if ("policies",) in document.sets else base
    policies = resolve_policies(scenario.policies, complaints, profiles.store, base=beside, own=own)
    changes = resolve_changes(scenario.changes, policies, scenario.scale, complaints)
    check_speculation(scenario.speculation, complaints)
    sizes = check_sizes(scenario.sizes, complaints)
    if fault := framework_fault(framework_of(scenario.framework)):
        complaints.add(("framework",), fault)
    if scenario.framework != "none" and any(fault.kind == "crash_jobtracker" for fault in faults):
        complaints.add(
            ("framework",), "not with a crash of the JobTracker, which forgets jobs in their set-up"
        )
    complaints.raise_if_any()
    inputs = JobInputs(scenario, cluster, base, complaints)
    with no_collections():
        jobs, warnings, record = Planned() if idle else _plan(scenario, inputs)
    framework = _with_masters(framework_of(scenario.framework), inputs)
    check_rigid(policies, jobs, cluster, ("workload",), complaints)
    check_queues(policies, jobs, ("workload",), complaints)
    complaints.raise_if_any()
    return ResolvedScenario(
        name=scenario.name or _stem(document.name),
        seed=scenario.seed,
        scale=scenario.scale,
        repeats=scenario.repeats,
        cluster=cluster if isinstance(scenario.stretch, str) else replace(cluster, stretch=scenario.stretch),
        auto_stretch=scenario.stretch == AUTO,
        jobs=jobs,
        # Programs come last, so that they do not change the placement of the jobs' inputs.
        inputs=tuple(sorted(inputs.files.values(), key=lambda file: file.is_program)),
        policies=policies,
        faults=faults,
        changes=changes,
        speculation=scenario.speculation,
        sizes=sizes,
        dynamic_blocks=_dynamic(cluster.blocks),
        profiles=profiles,
        simulate=_simulate(scenario, jobs, complaints),
        framework=framework,
        measure=_measure(scenario, jobs, complaints),
        record=record,
        warnings=(*warnings, *tiny_rates(cluster)),
        given=document.value,
        base=str(base),
    )


def _with_masters(framework: Framework, inputs: JobInputs) -> Framework:
    """Return the framework with the memory of ApplicationMasters, which is by default at most that of a task.

    Errors are added to the complaints of `inputs`.
    """
    add, master, given = inputs.complaints.add, framework.master, inputs.scenario.framework
    if master is None:
        models = (inputs.scenario.workload and inputs.scenario.workload.jobs) or ()
        used = {
            "running_map_limit": any(job.running_map_limit for job in models),
            "uber": any(job.uber for job in models),
        }
        for key, is_used in used.items():
            if is_used:
                add(("workload", "jobs"), f"{key} needs ApplicationMasters, expected framework: yarn")
        return framework
    if isinstance(given, str) or all(costs.am_memory is None for costs in given.given.values()):
        memory_bytes = min(master.memory_bytes, inputs.memory_share_bytes)
        framework = replace(framework, am_memory_bytes=memory_bytes)
    elif not any(
        master.memory_bytes <= node.memory_bytes and master.vcores <= node.cores
        for node in inputs.cluster.nodes
    ):
        asked = f"{format_bytes(master.memory_bytes)} and {master.vcores} vcores"
        add(("framework",), f"an ApplicationMaster of {asked} fits no node")
    return framework


def _dynamic(blocks: BlockSettings) -> str:
    """Return the scheme that creates replicas while jobs run, such as `dare`, or `none`."""
    if blocks.replicas is not None:
        return blocks.replicas.scheme
    return "dare" if blocks.keep_share else "none"


def _plan(scenario: Scenario, inputs: JobInputs) -> Planned:
    workload = scenario.workload
    if workload is None:
        inputs.complaints.add(("workload",), "missing")
        return Planned()
    if workload.trace is not None:
        from schedbed.deploy.scenario.trace_jobs import plan_trace

        return plan_trace(workload, inputs)
    source = next(name for name in SOURCES if getattr(workload, name) is not None)
    for key in TRACE_KEYS:
        if key in workload.model_fields_set and not (workload.generate is not None and key in GOES_WITH):
            inputs.complaints.add(("workload", key), f"only goes with trace: FILE, not with {source}")
    if workload.generate is not None:
        return plan_generated(workload.generate, inputs)
    jobs = workload.jobs or _suite(str(workload.suite), inputs.complaints)
    return Planned(plan_jobs(jobs, inputs, ("workload", source)))


def _suite(name: str, complaints: Complaints) -> Sequence[JobModel]:
    known = suites()
    if name in known:
        return known[name].jobs
    complaints.add(("workload", "suite"), f"unknown suite {name!r}, {did_you_mean(name, known)}")
    return ()


def _simulate(scenario: Scenario, jobs: tuple[PlannedJob, ...], complaints: Complaints) -> SimulateChoice:
    """Return the simulator's settings with defaults filled in.

    By default, jobs with durations from a trace keep these; in others, a node's tasks share CPU, disk and
    network.
    """
    asked = scenario.simulate
    timed = any(cost.duration_s is not None for job in jobs for cost in (*job.map_costs, *job.reduce_costs))
    costs = asked.costs or ("trace" if timed else "specification")
    if costs == "trace" and not timed:
        complaints.add(("simulate", "costs"), "trace needs a workload from a trace that timed its attempts")
        complaints.raise_if_any()
    contention = costs != "trace" if asked.contention is None else asked.contention
    if framework_of(scenario.framework).fetch_rate and not contention:
        complaints.add(("framework",), "fetch_rate needs attempts that contend: simulate: {contention: true}")
        complaints.raise_if_any()
    return SimulateChoice(
        costs=costs,
        contention=contention,
        seek=asked.seek,
        straggler_share=asked.stragglers.share,
        straggler_factor=asked.stragglers.factor,
        engine=asked.engine,
    )


def _measure(
    scenario: Scenario, jobs: tuple[PlannedJob, ...], complaints: Complaints
) -> Mapping[str, float | None] | None:
    asked = scenario.measure
    if asked is None:
        return None
    until_s = None if asked.until is None else asked.until * scenario.scale
    window = {"from_s": asked.from_ * scenario.scale, "until_s": until_s}
    counts = Window.of(window)
    if jobs and counts is not None and not any(job.after or counts.holds(job.submit_s) for job in jobs):
        complaints.add(("measure",), f"none of the {len(jobs)} jobs is submitted in it")
        complaints.raise_if_any()
    return window


def _stem(name: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(name).stem)
    return plain.strip("-") or "scenario"


# Planning of the jobs of `workload: {generate: ...}`, which are drawn at random from the scenario's seed.
#
# Sizes are drawn first and then multiplied by the scenario's factor `scale`. The work of a task is computed
# from its bytes, as for a trace that has only the total sizes of jobs (`tasks.workloads.from_trace`). The
# keys block, cpu_rate, reduce_bytes and limit_bytes of `workload` set the factors of this computation.


def plan_generated(asked: Generated, inputs: JobInputs) -> Planned:
    """Return the drawn jobs (`workload.generate`) by submission.

    There are none after an error, which is added to `inputs.complaints`.
    """
    workload = inputs.scenario.workload
    assert workload is not None
    seed = inputs.scenario.seed if asked.seed is None else asked.seed
    try:
        trace, files = _drawn(asked, seed)
        made, warnings = synthesize(trace, trace.jobs, assumptions(workload, inputs))
        made = _timed(made, asked, seed, inputs)
    except BadInput as error:
        inputs.complaints.add(("workload", "generate"), str(error))
        return Planned()
    if sum(len(job.maps) + len(job.reduces) for job in made) > TASKS_MAX:
        inputs.complaints.add(("workload", "generate"), f"more than {TASKS_MAX:,} tasks, ask for less")
        return Planned()
    paths: dict[int, str | None] = {}
    planner, planned = SyntheticPlanner(inputs), list[PlannedJob]()
    for number, (job, file) in enumerate(zip(made, files, strict=True), start=1):
        planned.append(planner.plan(f"job_{number:04d}", job, shared=paths.get(file)))
        paths.setdefault(file, planned[-1].input)
    check_fits(planned[0], ("workload", "generate"), inputs)
    return Planned(tuple(planned), tuple(warnings))


def _drawn(asked: Generated, seed: int) -> tuple[Trace, Sequence[int]]:
    """Return a trace of jobs drawn at random, and each job's input file by number.

    It has the bytes of jobs, not of tasks. Submit times that depend on the load are placeholders for
    `_timed`.
    """
    trace = drawn_trace(
        Drawn(
            jobs=asked.jobs,
            mean_gap_s=_gap_s(asked),
            least_bytes=asked.input.least,
            most_bytes=asked.input.most,
            shape=asked.input.shape,
            shuffle=asked.shuffle,
            output=asked.output,
            users=asked.users,
            seed=seed,
        )
    )
    if asked.files is None:
        return trace, range(asked.jobs)
    tail, count = asked.input, asked.files.count
    sizes = heavy_tailed(count, tail.shape, tail.least, tail.most, seed)
    files = popular_inputs(asked.jobs, count, asked.files.exponent, seed)
    jobs = tuple(_reading(job, sizes[file], asked) for job, file in zip(trace.jobs, files, strict=True))
    return replace(trace, jobs=jobs), files


def _gap_s(asked: Generated) -> float:
    """Return the mean time in s between submissions, 1 s if `_timed` will replace them."""
    poisson = None if asked.arrivals is None else asked.arrivals.poisson
    return 1.0 if poisson is None else poisson


def _reading(job: TraceJob, size: float, asked: Generated) -> TraceJob:
    return replace(
        job,
        input_bytes=round(size),
        shuffle_bytes=round(size * asked.shuffle),
        output_bytes=round(size * asked.output),
    )


def _timed(
    jobs: Sequence[SyntheticJob], asked: Generated, seed: int, inputs: JobInputs
) -> Sequence[SyntheticJob]:
    """Return the jobs with the deadlines and load-dependent submit times that `workload.generate` requests."""
    nodes = inputs.cluster.nodes
    slots = (max(1, sum(n.map_slots for n in nodes)), max(1, sum(n.reduce_slots for n in nodes)))
    io_rate = min(node.disk_bps for node in nodes)
    alone_s = [isolated_s(job, *slots, io_rate) for job in jobs]
    if asked.deadline is not None:
        jobs = with_deadlines(jobs, alone_s, seed, asked.deadline.least, asked.deadline.most)
    if asked.load is not None:
        gap_s = _gap_of_load(jobs, asked.load, slots, io_rate)
        return _submitted(jobs, poisson_arrivals(len(jobs), gap_s, seed))
    if asked.arrivals is None or asked.arrivals.threshold is None:
        return jobs
    lasts_s = [
        time_s if job.deadline_s is None else job.deadline_s
        for job, time_s in zip(jobs, alone_s, strict=True)
    ]
    loads = [_load(job, time_s, slots, io_rate) for job, time_s in zip(jobs, lasts_s, strict=True)]
    times_s = threshold_arrivals(list(zip(loads, lasts_s, strict=True)), asked.arrivals.threshold)
    return _submitted(jobs, times_s)


def _submitted(jobs: Sequence[SyntheticJob], times_s: Sequence[float]) -> Sequence[SyntheticJob]:
    return [replace(job, submit_s=submit_s) for job, submit_s in zip(jobs, times_s, strict=True)]


def _gap_of_load(jobs: Sequence[SyntheticJob], load: float, slots: tuple[int, int], io_rate: float) -> float:
    """Return the mean gap in s with which jobs keep the share `load` of slots busy, the larger of both kinds."""
    seconds = [0.0, 0.0]
    for job in jobs:
        for kind, lasts_s in enumerate(task_seconds(job, io_rate)):
            seconds[kind] += sum(lasts_s)
    return max(total / len(jobs) / count for total, count in zip(seconds, slots, strict=True)) / load


def _load(job: SyntheticJob, time_s: float, slots: tuple[int, int], io_rate: float) -> float:
    """Return the least share of slots with which the job completes in `time_s` seconds.

    It follows from ARIA's performance model (verma2011, section 7.2). `slots` are the numbers for map and
    reduce.
    """
    maps, reduces = (
        Times(sum(each) / len(each), max(each)) if each else Times() for each in task_seconds(job, io_rate)
    )
    model = curve(JobProfile(map=maps, reduce=reduces), len(job.maps), len(job.reduces))
    least = allocate(model, time_s, min(slots[0], len(job.maps)), min(slots[1], len(job.reduces)))
    return (least.maps + least.reduces) / sum(slots)

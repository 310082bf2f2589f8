"""Resolution of a scenario: the file is loaded, overrides are applied, and the data for a run is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedbed.cluster.spec import BlockSettings
from schedbed.deploy.no_collections import no_collections
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.scenario.check import Complaints, check, did_you_mean
from schedbed.deploy.scenario.cluster import resolve_cluster, tiny_rates
from schedbed.deploy.scenario.draw_models import GOES_WITH
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import plan_jobs
from schedbed.deploy.scenario.models import SOURCES, TRACE_KEYS, JobModel, Scenario
from schedbed.deploy.scenario.own_policies import own_choices
from schedbed.deploy.scenario.planned_faults import resolve_faults
from schedbed.deploy.scenario.policies import (
    check_sizes,
    check_speculation,
    resolve_policies,
    resolve_profiles,
)
from schedbed.deploy.scenario.resolved import FORMAT, PolicyChoice, ResolvedScenario, SimulateChoice
from schedbed.deploy.scenario.scalars import AUTO
from schedbed.deploy.scenario.sections.framework_section import framework_of
from schedbed.deploy.scenario.suites import suites
from schedbed.deploy.scenario.yaml_file import Document, apply_set, from_values, load_file
from schedbed.deploy.shipped import scenario_file
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import PlannedJob

WORK = ("workload", "faults")  # keys that a cluster without jobs ignores
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

    Times and sizes are multiplied by `scale`, jobs are planned, and inputs are divided into blocks. `sets`
    are overrides of the form KEY=VALUE; `policies`, `nodes`, `scale`, `repeats` and `seed` replace the
    scenario's key of the same name. Relative paths start from the folder `base`. Its default is the folder of
    the scenario file, or the working folder if there is no file. With `idle`, the scenario has no jobs and no
    faults. Raises BadInput with one line per error in the file.
    """
    own = own_choices(policies or ())
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
    check_speculation(scenario.speculation, complaints)
    sizes = check_sizes(scenario.sizes, complaints)
    if scenario.framework != "none" and any(fault.kind == "crash_jobtracker" for fault in faults):
        complaints.add(
            ("framework",), "not with a crash of the JobTracker, which forgets jobs in their set-up"
        )
    complaints.raise_if_any()
    inputs = JobInputs(scenario, cluster, base, complaints)
    with no_collections():
        jobs, warnings = ((), ()) if idle else _plan(scenario, inputs)
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
        speculation=scenario.speculation,
        sizes=sizes,
        dynamic_blocks=_dynamic(cluster.blocks),
        profiles=profiles,
        simulate=_simulate(scenario, jobs, complaints),
        framework=framework_of(scenario.framework),
        measure=_measure(scenario, jobs, complaints),
        warnings=(*warnings, *tiny_rates(cluster)),
        given=document.value,
        base=str(base),
    )


def _dynamic(blocks: BlockSettings) -> str:
    """Return the name of the scheme that creates replicas while jobs run, such as `dare`, or else `none`."""
    if blocks.replicas is not None:
        return blocks.replicas.scheme
    return "dare" if blocks.keep_share else "none"


def _plan(scenario: Scenario, inputs: JobInputs) -> tuple[tuple[PlannedJob, ...], tuple[str, ...]]:
    workload = scenario.workload
    if workload is None:
        inputs.complaints.add(("workload",), "missing")
        return (), ()
    if workload.trace is not None:
        from schedbed.deploy.scenario.trace_jobs import plan_trace

        return plan_trace(workload, inputs)
    source = next(name for name in SOURCES if getattr(workload, name) is not None)
    for key in TRACE_KEYS:
        if key in workload.model_fields_set and not (workload.generate is not None and key in GOES_WITH):
            inputs.complaints.add(("workload", key), f"only goes with trace: FILE, not with {source}")
    if workload.generate is not None:
        from schedbed.deploy.scenario.draw_jobs import plan_generated

        return plan_generated(workload.generate, inputs)
    jobs = workload.jobs or _suite(str(workload.suite), inputs.complaints)
    return plan_jobs(jobs, inputs, ("workload", source)), ()


def _suite(name: str, complaints: Complaints) -> Sequence[JobModel]:
    known = suites()
    if name in known:
        return known[name].jobs
    complaints.add(("workload", "suite"), f"unknown suite {name!r}, {did_you_mean(name, known)}")
    return ()


def _simulate(scenario: Scenario, jobs: tuple[PlannedJob, ...], complaints: Complaints) -> SimulateChoice:
    """Return the simulator's settings with defaults filled in.

    By default, jobs with task durations from a trace run with these durations and without contention. Other
    jobs run with contention: the tasks of a node share its CPU, disk and network.
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
    if jobs and counts is not None and not any(counts.holds(job.submit_s) for job in jobs):
        complaints.add(("measure",), f"none of the {len(jobs)} jobs is submitted in it")
        complaints.raise_if_any()
    return window


def _stem(name: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(name).stem)
    return plain.strip("-") or "scenario"

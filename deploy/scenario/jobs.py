"""Planning of the jobs in a scenario file: ids, numbers of tasks, resource demands, costs and input files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedbed.deploy.scenario.check import Complaints, did_you_mean
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.models import JobModel, Phase
from schedbed.deploy.scenario.own_code import is_own, own_apps
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import RUNTIME_PARAMETERS, App, Parameter
from schedbed.tasks.appkit.app_catalogue import APPS
from schedbed.tasks.own.program import COMMANDS
from schedbed.tasks.specs import Cost, Demand, Priority
from schedbed.tasks.units import format_bytes, parse_duration, parse_size
from schedbed.tasks.workloads.planned import PlannedJob, circle_in, vary

TASKS_MAX = 10_000_000
SYNTHETIC = "synthetic"
OF_OWN_APPS = (*COMMANDS, "files", "folder", "costs")
"""Keys of a job that only an application of a user has."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A copy of a job in the scenario file, before the copy receives a job id such as job_0001.

    `given` is the job's entry in the file, and `path` the place of this entry. `after` is the number of the
    draft for whose end the job waits.
    """

    given: JobModel
    name: str
    path: KeyPath
    after: int | None = None


def plan_jobs(
    jobs: Sequence[JobModel], inputs: JobInputs, place: KeyPath = ("workload", "jobs"), first: int = 1
) -> tuple[PlannedJob, ...]:
    """Return the planned jobs in order of submission, with ids such as job_0001, numbered from `first`.

    `place` is the place of the list of jobs in the scenario file. Errors are added to `inputs.complaints`.
    """
    if sum(job.count * (job.maps or 1) for job in jobs) > TASKS_MAX:
        inputs.complaints.add(place, f"more than {TASKS_MAX:,} tasks")
        return ()
    drafts = [draft for index, job in enumerate(jobs) for draft in _copies(job, (*place, index))]
    drafts = _linked(drafts, inputs.complaints)
    order = sorted(range(len(drafts)), key=lambda number: drafts[number].given.submit)
    ids = {number: f"job_{place:04d}" for place, number in enumerate(order, start=first)}
    planned = [_plan(ids[number], drafts[number], inputs, ids) for number in order]
    return tuple(job for job in planned if job is not None)


def _linked(drafts: Sequence[_Draft], complaints: Complaints) -> list[_Draft]:
    """Return the drafts with the numbers of those that they wait for. Errors are added to `complaints`."""
    places: dict[str, list[int]] = {}
    for number, draft in enumerate(drafts):
        places.setdefault(draft.name, []).append(number)
    linked: list[_Draft] = []
    for number, draft in enumerate(drafts):
        wanted = draft.given.after
        others = [each for each in places.get(wanted or "", ()) if each != number]
        if wanted is None:
            if draft.given.think:
                complaints.add(
                    (*draft.path, "think"), "a time after the end of another job, expected also `after`"
                )
        elif not others:
            hint = "the job would wait for itself" if draft.name == wanted else did_you_mean(wanted, places)
            complaints.add((*draft.path, "after"), f"no other job is named {wanted!r}, {hint}")
        else:
            earlier = [each for each in others if each < number]
            draft = replace(draft, after=earlier[-1] if earlier else others[0])
        linked.append(draft)
    if circle := circle_in([draft.after for draft in linked]):
        names = " waits for ".join(linked[number].name for number in (*circle, circle[0]))
        complaints.add(
            (*linked[circle[0]].path, "after"), f"{names}, so that none of them would be submitted"
        )
    return linked


def _copies(job: JobModel, path: KeyPath) -> list[_Draft]:
    name = job.name or job.app.rpartition(":")[2]
    return [_Draft(job, name if copy == 1 else f"{name}-{copy}", path) for copy in range(1, job.count + 1)]


def _plan(job: str, draft: _Draft, inputs: JobInputs, ids: Mapping[int, str]) -> PlannedJob | None:
    given, path = draft.given, draft.path
    found = _app_of(given, path, inputs)
    if found is None:
        return None
    app, params = found
    _check_shape(app, given, path, inputs)
    input_path = inputs.of_job(given, app, path)
    maps = len(inputs.files[input_path].blocks) if input_path else given.maps or app.default_maps
    scale = inputs.scenario.scale
    planned = PlannedJob(
        job=job,
        name=draft.name,
        app=app.name,
        user=given.user,
        queue=given.queue,
        priority=Priority(given.priority),
        submit_s=given.submit * scale,
        deadline_s=None if given.deadline is None else (given.submit + given.deadline) * scale,
        requested_s=None if given.requested is None else given.requested * scale,
        after=None if draft.after is None else ids[draft.after],
        think_s=given.think * scale,
        input=input_path,
        maps=maps,
        reduces=_reduces(app, given),
        map_demand=demand(given.map, inputs),
        reduce_demand=demand(given.reduce, inputs),
        params=params,
        running_map_limit=given.running_map_limit,
        uber=given.uber,
    )
    check_fits(planned, path, inputs)
    return _with_costs(planned, given, path, inputs) if app.name == SYNTHETIC else planned


def _app_of(given: JobModel, path: KeyPath, inputs: JobInputs) -> tuple[App, dict[str, Any]] | None:
    """Return the job's application and the parameters with which it runs.

    Return None after an error, which is added to `inputs.complaints`.
    """
    if is_own(given.app):
        return own_apps().find(given, path, inputs)
    for key in OF_OWN_APPS:
        if key in given.model_fields_set:
            inputs.complaints.add((*path, key), f"only an own application has {key}, not {given.app}")
    app = APPS.get(given.app)
    if app is None:
        message = f"unknown application {given.app!r}, {did_you_mean(given.app, APPS)}"
        inputs.complaints.add((*path, "app"), message)
        return None
    params = resolve_params(app, given.params, inputs.scenario.scale, (*path, "params"), inputs.complaints)
    return app, params


def demand(phase: Phase, inputs: JobInputs) -> Demand:
    """Return what one task declares. Without a declared memory, it is the least memory per slot of any node."""
    memory_bytes = inputs.memory_share_bytes if phase.memory is None else phase.memory
    return Demand(memory_bytes=memory_bytes, vcores=phase.vcores)


def check_fits(job: PlannedJob, path: KeyPath, inputs: JobInputs) -> None:
    """Check for each kind of task of the job that some node has enough memory, vcores and slots."""
    kinds = [("map", job.map_demand, "map_slots")]
    if job.reduces:
        kinds.append(("reduce", job.reduce_demand, "reduce_slots"))
    for kind, need, slots in kinds:
        largest = inputs.largest[slots]
        if largest is None:
            inputs.complaints.add(path, f"{job.name} has {kind} tasks, but no node has {slots}")
            continue
        memory, cores = largest
        if not 0 < need.memory_bytes <= memory:
            asked, most = format_bytes(need.memory_bytes), format_bytes(memory)
            message = f"a task of {asked} fits no node, the largest has {most}"
            inputs.complaints.add((*path, kind, "memory"), message)
        if need.vcores > cores:
            message = f"a task of {need.vcores} vcores fits no node, the largest has {cores} cores"
            inputs.complaints.add((*path, kind, "vcores"), message)


def _check_shape(app: App, given: JobModel, path: KeyPath, inputs: JobInputs) -> None:
    add = inputs.complaints.add
    if given.maps is not None and given.input is not None:
        add(
            (*path, "maps"), f"the maps of {given.app} come from the blocks of its input: give one of the two"
        )
    if given.deadline == 0:
        add((*path, "deadline"), "a deadline of 0 is not possible, expected above 0, from the submission on")
    if app.reduces == "never" and given.reduces:
        add((*path, "reduces"), f"{app.name} has no reduces")
    if app.reduces == "needed" and given.reduces == 0:
        add((*path, "reduces"), f"{app.name} needs at least 1 reduce")
    for kind, phase in (("map", given.map), ("reduce", given.reduce)):
        for key in ("cpu", "read", "write", "duration", "variance"):
            if app.name != SYNTHETIC and key in phase.model_fields_set:
                add(
                    (*path, kind, key), f"only synthetic jobs are told their costs, {app.name} does real work"
                )


def _reduces(app: App, given: JobModel) -> int:
    if given.reduces is not None:
        return given.reduces
    if app.name == SYNTHETIC:
        return int("reduce" in given.model_fields_set)
    return 0 if app.reduces == "never" else 1


def _with_costs(job: PlannedJob, given: JobModel, path: KeyPath, inputs: JobInputs) -> PlannedJob:
    """Return the synthetic job with its tasks' costs, and an input with a block per map if it reads without one."""
    scale, seed = inputs.scenario.scale, inputs.scenario.seed
    reads = _reads(job, given, inputs)
    filler = inputs.filler(job.job, reads) if job.input is None and reads[0] else job.input
    written = _map_write_bytes(job, given, path, inputs)
    map_cpu_s, reduce_cpu_s = (given.map.cpu or 0.0) * scale, (given.reduce.cpu or 0.0) * scale
    reduce = Cost(
        cpu_s=reduce_cpu_s,
        write_bytes=round((given.reduce.write or 0) * scale),
        duration_s=_duration_s(given.reduce, scale),
    )
    lasts_s = _duration_s(given.map, scale)
    # Equal maps share one object, since there may be millions.
    cost_of = {
        read: Cost(cpu_s=map_cpu_s, read_bytes=read, write_bytes=written, duration_s=lasts_s)
        for read in dict.fromkeys(reads)
    }
    maps = [cost_of[read] for read in reads]
    return replace(
        job,
        input=filler,
        map_costs=tuple(
            vary(cost, given.map.variance, seed, job.name, "map", i) for i, cost in enumerate(maps)
        ),
        reduce_costs=tuple(
            vary(reduce, given.reduce.variance, seed, job.name, "reduce", i) for i in range(job.reduces)
        ),
    )


def _duration_s(phase: Phase, scale: float) -> float | None:
    return None if phase.duration is None else phase.duration * scale


def _reads(job: PlannedJob, given: JobModel, inputs: JobInputs) -> tuple[int, ...]:
    """Return the bytes that each map of the job reads: `map.read`, or its whole block if none is declared."""
    asked = None if given.map.read is None else round(given.map.read * inputs.scenario.scale)
    if job.input is None:
        return (asked or 0,) * job.maps
    return tuple(length if asked is None else min(asked, length) for length in inputs.files[job.input].blocks)


def _map_write_bytes(job: PlannedJob, given: JobModel, path: KeyPath, inputs: JobInputs) -> int:
    """Return the bytes that one map writes, scaled. Without `map.write`, they follow from `reduce.read`."""
    scale, written, read = inputs.scenario.scale, given.map.write, given.reduce.read
    if read is None:
        return round((written or 0) * scale)
    shuffled = read * job.reduces
    if written is not None and abs(written * job.maps - shuffled) > 0.01 * shuffled:
        message = f"reduces read what maps write: {written * job.maps} bytes are written, {shuffled} read"
        inputs.complaints.add((*path, "reduce", "read"), f"{message}; give one of map.write and reduce.read")
    return round(shuffled * scale / job.maps)


# Parameters that a job passes to its application: they are checked, parsed and scaled.

_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def resolve_params(
    app: App, given: Mapping[str, Any], scale: float, path: KeyPath, complaints: Complaints
) -> dict[str, Any]:
    """Return the parameters given in a job, checked against the declaration of the application `app`.

    Texts with units are parsed. Parameters declared as scaled, including default values, are multiplied by
    `scale`, the scenario's factor on durations and sizes. Errors are added to `complaints` with the place
    `path`.
    """
    declared = {p.name: p for p in (*app.parameters, *RUNTIME_PARAMETERS) if not p.derived}
    resolved: dict[str, Any] = {}
    for name, value in given.items():
        if name not in declared:
            message = f"unknown parameter of {app.name}, {did_you_mean(name, declared)}"
            complaints.add((*path, name), message)
            continue
        try:
            resolved[name] = _value(value, declared[name])
        except ValueError as error:
            complaints.add((*path, name), str(error))
    for name, parameter in declared.items():
        if parameter.required and name not in given:
            complaints.add(path, f"{app.name} needs the parameter {name}: {parameter.doc}")
        elif parameter.scaled:
            resolved[name] = max(1, round(resolved.get(name, parameter.default) * scale))
    return resolved


def _value(value: Any, parameter: Parameter) -> Any:
    if parameter.unit == "bytes":
        return parse_size(value)
    if parameter.unit == "s":
        return parse_duration(value)
    if parameter.unit == "regular expression":
        return _pattern(value)
    kind = type(parameter.default)
    expected = _EXPECTED.get(kind)
    accepted = (int, float) if kind is float else kind
    if expected and (not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool)):
        raise ValueError(f"{value!r} is not {expected}")
    if isinstance(value, int | float) and not parameter.least <= value <= parameter.most:
        bounds = f"{parameter.least:g} " + (
            f"to {parameter.most:g}" if parameter.most < math.inf else "or more"
        )
        raise ValueError(f"{value!r} is not a number of {bounds}")
    return value


def _pattern(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a regular expression (a text)")
    try:
        re.compile(value.encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from None
    return value

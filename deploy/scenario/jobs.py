"""Planning of the jobs in a scenario file: ids, numbers of tasks, resource demands, costs and input files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.models import JobModel, Phase
from schedbed.deploy.scenario.own_apps import find_app, params_of
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import App
from schedbed.tasks.specs import Cost, Demand, Priority
from schedbed.tasks.units import format_bytes
from schedbed.tasks.workloads.planned import PlannedJob, vary

TASKS_MAX = 10_000_000
SYNTHETIC = "synthetic"
REQUESTED = "requested_s"
"""The parameter of a job with the run time that its user expects, in s."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A copy of a job in the scenario file, before the copy receives a job id such as job_0001.

    `given` is the job's entry in the file, and `path` the place of this entry.
    """

    given: JobModel
    name: str
    path: KeyPath


def plan_jobs(
    jobs: Sequence[JobModel], inputs: JobInputs, place: KeyPath = ("workload", "jobs"), first: int = 1
) -> tuple[PlannedJob, ...]:
    """Return the planned jobs in order of submission, with ids such as job_0001, numbered from `first`.

    A job with `count: n` is planned n times. `place` is the place of the list of jobs in the scenario file.
    Errors are added to `inputs.complaints`.
    """
    if sum(job.count * (job.maps or 1) for job in jobs) > TASKS_MAX:
        inputs.complaints.add(place, f"more than {TASKS_MAX:,} tasks")
        return ()
    drafts = [draft for index, job in enumerate(jobs) for draft in _copies(job, (*place, index))]
    drafts.sort(key=lambda draft: draft.given.submit)
    planned = [_plan(f"job_{number:04d}", draft, inputs) for number, draft in enumerate(drafts, start=first)]
    return tuple(job for job in planned if job is not None)


def _requested(given: JobModel, scale: float) -> dict[str, float]:
    return {} if given.requested is None else {REQUESTED: given.requested * scale}


def _copies(job: JobModel, path: KeyPath) -> list[_Draft]:
    name = job.name or job.app.rpartition(":")[2]
    return [_Draft(job, name if copy == 1 else f"{name}-{copy}", path) for copy in range(1, job.count + 1)]


def _plan(job: str, draft: _Draft, inputs: JobInputs) -> PlannedJob | None:
    given, path = draft.given, draft.path
    found = find_app(given, path, inputs)
    if found is None:
        return None
    app, own = found
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
        input=input_path,
        maps=maps,
        reduces=_reduces(app, given),
        map_demand=demand(given.map, inputs),
        reduce_demand=demand(given.reduce, inputs),
        params=params_of(app, own, given, path, inputs) | _requested(given, scale),
    )
    check_fits(planned, path, inputs)
    return _with_costs(planned, given, path, inputs) if app.name == SYNTHETIC else planned


def demand(phase: Phase, inputs: JobInputs) -> Demand:
    """Return the memory in bytes and the vcores that one task of a job's map or reduce phase declares.

    A task that declares no memory receives the least memory per slot of any node.
    """
    memory_bytes = inputs.memory_share_bytes if phase.memory is None else phase.memory
    return Demand(memory_bytes=memory_bytes, vcores=phase.vcores)


def check_fits(job: PlannedJob, path: KeyPath, inputs: JobInputs) -> None:
    """Check for each kind of task of the job that some node has enough memory, vcores and slots.

    If there is no such node, an error is added to `inputs.complaints`. `path` is the job's place in the
    scenario file.
    """
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
    """Return the synthetic job `job` with the costs of its tasks, as declared in `given`, its scenario entry.

    If the job's maps read data but the job has no input, a generated file with one block per map becomes its
    input.
    """
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
    """Return the number of bytes that each map of the job reads.

    A map reads the declared number of bytes (`map.read`), or its whole block if none is declared.
    """
    asked = None if given.map.read is None else round(given.map.read * inputs.scenario.scale)
    if job.input is None:
        return (asked or 0,) * job.maps
    return tuple(length if asked is None else min(asked, length) for length in inputs.files[job.input].blocks)


def _map_write_bytes(job: PlannedJob, given: JobModel, path: KeyPath, inputs: JobInputs) -> int:
    """Return the number of bytes that one map writes, multiplied by the scenario's factor `scale`.

    If `map.write` is missing in the job's entry `given`, the number is computed from `reduce.read`, the
    bytes that one reduce fetches.
    """
    scale, written, read = inputs.scenario.scale, given.map.write, given.reduce.read
    if read is None:
        return round((written or 0) * scale)
    shuffled = read * job.reduces
    if written is not None and abs(written * job.maps - shuffled) > 0.01 * shuffled:
        message = f"reduces read what maps write: {written * job.maps} bytes are written, {shuffled} read"
        inputs.complaints.add((*path, "reduce", "read"), f"{message}; give one of map.write and reduce.read")
    return round(shuffled * scale / job.maps)

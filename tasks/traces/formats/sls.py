"""Files of YARN's scheduler load simulator (SLS): jobs, nodes, and SYNTH specifications of workloads.

A file has JSON objects: jobs with containers, racks with nodes, or one specification to draw jobs from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.text import Fields
from schedbed.tasks.traces.trace import Host, Topology, Trace, TraceFormat, TraceJob, TraceTask

DEFAULT_RACK = "default-rack"
JOB_KEYS = ("job.tasks", "job.id", "job.start.ms", "am.type")
KEYS = (*JOB_KEYS, "workloads", "num.nodes", "nodes")
_LACKS = "no bytes, CPU times or outcomes in an SLS trace; a container's lifetime is its work"


def read_sls(path: Path) -> Trace:
    """Return jobs in order of submission (of a SYNTH specification, drawn), or hosts. Raises BadInput."""
    notes: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    hosts: list[Host] = []
    tasks = 0
    for number, raw in objects(path):
        fields = Fields(raw, f"{path}: object {number}")
        if "workloads" in fields:
            return draw(fields)
        if "nodes" in fields:
            hosts += _nodes(fields, notes)
        elif any(key in fields for key in JOB_KEYS):
            made = _jobs(fields, number, notes)
            tasks += sum(len(job.maps) + len(job.reduces) for job in made)
            if tasks > TASKS_MAX:
                raise fields.fail(f"more than {TASKS_MAX} tasks in the jobs up to here")
            jobs += made
        elif "num.nodes" in fields:
            racks = fields.whole("num.racks", 1, 10**6)
            nodes = fields.whole("num.nodes", 0, 10**6)
            notes[f"a cluster of {nodes} nodes in {racks} racks, which is not kept"] += 1
        else:
            raise fields.fail("neither an SLS job (job.tasks), nor nodes, nor workloads to draw jobs from")
    told = tuple(what.replace("#", str(count)) for what, count in sorted(notes.items()))
    if jobs:
        jobs.sort(key=lambda job: job.submit_s)
        return Trace(format="sls", jobs=tuple(jobs), warnings=(_LACKS, *told))
    if not hosts:
        raise BadInput(
            f"{path}: no job and no node in it, expected SLS's objects (job.tasks, nodes, workloads)"
        )
    return Trace(format="sls", topology=Topology(hosts=tuple(dict.fromkeys(hosts))), warnings=told)


def _nodes(fields: Fields, notes: Counter[str]) -> list[Host]:
    rack = fields.text("rack", DEFAULT_RACK).strip("/")
    found = []
    for node in fields.objects("nodes"):
        if "node" not in node:
            raise node.fail("no name (node)")
        if "memory-mb" in node or "vcores" in node:
            notes["# nodes say their memory or cores, which are not kept: cluster.node says them"] += 1
        found.append((rack, node.text("node", "").rpartition("/")[2]))
    return found


def _jobs(fields: Fields, number: int, notes: Counter[str]) -> list[TraceJob]:
    """Return the `job.count` copies of a job. Lost or assumed data are counted in `notes`."""
    maps: list[TraceTask] = []
    reduces: list[TraceTask] = []
    for container in fields.objects("job.tasks"):
        kind = container.text("container.type", "map")
        task = _task(container, kind, notes)
        times = max(1, container.whole("count", 1, TASKS_MAX))
        (reduces if kind == "reduce" else maps).extend([task] * times)
    if not maps:
        if not reduces:
            raise fields.fail("a job without tasks (job.tasks)")
        notes["assumed: the reduces of # jobs without maps are taken as maps"] += 1
        maps, reduces = reduces, []
    start, end = fields.number("job.start.ms", 0.0), fields.number("job.end.ms", 0.0)
    count = max(1, fields.whole("job.count", 1, 10**6))
    if count * (len(maps) + len(reduces)) > TASKS_MAX:
        raise fields.fail(f"more than {TASKS_MAX} tasks in this job")
    name = fields.text("job.id", f"job_{number}")
    return [
        TraceJob(
            name=name if count == 1 else f"{name}-{copy}",
            submit_s=start / 1000,
            user=fields.text("job.user", "default"),
            queue=fields.text("job.queue.name", "default"),
            duration_s=(end - start) / 1000 if end > start else None,
            maps=tuple(maps),
            reduces=tuple(reduces),
        )
        for copy in range(1, count + 1)
    ]


def _task(container: Fields, kind: str, notes: Counter[str]) -> TraceTask:
    duration_s = _duration_s(container)
    if kind not in ("map", "reduce"):
        notes["assumed: # kinds of container that are neither map nor reduce are taken as maps"] += 1
    for key, what in (("container.request.delay", "ask late"), ("container.memory", "say their memory")):
        if key in container:
            notes[f"# containers {what} ({key}), which is not kept"] += 1
    hosts = _host(container) if kind != "reduce" else ()
    return TraceTask(duration_s=duration_s, work_s=duration_s, hosts=hosts)


def _duration_s(container: Fields) -> float:
    for key in ("container.duration.ms", "duration.ms"):
        if key in container:
            span = container.number(key)
            break
    else:
        if "container.start.ms" not in container or "container.end.ms" not in container:
            raise container.fail("no duration.ms, and not both of container.start.ms and container.end.ms")
        span = container.number("container.end.ms") - container.number("container.start.ms")
    if span <= 0:
        raise container.fail(f"lasts {span:g} ms, expected above 0")
    return span / 1000


def _host(container: Fields) -> tuple[Host, ...]:
    """Return the host that a container requests, given as /rack/name or as a name, or () if it requests none."""
    if "container.host" not in container:
        return ()
    rack, _, name = container.text("container.host", "").strip("/").rpartition("/")
    return ((rack or DEFAULT_RACK, name),) if name and name != "*" else ()


def _looks_like(start: str) -> bool:
    if not start.lstrip().startswith("{") or '"jobID"' in start or "SparkListener" in start:
        return False
    return any(f'"{key}"' in start for key in KEYS)


FORMAT = TraceFormat(read=read_sls, looks_like=_looks_like)


# The SYNTH specification of SLS: workloads with job classes and distributions, from which jobs are drawn at
# random.
#
# Like SLS, this module draws a workload, a job class and a time span by weight. It draws numbers of tasks,
# times and deadlines from lognormal (or normal, or discrete) distributions. The random generator differs,
# so a seed results in other jobs than in SLS.

JOBS_MAX = 1_000_000
TASKS_MAX = 5_000_000
_DEVIATION = 1 / 6  # As in SLS, the deviation is this share of the mean if given as 0.


def draw(spec: Fields) -> Trace:
    """Return jobs drawn by a SYNTH specification, in order of submission. Raises BadInput."""
    workloads = spec.objects("workloads")
    count, seed = spec.whole("num_jobs", 0, JOBS_MAX), spec.whole("rand_seed", 0, 2**53)
    if not workloads or not count:
        raise spec.fail("nothing to draw: expected workloads and num_jobs above 0")
    jobs, tasks = [], 0
    for number in range(count):
        jobs.append(_job(workloads, number, chance(seed, "sls synth", number)))
        tasks += len(jobs[-1].maps) + len(jobs[-1].reduces)
        if tasks > TASKS_MAX:
            raise spec.fail(f"more than {TASKS_MAX} tasks in the first {number + 1} of {count} jobs")
    nodes, rack = spec.whole("num_nodes", 0, 10**6), spec.whole("nodes_per_rack", 0, 10**6)
    warnings = (
        "no bytes, CPU times or locations in an SLS specification; a task's time is its work",
        f"drawn: {count} jobs with the seed {seed}; SLS itself draws others from it",
        "memory, cores and execution types of containers are not kept",
        f"a cluster of {nodes} nodes, {rack} to a rack, which is not kept",
    )
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    return Trace(format="sls", jobs=tuple(ordered), warnings=warnings)


def _job(workloads: Sequence[Fields], number: int, coin: Coin) -> TraceJob:
    workload = _pick(workloads, "workload_weight", coin)
    submit_s = _submit_s(workload, coin)
    kind = _pick(_some(workload, "job_classes"), "class_weight", coin)
    spans = {name: _drawn(kind, name, coin) for name in ("duration", "deadline_factor", "reservation")}
    deadline_s = spans["duration"] * spans["deadline_factor"]
    reserved = coin.random() <= spans["reservation"] and deadline_s > 0
    maps, reduces = _tasks(kind, coin)
    return TraceJob(
        name=f"{kind.text('class_name', 'job')}_{number:06d}",
        submit_s=submit_s,
        user=kind.text("user_name", "default"),
        queue=workload.text("queue_name", "default"),
        deadline_s=deadline_s if reserved else None,
        maps=maps,
        reduces=reduces,
    )


_OLD = {"duration": "dur", "deadline_factor": "deadline_factor"}
"""Prefixes in the older form: `duration: {val, std}` is `dur_avg` and `dur_stddev` there."""


def _drawn(kind: Fields, name: str, coin: Coin) -> float:
    if name in kind:
        return _sample(kind, name, coin)
    if name == "reservation":
        return kind.number("chance_of_reservation", 0.0)
    return _old(kind, _OLD[name], coin)


def _tasks(kind: Fields, coin: Coin) -> tuple[tuple[TraceTask, ...], tuple[TraceTask, ...]]:
    """Return a random job's maps, at least one, and reduces. In newer specifications, all others are maps."""
    found: dict[bool, list[TraceTask]] = {False: [], True: []}
    if "tasks" in kind:
        for task in kind.objects("tasks"):
            many = _whole(task, _sample(task, "count", coin))
            reduce = task.text("type", "map") == "reduce"
            found[reduce] += [_sls_synth_task(_sample(task, "time", coin)) for _ in range(many)]
    else:
        for letter, reduce in (("m", False), ("r", True)):
            many = _whole(kind, _old(kind, f"{letter}tasks", coin))
            found[reduce] += [_sls_synth_task(_old(kind, f"{letter}time", coin)) for _ in range(many)]
    if not found[False]:
        found = {False: found[True] or [_sls_synth_task(1.0)], True: []}
    return tuple(found[False]), tuple(found[True])


def _sls_synth_task(time_s: float) -> TraceTask:
    return TraceTask(duration_s=time_s, work_s=time_s)


def _whole(fields: Fields, number: float) -> int:
    if number > TASKS_MAX:
        raise fields.fail(f"a job of {number:.0f} tasks, expected {TASKS_MAX} at most")
    return round(number)


def _submit_s(workload: Fields, coin: Coin) -> float:
    """Return a random submission time in a time span chosen by weight; one lasts until the next begins."""
    spans = _some(workload, "time_distribution")
    chosen = _pick_index(spans, "weight", coin)
    start = spans[chosen].number("time")
    end = spans[min(chosen + 1, len(spans) - 1)].number("time")
    return start + max(0.0, end - start) * coin.random()


def _some(fields: Fields, key: str) -> list[Fields]:
    found = fields.objects(key)
    if not found:
        raise fields.fail(f"no {key}")
    return found


def _pick(choices: Sequence[Fields], weight: str, coin: Coin) -> Fields:
    return choices[_pick_index(choices, weight, coin)]


def _pick_index(choices: Sequence[Fields], weight: str, coin: Coin) -> int:
    weights = [choice.number(weight, 0.0) for choice in choices]
    if not sum(weights):
        raise choices[0].fail(f"all weights ({weight}) are 0")
    return coin.choices(range(len(choices)), weights)[0]


def _old(fields: Fields, name: str, coin: Coin) -> float:
    return _lognormal(fields.number(f"{name}_avg", 0.0), fields.number(f"{name}_stddev", 0.0), coin)


def _sample(fields: Fields, key: str, coin: Coin) -> float:
    """Return a number, or draw it from `{val}`, `{val, std, dist}` or `{discrete, weights}`."""
    value: Any = fields.raw.get(key)
    if not isinstance(value, dict):
        return fields.number(key)
    sample = Fields(value, f"{fields.where}: {key}")
    if "discrete" in sample:
        return _discrete(sample, coin)
    if "std" not in sample:
        return sample.number("val")
    mean, deviation = sample.number("val"), sample.number("std")
    shape = sample.text("dist", "LOGNORM")
    if shape not in ("LOGNORM", "NORM"):
        raise sample.fail(f"dist: {shape!r} is neither LOGNORM nor NORM")
    if shape == "NORM":
        return max(0.0, coin.gauss(mean, deviation or mean * _DEVIATION))
    return _lognormal(mean, deviation, coin)


def _discrete(sample: Fields, coin: Coin) -> float:
    values = sample.raw["discrete"]
    weights = sample.raw.get("weights") or ([1.0] * len(values) if isinstance(values, list) else None)
    if not isinstance(values, list) or not isinstance(weights, list) or len(values) != len(weights):
        raise sample.fail("discrete and weights are not lists of one length")
    choices = [
        Fields({"discrete": value, "weight": weight}, sample.where)
        for value, weight in zip(values, weights, strict=True)
    ]
    if not choices:
        raise sample.fail("discrete: nothing to choose from")
    return _pick(choices, "weight", coin).number("discrete")


def _lognormal(mean: float, deviation: float, coin: Coin) -> float:
    if mean <= 0:
        return 0.0
    sigma = math.sqrt(math.log1p(((deviation or mean * _DEVIATION) / mean) ** 2))
    return coin.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)

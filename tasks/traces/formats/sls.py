"""Files of YARN's scheduler load simulator (SLS): jobs, nodes, and SYNTH specifications of workloads.

A file is a sequence of JSON objects: either jobs with their containers, or racks with their nodes, or one
specification from which jobs are drawn at random (`tasks.traces.sls_synth`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.fields import Fields
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.sls_synth import TASKS_MAX, draw
from schedbed.tasks.traces.trace import Host, Topology, Trace, TraceFormat, TraceJob, TraceTask

DEFAULT_RACK = "default-rack"
JOB_KEYS = ("job.tasks", "job.id", "job.start.ms", "am.type")
KEYS = (*JOB_KEYS, "workloads", "num.nodes", "nodes")
_LACKS = "no bytes, CPU times or outcomes in an SLS trace; a container's lifetime is its work"


def read_sls(path: Path) -> Trace:
    """Return the jobs of a file in order of submission, or the nodes of a node file.

    If the file is a SYNTH specification, the jobs are drawn at random. Raises BadInput for any other object
    or for wrong fields.
    """
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
    """Return the jobs that a job object describes: `job.count` copies of one job.

    `number` is the object's number in the file. Data that is lost or assumed is counted in `notes`.
    """
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
    """Return the host that a container requests, given as /rack/name or as a name, or () if it requests
    none.
    """
    if "container.host" not in container:
        return ()
    rack, _, name = container.text("container.host", "").strip("/").rpartition("/")
    return ((rack or DEFAULT_RACK, name),) if name and name != "*" else ()


def _looks_like(start: str) -> bool:
    if not start.lstrip().startswith("{") or '"jobID"' in start or "SparkListener" in start:
        return False
    return any(f'"{key}"' in start for key in KEYS)


FORMAT = TraceFormat(read=read_sls, looks_like=_looks_like)

"""Planning of the jobs of `workload: {trace: FILE}`: jobs from a trace, scaled to the scenario's cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schedbed.deploy.scenario.check import did_you_mean
from schedbed.deploy.scenario.cluster import topology_hosts
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import TASKS_MAX, check_fits, demand
from schedbed.deploy.scenario.models import Phase, Workload
from schedbed.scheduler.registry.registry import POLICIES
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, NodeId, made_once
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.topology import map_hosts, replica_nodes
from schedbed.tasks.traces.trace import Host, Trace, TraceJob
from schedbed.tasks.workloads.from_trace import Assume, SyntheticJob, select, synthesize
from schedbed.tasks.workloads.planned import PlannedJob, cut


class Planned(NamedTuple):
    """The jobs of a workload, sentences about what was assumed, and the record of `ResolvedScenario`."""

    jobs: tuple[PlannedJob, ...] = ()
    warnings: tuple[str, ...] = ()
    record: Mapping[str, Any] | None = None


def plan_trace(workload: Workload, inputs: JobInputs) -> Planned:
    """Return the trace's selected jobs. There are none after an error, which is added to `inputs.complaints`."""
    trace = _read(workload, inputs)
    if trace is None:
        return Planned()
    chosen = workload.select
    jobs = select(trace.jobs, chosen.jobs, chosen.from_, chosen.until)
    if not jobs:
        inputs.complaints.add(
            ("workload", "select"), f"none of the {len(trace.jobs)} jobs of the trace is in it"
        )
        return Planned()
    assume = assumptions(workload, inputs)
    made, warnings = synthesize(trace, jobs, assume)
    if sum(len(job.maps) + len(job.reduces) for job in made) > TASKS_MAX:
        inputs.complaints.add(("workload", "select"), f"more than {TASKS_MAX:,} tasks, select fewer jobs")
        return Planned()
    mapped = _mapped(trace, inputs)
    shared = share_inputs(made, inputs, workload.block or inputs.scenario.blocks.size)
    planner = SyntheticPlanner(inputs)
    ids = {job.number: f"job_{number:04d}" for number, job in enumerate(made, start=1)}
    planned = [
        planner.plan(
            f"job_{number:04d}",
            job,
            after=None if job.after is None else ids.get(job.after),
            preferred=_preferred(job, mapped, inputs),
            shared=shared.get(job.input_path) if shared and _reads(job) else None,
        )
        for number, job in enumerate(made, start=1)
    ]
    check_fits(planned[0], ("workload", "trace"), inputs)
    record = _record(workload.recorded_under, planned, jobs, inputs)
    return Planned(tuple(planned), tuple(warnings), record)


def _record(
    policy: str | None, planned: Sequence[PlannedJob], jobs: Sequence[TraceJob], inputs: JobInputs
) -> dict[str, Any] | None:
    """Return the policy of the recording, and the recorded completion time of each job that has one to compare with.

    Of a job that waits for another, the time from its own submission is not recorded.
    """
    if policy is None:
        return None
    if policy not in POLICIES:
        hint = did_you_mean(policy, POLICIES)
        inputs.complaints.add(("workload", "recorded_under"), f"unknown policy {policy!r}, {hint}")
    found = {
        mine.job: job.duration_s * inputs.scenario.scale
        for mine, job in zip(planned, jobs, strict=True)
        if job.succeeded and job.duration_s and job.after is None
    }
    if not found:
        inputs.complaints.add(("workload", "recorded_under"), "the trace has no recorded ends of jobs")
    return {"policy": policy, "completion_s": found}


def assumptions(workload: Workload, inputs: JobInputs) -> Assume:
    """Return the values to use where the trace lacks data. Raises BadInput if one is 0."""
    nodes = len(inputs.cluster.nodes)
    for key in ("block", "cpu_rate", "io_rate", "reduce_bytes", "limit_bytes"):
        if getattr(workload, key) == 0:
            inputs.complaints.add(("workload", key), "0 is not possible, expected above 0")
    inputs.complaints.raise_if_any()
    return Assume(
        block_bytes=workload.block or inputs.scenario.blocks.size,
        cpu_rate=workload.cpu_rate,
        io_rate=workload.io_rate,
        reduce_bytes=workload.reduce_bytes,
        limit_bytes=workload.limit_bytes,
        share=nodes / workload.traced_nodes if workload.traced_nodes else 1.0,
        users=workload.users or 0,
        seed=inputs.scenario.seed,
    )


def _read(workload: Workload, inputs: JobInputs) -> Trace | None:
    path = inputs.base / Path(str(workload.trace)).expanduser()
    place = ("workload", "trace")
    if "\0" in str(path) or not path.exists():
        hint = "give its path with --set workload.trace=PATH"
        inputs.complaints.add(place, f"no trace file {str(workload.trace)!r} (looked for {path}); {hint}")
        return None
    try:
        trace = read_trace(path, workload.format)
    except BadInput as error:
        inputs.complaints.add(place, str(error))
        return None
    if trace.topology is not None:
        inputs.complaints.add(
            place, f"{path} is a topology of {len(trace.topology.hosts)} hosts, no trace of jobs"
        )
        return None
    return trace


def _mapped(trace: Trace, inputs: JobInputs) -> dict[Host, NodeId]:
    """Return the node for each host in the trace. Hosts share nodes, unless the topology file is the trace's own."""
    nodes = {node.node: node.rack for node in inputs.cluster.nodes}
    mapped = map_hosts(trace.hosts, nodes)
    own = topology_hosts(inputs.scenario.cluster, inputs.base, inputs.complaints)
    return mapped | dict(zip(own, nodes, strict=False))


class SyntheticPlanner:
    """Planning of synthetic jobs, with scaled costs. Jobs that share a tuple of costs also share the scaled
    one.
    """

    def __init__(self, inputs: JobInputs) -> None:
        self._inputs, self._scale = inputs, inputs.scenario.scale
        asked = inputs.scenario.workload
        self._map_demand = demand(Phase(memory=asked and asked.map_memory), inputs)
        self._reduce_demand = demand(Phase(memory=asked and asked.reduce_memory), inputs)
        # By the `id` of the costs as given, which are kept, so that no `id` is used again.
        self._scaled: dict[int, _Scaled] = {}

    def plan(
        self,
        job: str,
        made: SyntheticJob,
        *,
        after: str | None = None,
        preferred: tuple[tuple[NodeId, ...], ...] | None = None,
        shared: str | None = None,
    ) -> PlannedJob:
        """Return the synthetic job as a planned one, with scaled costs, submitted after the job with the id `after`.

        Its maps read the input file `shared` or, without it, a new one, whose blocks are at `preferred`
        nodes. A map of whose block the trace does not say a place prefers none.
        """
        maps, scale = self._scaled_all(made.maps), self._scale
        filler = shared
        if shared is None and (maps.blocks or preferred is not None):
            blocks = maps.blocks or (1,) * len(maps.costs)  # Data of unknown size, which only has a place.
            filler = self._inputs.filler(job, blocks, preferred)
        unplaced = (
            () if shared is not None else [place for place, nodes in enumerate(preferred or ()) if not nodes]
        )
        return PlannedJob(
            job=job,
            name=made.name,
            app="synthetic",
            user=made.user,
            queue=made.queue,
            priority=made.priority,
            submit_s=made.submit_s * scale,
            deadline_s=None if made.deadline_s is None else (made.submit_s + made.deadline_s) * scale,
            requested_s=None if made.requested_s is None else made.requested_s * scale,
            after=after,
            think_s=0.0 if after is None else made.think_s * scale,
            input=filler,
            maps=len(maps.costs),
            reduces=len(made.reduces),
            map_demand=self._map_demand,
            reduce_demand=self._reduce_demand,
            map_costs=maps.costs,
            reduce_costs=self._scaled_all(made.reduces).costs,
            unplaced=tuple(unplaced),
            uber=made.uber,
        )

    def _scaled_all(self, costs: tuple[Cost, ...]) -> _Scaled:
        """Return scaled costs. To save memory, tasks that share a cost also share the scaled one."""
        found = self._scaled.get(id(costs))
        if found is None:
            scaled = made_once(lambda cost: _scaled(cost, self._scale), costs)
            reads = any(cost.read_bytes for cost in scaled)
            blocks = made_once(lambda cost: max(1, cost.read_bytes), scaled) if reads else ()
            found = self._scaled[id(costs)] = _Scaled(costs, scaled, blocks)
        return found


class _Scaled(NamedTuple):
    """Costs of tasks as given and multiplied by the scenario's factor `scale`, and the sizes of the blocks
    that the tasks read, if any of them reads.
    """

    given: tuple[Cost, ...]
    costs: tuple[Cost, ...]
    blocks: tuple[int, ...]


def _reads(job: SyntheticJob) -> bool:
    return any(cost.read_bytes for cost in job.maps)


def share_inputs(jobs: Sequence[SyntheticJob], inputs: JobInputs, block_bytes: int) -> dict[str | None, str]:
    """Add an input for each path that several jobs read. Return block-store paths by path in the trace.

    If the jobs' maps read equal bytes, the file has a block per map. Otherwise, it is as long as the largest
    job needs, in scaled blocks of `block_bytes`, and each job divides it into splits.
    """
    readers: dict[str, list[tuple[int, ...]]] = {}
    for job in jobs:
        if job.input_path is not None and _reads(job):
            reads = tuple(round(cost.read_bytes * inputs.scenario.scale) for cost in job.maps)
            readers.setdefault(job.input_path, []).append(reads)
    found: dict[str | None, str] = {}
    for path, wanted in readers.items():
        length = max(sum(reads) for reads in wanted)
        if len(wanted) == 1 or not length:
            continue
        even = all(reads == wanted[0] for reads in wanted)
        block = max(1, round(block_bytes * inputs.scenario.scale))
        blocks = tuple(max(1, read) for read in wanted[0]) if even else cut(length, block)
        found[path] = inputs.shared_filler(path, blocks)
    return found


def _scaled(cost: Cost, scale: float) -> Cost:
    return Cost(
        cpu_s=cost.cpu_s * scale,
        read_bytes=round(cost.read_bytes * scale),
        write_bytes=round(cost.write_bytes * scale),
        duration_s=None if cost.duration_s is None else cost.duration_s * scale,
        shuffle_s=None if cost.shuffle_s is None else cost.shuffle_s * scale,
    )


def _preferred(
    made: SyntheticJob, mapped: Mapping[Host, NodeId], inputs: JobInputs
) -> tuple[tuple[NodeId, ...], ...] | None:
    """Return each map's preferred nodes, which stand for its hosts in the trace.

    A recorded map without hosts has no location. The result is None for maps without input, and for those of a trace
    that does not list maps, whose blocks are placed as if the cluster had written them.
    """
    if not any(made.hosts):
        return ((),) * len(made.hosts) if _reads(made) and made.hosts else None
    nodes = [node.node for node in inputs.cluster.nodes]
    count = inputs.cluster.blocks.replication
    return tuple(replica_nodes(hosts, mapped, nodes, count) for hosts in made.hosts)

"""Conversion of a `Simulation` object, before its start, to the arrays of the compiled loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from math import inf, nan
from typing import TYPE_CHECKING, cast

import numpy as np

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.core.core import CoreConfig
from schedbed.scheduler.order.pools import PRIORITY_WEIGHTS, PoolSettings
from schedbed.scheduler.policy import Composed, says
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import (
    Arrays,
    Ints,
    Table,
    Values,
    record,
    record_grid,
    records,
)
from schedbed.scheduler.simulate.compiled.contended import flow_arrays
from schedbed.scheduler.simulate.compiled.heaps import WORD
from schedbed.scheduler.simulate.compiled.state import DUE_EVENT, JOIN_EVENT, SHIFT, Numbers, Seconds, State
from schedbed.tasks.specs import JobSpec, NodeId, Split

if TYPE_CHECKING:
    from schedbed.scheduler.locality.delay import Delay
    from schedbed.scheduler.order.fair import Fair
    from schedbed.scheduler.simulate.simulation import Simulation

ROWS = 1 << 18
"""Number of decisions, and of heartbeats, after which the loop pauses to pass rows on."""
FILES = 1 << 14
"""Number of recorded file changes after which the loop pauses."""


class NotCovered(Exception):
    """Raised for a simulation that the compiled loop does not support. The message contains the reason."""


class Costs:
    """The costs of all tasks, as rows of one table. Tasks with the same `TaskCost` object share a row."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self.kept: list[TaskCost] = []

    def places(self, costs: Sequence[TaskCost]) -> Iterator[int]:
        """Return the row numbers of costs in the table. Adds a row for each new cost."""
        keys = list(map(id, costs))
        for key, cost in dict(zip(keys, costs, strict=True)).items():
            if key not in self._place:
                self._place[key] = len(self.kept)
                self.kept.append(cost)
        return map(self._place.__getitem__, keys)

    def table(self) -> Table[plain.CostEntry]:
        """Return all costs as a table with one record per cost."""
        table, kept = records(len(self.kept), plain.CostEntry), self.kept
        for column, field in (
            ("cpu", "cpu_s"),
            ("sort_cpu", "sort_cpu_s"),
            ("fetch_cpu", "fetch_cpu_s"),
            ("fetched_byte_cpu", "fetched_byte_cpu_s"),
            ("read", "read_bytes"),
            ("output", "output_bytes"),
            ("spill", "spill_bytes"),
            ("peak", "memory_peak_bytes"),
        ):
            table[column][: len(kept)] = [getattr(cost, field) for cost in kept]
        table["duration"][: len(kept)] = [
            nan if cost.duration_s is None else cost.duration_s for cost in kept
        ]
        table["merges"][: len(kept)] = [cost.merges for cost in kept]
        return table


class Inputs:
    """The inputs of all tasks: preferred nodes, nodes with a replica, and whether the task reads a block."""

    def __init__(self, simulation: Simulation) -> None:
        self._node = {node.spec.node: node.index for node in simulation.nodes}
        self._replicas = simulation.storage.replicas_of
        self.hosts: list[int] = []
        self.hosts_end: list[int] = []
        self.holders: list[int] = []
        self.holders_end: list[int] = []
        self.reads: list[bool] = []

    def add(self, splits: Sequence[Split], costs: Sequence[TaskCost], reduces: int) -> None:
        """Add inputs of maps, then `reduces` empty ones. Raises NotCovered if no node holds a map's block."""
        reads = [
            split.block is not None and cost.read_bytes > 0 for split, cost in zip(splits, costs, strict=True)
        ]
        hosts = [split.hosts for split in splits]
        held = [self._held(split) if read else () for split, read in zip(splits, reads, strict=True)]
        for split, read, nodes in zip(splits, reads, held, strict=True):
            if read and (not nodes or nodes[0] not in self._node):
                raise NotCovered(f"nobody holds {split.block}")
        self.hosts += self._numbers(hosts)
        self.holders += self._numbers(held)
        no_input = [0] * reduces
        self.hosts_end += _ends(self.hosts_end, [*map(len, hosts), *no_input])
        self.holders_end += _ends(self.holders_end, [*map(len, held), *no_input])
        self.reads += [*reads, *[False] * reduces]

    def _held(self, split: Split) -> Sequence[NodeId]:
        nodes = self._replicas(split)
        return nodes if nodes is split.hosts else [node for node in nodes if node in self._node]

    def _numbers(self, groups: Sequence[Sequence[NodeId]]) -> Iterator[int]:
        """Return the numbers of the nodes in all groups, -1 for a node that is not in the cluster."""
        return map(self._node.get, chain.from_iterable(groups), repeat(-1))


def _ends(before: list[int], sizes: list[int]) -> Iterator[int]:
    """Yield the end positions of adjacent ranges of the given sizes, which follow the ranges in `before`.

    `before` contains the end positions of earlier ranges. If `before` is empty, the first range begins at 0.
    """
    return islice(accumulate(sizes, initial=before[-1] if before else 0), 1, None)


def make_state(simulation: Simulation) -> State:
    """Return the arrays for a simulation that has not begun.

    Raises NotCovered if the compiled loop cannot handle a task's cost or input.
    """
    jobs, nodes = simulation.jobs, simulation.nodes
    costs, inputs = Costs(), Inputs(simulation)
    cost_of: list[int] = []
    for job in jobs:
        cost_of += costs.places(_costs(simulation, job, inputs))
    speeds = {node.spec.core_speed for node in nodes}
    if any(cost.core_speed is not None and speeds != {cost.core_speed} for cost in costs.kept):
        raise NotCovered("tasks take longer on some nodes than on others")
    contention = simulation.setup.contention
    if contention and (why := flow_arrays.why_not(simulation, costs.kept)):
        raise NotCovered(why)
    tasks = _tasks(jobs, cost_of, inputs)
    job_table, stages = _jobs(jobs)
    near, near_task = _near(simulation, job_table, tasks, inputs)
    pools, pool_jobs = _pools(simulation, jobs, job_table)
    node_table, order = _nodes(simulation)
    slots = sum(node.spec.map_slots + node.spec.reduce_slots for node in nodes)
    state = State(
        sec=record(Seconds),
        num=record(Numbers),
        nodes=node_table,
        jobs=job_table,
        stages=stages,
        tasks=tasks,
        costs=costs.table(),
        pools=pools,
        pool_stages=records(2 * len(pools), plain.PoolStageEntry),
        pool_jobs=pool_jobs,
        ready=np.zeros(2 * len(job_table), np.int32),
        order=np.zeros(2 * len(pools), np.int32),
        dirty=np.zeros(2 * len(job_table), np.int32),
        skipped=np.zeros(len(job_table), np.int32),
        host=_array(inputs.hosts),
        holder=_array(inputs.holders),
        near=near,
        near_task=near_task,
        end_s=np.zeros(slots + 1),
        end_code=np.zeros(slots + 1, np.int64),
        commits=np.zeros(len(tasks), np.int32),
        ring_s=np.array([nodes[index].base_s % simulation.interval_s for index in order]),
        ring_node=_array(order),
        attempt_rows=np.zeros(len(tasks), np.int32),
        job_rows=np.zeros(len(job_table), np.int32),
        file_rows=records(FILES + slots + len(nodes), plain.FileEntry),
        **_of_nodes(simulation),
        **_of_reduces(simulation, len(tasks)),
        **(flow_arrays.fluid(simulation, len(tasks)) if contention else flow_arrays.no_fluid()),
    )
    _begin(state)
    _fill_numbers(simulation, state)
    if contention:
        flow_arrays.begin(simulation, state)
    return state


def _of_nodes(simulation: Simulation) -> Arrays:
    """Return the arrays whose width depends on the slots of a node, and the buffers for output rows."""
    specs = [node.spec for node in simulation.nodes]
    widest = max(spec.map_slots + spec.reduce_slots for spec in specs) + 1
    reducing = max(spec.reduce_slots for spec in specs) + 1
    return {
        "runs": np.zeros((len(specs), widest), np.int32),
        "finished": np.zeros((len(specs), widest), np.int32),
        "launched": np.zeros(widest, np.int32),
        "feeds": record_grid(len(specs), reducing, plain.FeedEntry),
        "reducing": record_grid(len(specs), reducing, plain.FeedEntry),
        "decision_rows": records(ROWS + len(simulation.jobs) + widest + 16, plain.DecisionEntry),
        "heartbeat_rows": records(ROWS + len(specs), plain.HeartbeatEntry),
    }


def _of_reduces(simulation: Simulation, tasks: int) -> Arrays:
    """Return the event queue, and the arrays for announcing map outputs to reduces."""
    nodes, jobs = simulation.nodes, simulation.jobs
    reduces = sum(job.reduces for job in jobs)
    slots = sum(node.spec.reduce_slots for node in nodes)
    chains = 3 + min(sum(1 for job in jobs if job.reduces), slots)
    widest = max(node.spec.reduce_slots for node in nodes) + 1
    rings = flow_arrays.replies(simulation, reduces, widest)
    events = 4 * len(nodes) + tasks + len(rings["replies"]) + 64
    return {
        **rings,
        "event_s": np.zeros(events),
        "event_code": np.zeros(events, np.int64),
        "boards": records(reduces, plain.BoardEntry),
        "bits": np.zeros((chains + 1, len(nodes) // WORD + 1), np.int64),
        "chains": records(chains, plain.ChainEntry),
        "chain_free": np.arange(chains - 1, 1, -1, dtype=np.int32),
        "waiting": np.zeros(chains, np.int32),
    }


def _begin(state: State) -> None:
    """Set fields of `state` to -1: pools have no place in their order, and chains wait for no timer."""
    state.pool_stages["place"] = -1
    state.chains["node"] = -1
    state.chains["until"] = -1.0


def _array(values: list[int]) -> Ints:
    return np.array(values or [0], np.int32)


def _costs(simulation: Simulation, job: JobSpec, inputs: Inputs) -> list[TaskCost]:
    """Return the costs of the job's maps, then of its reduces, and add the inputs of all to `inputs`. Raises
    NotCovered if a task exceeds its declared memory, or if the splits are numbered wrongly.
    """
    model = simulation.setup.costs
    maps = [model.map_cost(job, index) for index in range(job.maps)]
    reduces = [model.reduce_cost(job, index) for index in range(job.reduces)]
    for costs, demand in ((maps, job.map_demand), (reduces, job.reduce_demand)):
        limit, different = demand.memory_bytes, dict(zip(map(id, costs), costs, strict=True))
        if any(cost.memory_peak_bytes > limit for cost in different.values()):
            raise NotCovered(f"a task of {job.job} exceeds its memory")
    if any(split.index != place for place, split in enumerate(job.splits)):
        raise NotCovered(f"{job.job} misnumbers its splits")
    inputs.add(job.splits, maps, job.reduces)
    return maps + reduces


def _tasks(jobs: Sequence[JobSpec], cost_of: list[int], inputs: Inputs) -> Table[plain.TaskEntry]:
    count = len(cost_of)
    tasks = records(count, plain.TaskEntry)
    tasks["node"] = -1
    if not count:
        return tasks
    sizes = np.array([job.maps + job.reduces for job in jobs], np.int64)
    tasks["job"] = np.repeat(np.arange(len(jobs)), sizes)
    tasks["cost"] = cost_of
    tasks["is_map"] = list(chain.from_iterable([1] * job.maps + [0] * job.reduces for job in jobs))
    tasks["reads_block"] = inputs.reads
    for name, ends in (("hosts", inputs.hosts_end), ("holders", inputs.holders_end)):
        tasks[f"{name}_end"] = ends
        tasks[f"{name}_at"][1:] = ends[:-1]
    return tasks


def _jobs(jobs: Sequence[JobSpec]) -> tuple[Table[plain.JobEntry], Table[plain.StageEntry]]:
    table, stages = records(len(jobs), plain.JobEntry), records(2 * len(jobs), plain.StageEntry)
    first = 0
    for job, entry in zip(jobs, table, strict=False):
        entry.first, entry.maps, entry.reduces = first, job.maps, job.reduces
        first += job.maps + job.reduces
        entry.priority, entry.submit = job.priority.rank, job.submit_s
        entry.weight = PRIORITY_WEIGHTS[job.priority.rank]
    table["chain"] = -1
    table["skipped_heartbeat"] = -1
    stages["total"][0::2], stages["total"][1::2] = table["maps"], table["reduces"]
    stages["open"][0::2] = 1
    stages["place"] = -1
    return table, stages


def _near(
    simulation: Simulation, jobs: Table[plain.JobEntry], tasks: Table[plain.TaskEntry], inputs: Inputs
) -> tuple[Table[plain.NearEntry], Values]:
    """Return the groups of maps (of one job, with input on the same node or in the same rack) as a table, and
    an array of the maps in the order of the groups. Stores the range of each job's groups in `jobs`.
    """
    hosts = np.array(inputs.hosts, np.int64)
    owners = np.repeat(np.arange(len(tasks)), tasks["hosts_end"] - tasks["hosts_at"])
    owners, hosts = owners[hosts >= 0], hosts[hosts >= 0]
    racks, rack_of = _racks(simulation)
    groups, members = [], []
    at = done = 0
    for name, where, count in (("hosts", hosts, len(rack_of)), ("racks", rack_of[hosts], racks)):
        keys = tasks["job"][owners].astype(np.int64) * count + where
        order = np.argsort(keys, kind="stable")
        found, first = np.unique(keys[order], return_index=True)
        part = records(len(found), plain.NearEntry)[: len(found)]
        part["where"], part["cursor"] = found % count, first + done
        part["end"] = np.append(first[1:], len(order)) + done if len(found) else 0
        edges = np.searchsorted(found // count, np.arange(len(jobs) + 1)) + at
        jobs[f"{name}_at"], jobs[f"{name}_end"] = edges[:-1], edges[1:]
        groups.append(part)
        members.append(owners[order])
        at, done = at + len(found), done + len(order)
    near = records(at, plain.NearEntry)
    near[:at] = np.concatenate(groups)
    return near, np.concatenate([*members, [0]]).astype(np.int32)


def _racks(simulation: Simulation) -> tuple[int, Values]:
    """Return the number of racks, and an array with the number of each node's rack."""
    place: dict[str, int] = {}
    rack_of = [place.setdefault(node.spec.rack, len(place)) for node in simulation.nodes]
    return max(1, len(place)), np.array(rack_of, np.int64)


def _pools(
    simulation: Simulation, jobs: Sequence[JobSpec], table: Table[plain.JobEntry]
) -> tuple[Table[plain.PoolEntry], Ints]:
    """Return the table of pools (a single pool under FIFO), and the numbers of the jobs, grouped by pool."""
    policy = simulation.master.policy
    assert isinstance(policy, Composed)
    if says(policy.order, "compiled_as") == "fair":
        order = cast("Fair", policy.order)
        owners = [order.pool_of(job) for job in jobs]
        pools = sorted(set(owners))
        settings = [order.settings_of(name) for name in pools]
    else:
        owners, pools, settings = [""] * len(jobs), [""], [PoolSettings(inside="fifo")]
    place = {name: number for number, name in enumerate(pools)}
    table["pool"][: len(jobs)] = [place[name] for name in owners]
    entries = records(len(pools), plain.PoolEntry)
    for entry, setting in zip(entries, settings, strict=False):
        entry.weight, entry.min_share = setting.weight, setting.min_share
        entry.fifo = setting.inside == "fifo"
    entries["name"] = np.arange(len(entries))
    of_jobs = table["pool"][: len(jobs)]
    edges = np.searchsorted(np.sort(of_jobs), np.arange(len(entries) + 1))
    entries["at"], entries["end"], entries["oldest"] = edges[:-1], edges[1:], edges[:-1]
    return entries, _array(np.argsort(of_jobs, kind="stable").tolist())


def _nodes(simulation: Simulation) -> tuple[Table[plain.NodeEntry], list[int]]:
    """Return the table of nodes, and the node numbers in the order of their heartbeat timers.

    Sets `base_s` of each node of the simulation, the time (s) from which its heartbeat intervals count.
    """
    table = records(len(simulation.nodes), plain.NodeEntry)
    _, rack_of = _racks(simulation)
    timing = simulation.setup.timing
    for node, entry in zip(simulation.nodes, table, strict=False):
        spec = node.spec
        node.base_s = timing.begin_s + timing.request_s + node.phase_s - simulation.interval_s
        entry.number_0, entry.latency, entry.speed = node.base_s, node.start_s, spec.core_speed
        entry.disk, entry.network, entry.cpu_rate = spec.disk_bps, spec.network_bps, spec.cpu_rate
        entry.free_maps, entry.free_reduces = spec.map_slots, spec.reduce_slots
    table["rack"][: len(rack_of)] = rack_of
    for name in ("grid", "event", "timer", "board"):
        table[name] = -1
    interval_s = simulation.interval_s
    order = sorted(
        range(len(simulation.nodes)), key=lambda index: (simulation.nodes[index].base_s % interval_s, index)
    )
    table["rank"][order] = np.arange(len(order))
    return table, order


def _fill_numbers(simulation: Simulation, state: State) -> None:
    sec, num, timing = state.sec, state.num, simulation.setup.timing
    policy = simulation.master.policy
    assert isinstance(policy, Composed)
    sec.passed_at = sec.tick = -1.0
    sec.passing = inf
    sec.interval = simulation.interval_s
    sec.request, sec.committed = timing.request_s, timing.commit_s
    sec.replied = timing.reply_s + timing.decision_s
    sec.slowstart = CoreConfig().slowstart
    if says(policy.locality, "compiled_as") == "delay":
        delay = cast("Delay", policy.locality)
        num.is_delay = 1
        sec.node_wait, sec.rack_wait = delay.node_wait_s, delay.rack_wait_s
    num.is_fair = says(policy.order, "compiled_as") == "fair"
    num.writes_heartbeats = simulation.setup.heartbeat_rows
    num.writes_skips = simulation.setup.skip_rows
    num.replication = simulation.setup.cluster.blocks.replication
    num.jobs = len(simulation.jobs)
    num.chains = len(state.chain_free)
    sec.due = simulation.jobs[0].submit_s if simulation.jobs else inf
    entries = [(timing.begin_s, JOIN_EVENT << SHIFT | node.index) for node in simulation.nodes]
    if simulation.jobs:
        entries.append((max(float(sec.due), 0.0), DUE_EVENT << SHIFT))
    for place, (at_s, code) in enumerate(sorted(entries)):  # A sorted list is a valid heap.
        state.event_s[place], state.event_code[place] = at_s, code
    num.events = len(entries)

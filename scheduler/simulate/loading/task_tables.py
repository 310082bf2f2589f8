"""The tables of tasks and jobs with which the compiled loop begins, which are the same under every policy."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.order.pools import PRIORITY_WEIGHTS
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import Arrays, Table, Values, records
from schedbed.scheduler.simulate.compiled.input_tables import Inputs, near_tables
from schedbed.scheduler.simulate.launch_plans import times
from schedbed.scheduler.simulate.loading.slow_attempts import slow_attempts
from schedbed.scheduler.simulate.placed_files import PlacedSplits
from schedbed.scheduler.simulate.setup import CostModel, CostRuns, NotCovered, Setup, stage_costs
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.specs import JobSpec, TaskKind


class TaskTables(NamedTuple):
    """The tables of tasks, jobs and stages before a simulation, and all different costs of the tasks.

    `inputs` has the arrays that say where the inputs of maps are. The loop changes all tables but `costs`.
    """

    costs: list[TaskCost]
    cost_table: Table[plain.CostEntry]
    tasks: Table[plain.TaskEntry]
    jobs: Table[plain.JobEntry]
    stages: Table[plain.StageEntry]
    inputs: Arrays


def task_tables(setup: Setup, storage: Storage, jobs: Sequence[JobSpec]) -> TaskTables:
    """Return the tables for a simulation of `setup` under any policy.

    `storage` has the inputs, and `jobs` are all jobs by submit time. Raises NotCovered if the compiled loop
    cannot handle a task's cost or input.
    """
    costs, inputs = Costs(), Inputs(setup, storage)
    rows, counts = array("i"), array("q")
    for job in jobs:
        for cost, count in _costs(setup.costs, job, inputs):
            rows.append(costs.place(cost))
            counts.append(count)
    cost_of = np.repeat(rows, counts)
    speeds = {node.core_speed for node in setup.cluster.nodes}
    if any(cost.core_speed is not None and speeds != {cost.core_speed} for cost in costs.kept):
        raise NotCovered("tasks take longer on some nodes than on others")
    _slow_down(setup, jobs, costs, cost_of)
    tasks = _tasks(jobs, cost_of, inputs)
    job_table, stages = _jobs(jobs)
    arrays = inputs.arrays()
    arrays |= near_tables(setup.cluster.nodes, job_table, tasks, arrays["host"])
    return TaskTables(costs.kept, cost_table(costs.kept), tasks, job_table, stages, arrays)


class Costs:
    """The costs of all tasks, as rows of one table. Tasks with the same `TaskCost` object share a row."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self.kept: list[TaskCost] = []

    def place(self, cost: TaskCost) -> int:
        """Return the row number of the cost in the table. Adds a row for a new cost."""
        found = self._place.setdefault(id(cost), len(self.kept))
        if found == len(self.kept):
            self.kept.append(cost)
        return found

    def slower(self, places: Values, factor: float) -> Values:
        """Return the row numbers of the costs in the rows `places` with their CPU times multiplied by
        `factor`. Adds rows for them.
        """
        rows, which = np.unique(places, return_inverse=True)
        self.kept += [times(self.kept[row], factor) for row in rows.tolist()]
        return len(self.kept) - len(rows) + which


def cost_table(costs: Sequence[TaskCost]) -> Table[plain.CostEntry]:
    """Return a table with one record for each cost."""
    table = records(len(costs), plain.CostEntry)
    for column, values in zip(COST_COLUMNS, zip(*map(cost_row, costs), strict=True), strict=False):
        table[column][: len(costs)] = values
    return table


COST_COLUMNS = (
    *("cpu", "sort_cpu", "fetch_cpu", "fetched_byte_cpu"),
    *("read", "output", "spill", "peak", "duration", "merges"),
)
"""The fields of a `CostEntry`, in the order of the values of `cost_row`."""


def cost_row(cost: TaskCost) -> tuple[float, ...]:
    """Return the values of the cost's record, in the order of `COST_COLUMNS`."""
    return (
        cost.cpu_s,
        cost.sort_cpu_s,
        cost.fetch_cpu_s,
        cost.fetched_byte_cpu_s,
        cost.read_bytes,
        cost.output_bytes,
        cost.spill_bytes,
        cost.memory_peak_bytes,
        nan if cost.duration_s is None else cost.duration_s,
        cost.merges,
    )


def _costs(model: CostModel, job: JobSpec, inputs: Inputs) -> CostRuns:
    """Return the costs of the job's maps, then of its reduces, and add the inputs of all to `inputs`. Raises
    NotCovered if a task exceeds its declared memory, or if the splits are numbered wrongly.
    """
    maps, reduces = (stage_costs(model, job, kind) for kind in TaskKind)
    for runs, demand in ((maps, job.map_demand), (reduces, job.reduce_demand)):
        if any(cost.memory_peak_bytes > demand.memory_bytes for cost, _ in runs):
            raise NotCovered(f"a task of {job.job} exceeds its memory")
    if not isinstance(job.splits, PlacedSplits) and any(
        split.index != place for place, split in enumerate(job.splits)
    ):
        raise NotCovered(f"{job.job} misnumbers its splits")
    reads = np.ones(job.maps, bool)
    if not all(cost.read_bytes > 0 for cost, _ in maps):
        reads = np.repeat([cost.read_bytes > 0 for cost, _ in maps], [count for _, count in maps])
    inputs.add(job.splits, reads, job.reduces)
    return maps + reduces


def _slow_down(setup: Setup, jobs: Sequence[JobSpec], costs: Costs, cost_of: Values) -> None:
    """Replace the costs of slow attempts. `cost_of` has the row number in `costs` of each task's cost."""
    stragglers = setup.stragglers
    if stragglers.share:
        slow = slow_attempts(setup.seed, jobs, stragglers.share)
        cost_of[slow] = costs.slower(cost_of[slow], stragglers.factor)


def _tasks(jobs: Sequence[JobSpec], cost_of: Values, inputs: Inputs) -> Table[plain.TaskEntry]:
    count = len(cost_of)
    tasks = records(count, plain.TaskEntry)
    tasks["node"] = -1
    if not count:
        return tasks
    sizes = np.array([job.maps + job.reduces for job in jobs], np.int64)
    tasks["job"] = np.repeat(np.arange(len(jobs)), sizes)
    tasks["cost"] = cost_of
    shapes = np.array([(job.maps, job.reduces) for job in jobs], np.int64).ravel()
    tasks["is_map"] = np.repeat(np.tile([1, 0], len(jobs)), shapes)
    inputs.fill(tasks)
    return tasks


def _jobs(jobs: Sequence[JobSpec]) -> tuple[Table[plain.JobEntry], Table[plain.StageEntry]]:
    table, stages = records(len(jobs), plain.JobEntry), records(2 * len(jobs), plain.StageEntry)
    part = table[: len(jobs)]
    part["maps"], part["reduces"] = [job.maps for job in jobs], [job.reduces for job in jobs]
    ends = np.cumsum(part["maps"] + part["reduces"])
    part["first"] = ends - part["maps"] - part["reduces"]
    part["priority"] = ranks = [job.priority.rank for job in jobs]
    part["submit"] = [job.submit_s for job in jobs]
    part["weight"] = [PRIORITY_WEIGHTS[rank] for rank in ranks]
    table["chain"] = table["parts"] = -1
    stages["total"][0::2], stages["total"][1::2] = table["maps"], table["reduces"]
    stages["open"][0::2] = 1
    stages["place"] = -1
    return table, stages

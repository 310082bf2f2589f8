"""The tables of tasks and jobs with which the compiled loop begins, which are the same under every policy."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from math import nan
from typing import NamedTuple

import numpy as np

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.order.pools import PRIORITY_WEIGHTS
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import Arrays, Table, Values, records
from schedbed.scheduler.simulate.compiled.input_tables import Inputs, near_tables
from schedbed.scheduler.simulate.compiled.placing.block_placer import BLOCKS_AT_ONCE, BlockPlacer, place_files
from schedbed.scheduler.simulate.compiled.placing.twisters import draws_of, first_draws
from schedbed.scheduler.simulate.launch_plans import times
from schedbed.scheduler.simulate.placed_files import PlacedSplits
from schedbed.scheduler.simulate.setup import CostModel, CostRuns, NotCovered, Setup, stage_costs
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.chance import keys_of
from schedbed.tasks.specs import JobSpec, TaskKind, task_id


class TaskTables(NamedTuple):
    """The tables before a simulation, and all different costs. The loop changes all but `costs`."""

    costs: list[TaskCost]
    cost_table: Table[plain.CostEntry]
    tasks: Table[plain.TaskEntry]
    jobs: Table[plain.JobEntry]
    stages: Table[plain.StageEntry]
    inputs: Arrays


def task_tables(setup: Setup, storage: Storage, jobs: Sequence[JobSpec]) -> TaskTables:
    """Return the tables for a simulation under any policy. Raises NotCovered."""
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
        """Return rows of these costs with CPU times multiplied, which are added."""
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
    """Return costs of maps, then reduces, and add their inputs. Raises NotCovered.

    It is raised if a task exceeds its declared memory, or the splits are numbered wrongly.
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
    """Replace the costs of slow attempts in `cost_of`, rows of `costs` by task."""
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


# The attempts that are slow by chance in a compiled simulation, in which each task has a single attempt.

AT_ONCE = 1 << 16
"""The number of attempts whose random numbers are computed at a time."""


def slow_attempts(seed: int, jobs: Sequence[JobSpec], share: float) -> Values:
    """Return which tasks are slow as `Plans` decides, each job's maps and then reduces."""
    count = sum(job.maps + job.reduces for job in jobs)
    made, attempts = np.zeros(count, bool), _attempts(jobs)
    for low in range(0, count, AT_ONCE):
        keys = keys_of(seed, ("straggler",), islice(attempts, AT_ONCE))
        made[low : low + AT_ONCE] = first_draws(keys, 1) < share
    return made


def _attempts(jobs: Sequence[JobSpec]) -> Iterator[str]:
    for job in jobs:
        for kind, tasks in ((TaskKind.MAP, job.maps), (TaskKind.REDUCE, job.reduces)):
            yield from (f"{task_id(job.job, kind, index)}_0" for index in range(tasks))


# The choice of nodes for the blocks of many input files, with compiled code.

DRAWS_EACH = 4
"""The number of random numbers that are computed at first for each block, and for each file in addition."""


class InputPlacer(BlockPlacer):
    """A `BlockPlacer` that also chooses nodes for the blocks of many files at a time."""

    def place_inputs(self, blocks: Sequence[str], ends: Values, lengths: Values, count: int) -> Values:
        """Return each block's nodes, as `place_input`. `blocks` has each file's first, `ends` its end in `lengths`."""
        chosen, done, begin = np.empty((len(lengths), count), np.int64), 0, 0
        while done < len(ends):
            most = max(done + 1, int(np.searchsorted(ends, begin + BLOCKS_AT_ONCE, side="right")))
            end = int(ends[most - 1])
            if end - begin > BLOCKS_AT_ONCE:  # A large file has too many random numbers to keep.
                chosen[begin:end] = self.place_input(blocks[done], lengths[begin:end], count)
            else:
                part = slice(begin, end)
                self._place_part(blocks[done:most], ends[done:most] - begin, lengths[part], chosen[part])
            done, begin = most, end
        return chosen

    def _place_part(self, blocks: Sequence[str], ends: Values, lengths: Values, chosen: Values) -> None:
        """Choose nodes for the blocks of files as `place_inputs` does, and store them in `chosen`."""
        keys = keys_of(self._seed, ("place",), blocks, "file")
        draws = draws_of(keys, DRAWS_EACH * (np.diff(ends, prepend=0) + 1))
        done = begin = 0
        while True:
            rest = draws[DRAWS_EACH * (begin + done) :], DRAWS_EACH, ends[done:] - begin, lengths[begin:]
            done += place_files(self._field, *rest, chosen[begin:])
            if done == len(ends):
                return
            low, begin = int(ends[done - 1]) if done else 0, int(ends[done])
            chosen[low:begin] = self.place_input(blocks[done], lengths[low:begin], chosen.shape[1])
            done += 1

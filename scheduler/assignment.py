"""Assignments: the task, input and output of an attempt, from which its launch message is built.

Live agents receive an assignment as an AttemptSpec. Simulated nodes receive an AttemptPlan, which is built in
`scheduler.simulate.launch_plans` because simulated nodes need costs instead of file contents.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from schedbed.cluster.messages import Launch
from schedbed.cluster.spec import BlockSettings
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import AttemptSpec, BlockRange, JobSpec, Split, TaskKind, task_of, value


@value
class Assignment:
    """The task of one attempt, with its input and its output.

    `cost_index` is the position of the attempt's cost in the job's list of map costs or reduce costs; if only
    a `part` of a map runs, the attempt has a share of that cost. `output` is the path of the file that the
    attempt writes before the commit, or None for a map whose output goes to reduces.
    """

    attempt: str
    task: str
    job: JobSpec
    kind: TaskKind
    index: int
    part: Part | None
    cost_index: int
    memory_bytes: int
    output: str | None

    @property
    def split(self) -> Split | None:
        """Return the input of a map (possibly only a part of the original split), or None for a reduce.

        The split is made at each call, because simulations of many tasks keep no objects for splits.
        """
        if self.part is not None:
            return self.part.split(self.index)
        return self.job.splits[self.index] if self.kind is TaskKind.MAP else None


def aside(job: str, attempt: str = "") -> str:
    """Return the path of the file that an attempt writes before its output is committed.

    `job` and `attempt` are ids. Without `attempt`, return the folder with the uncommitted files of all
    attempts of the job.
    """
    folder = f"/out/{job}/_temporary"
    return f"{folder}/{attempt}" if attempt else folder


def assign(job: JobSpec, launch: Launch) -> Assignment:
    """Return the assignment (task, input and output) of the attempt that `launch` starts."""
    attempt, index, part = launch.attempt, launch.index, launch.part
    is_map = launch.kind is TaskKind.MAP
    demand = job.map_demand if is_map else job.reduce_demand
    writes_file = not is_map or not job.reduces
    return Assignment(
        attempt,
        task_of(attempt),
        job,
        launch.kind,
        index,
        part,
        index if part is None else part.whole.index,
        demand.memory_bytes,
        aside(launch.job, attempt) if writes_file else None,
    )


def attempt_spec(
    told: Assignment,
    file: Sequence[BlockRange],
    blocks: BlockSettings,
    *,
    seed: int,
    keep_budget: float = 0.0,
) -> AttemptSpec:
    """Return the message (AttemptSpec) with which a live agent starts the attempt of the assignment `told`.

    `file` is the list of blocks of the input file, `blocks` the settings of the block store, and `seed` the
    run's seed. `keep_budget` limits the blocks that nodes may keep as replicas after fetching them, as a
    share of the size of all inputs; 0 means that the attempt keeps none.
    """
    job, part, split = told.job, told.part, told.split
    costs = job.map_costs if split is not None else job.reduce_costs
    cost = costs[told.cost_index] if costs else None
    return AttemptSpec(
        attempt=told.attempt,
        task=told.task,
        job=job.job,
        kind=told.kind,
        index=told.index,
        app=job.app,
        params=dict(job.params),
        seed=seed,
        maps=job.maps,
        reduces=job.reduces,
        memory_bytes=told.memory_bytes,
        output=told.output,
        replication=blocks.replication,
        block_bytes=blocks.size_bytes,
        cost=part.cost(cost) if part is not None and cost is not None else cost,
        keep_budget=keep_budget,
        **({} if split is None else _input_of(split, file)),
    )


def _input_of(split: Split, file: Sequence[BlockRange]) -> dict[str, Any]:
    """Return the AttemptSpec fields for the input of a map: the byte range, and the blocks that contain it.

    `file` is the list of blocks of the input file in order. The result includes the blocks directly before and after
    the split, because records can cross its borders.
    """
    if split.file is None:
        return {"offset": split.offset, "length": split.length}
    first = bisect_right(file, split.offset, key=lambda block: block.offset + block.length)
    after = bisect_left(file, split.offset + split.length, key=lambda block: block.offset)
    low, high = (max(0, first - 1), after + 1) if first < after else (0, 0)
    last = file[-1] if file else None
    return {
        "file": split.file,
        "offset": split.offset,
        "length": split.length,
        "file_length": last.offset + last.length if last else 0,
        "blocks": tuple(file[low:high]),
    }

"""Assignments: the task, input and output of an attempt, from which its launch message is built.

Live agents get it as an AttemptSpec, simulated nodes as an AttemptPlan with costs instead of files
(`scheduler.simulate.launch_plans`).
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
    """The task of one attempt. `cost_index` is its place in the job's map or reduce costs.

    If only a `part` of a map runs, it has a share of the cost. `output` is written before the commit, None
    for a map with reduces.
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
        """Return a map's input, possibly a part. It is made at each call, as simulations keep no such objects."""
        if self.part is not None:
            return self.part.split(self.index)
        return self.job.splits[self.index] if self.kind is TaskKind.MAP else None


def aside(job: str, attempt: str = "") -> str:
    """Return the path of an attempt's file before its commit, or the folder of all such files of the job."""
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
    wait_s: float = 0.0,
) -> AttemptSpec:
    """Return the message with which a live agent starts the attempt. `file` has the input file's blocks.

    `keep_budget` limits the blocks that nodes keep after fetching them, as a share of all inputs; 0: none.
    The node starts the attempt `wait_s` emulated seconds later.
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
        wait_s=wait_s,
        **({} if split is None else _input_of(split, file)),
    )


def _input_of(split: Split, file: Sequence[BlockRange]) -> dict[str, Any]:
    """Return the AttemptSpec fields of a map's input, with the blocks beside the split: records cross its borders."""
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

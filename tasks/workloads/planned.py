"""A planned workload, before a cluster exists: input files to create, and jobs that read them.

All values are resolved (seconds and bytes, with `scale` applied), except the locations of blocks.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from operator import attrgetter, le
from typing import Any, Literal

from schedbed.tasks.chance import chance
from schedbed.tasks.own.program import PROGRAMS, files_of
from schedbed.tasks.specs import BlockRange, Cost, Demand, JobSpec, NodeId, Priority, Split, value

Locate = Callable[[str], Sequence[BlockRange]]
"""A function from a block-store path to its blocks, in order, with the nodes that hold replicas."""


@value
class InputFile:
    """A file to upload to the block store before the run.

    `source` is `file` (a whole real file), `generate` (data of a kind in `tasks.workloads.input_data`) or
    `filler` (bytes that only synthetic tasks read). `blocks` contains the lengths of the blocks in order.
    `preferred` contains the nodes for each block, from a trace. If it is None, the placement policy chooses
    the nodes.
    """

    _: KW_ONLY
    path: str  # Path in the block store, /in/...
    source: Literal["file", "generate", "filler"]
    blocks: tuple[int, ...]
    real_path: str | None = None
    generate: str | None = None
    seed: int = 0
    preferred: tuple[tuple[NodeId, ...], ...] | None = None

    @property
    def is_program(self) -> bool:
        """Return whether the file is part of the code of a user's application, not data."""
        return self.path.startswith(PROGRAMS)

    @property
    def length(self) -> int:
        """Return the length of the file in bytes."""
        return sum(self.blocks)


@value
class PlannedJob:
    """A job before its input is stored on nodes. Fields that `JobSpec` also has have the same meaning.

    If `input` is given, map i reads block i. If synthetic jobs with different amounts of input share a file,
    the maps read consecutive ranges of the file instead. Without `input`, the job has `maps` maps and no
    file.
    """

    _: KW_ONLY
    job: str
    name: str
    app: str
    user: str
    queue: str = "default"
    priority: Priority = Priority.NORMAL
    submit_s: float = 0.0
    deadline_s: float | None = None
    requested_s: float | None = None
    input: str | None = None
    maps: int
    reduces: int = 0
    map_demand: Demand
    reduce_demand: Demand
    params: Mapping[str, Any] = field(default_factory=dict)
    map_costs: tuple[Cost, ...] = ()
    reduce_costs: tuple[Cost, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the block-store paths of the files that the job reads: its input and its application's
        code.
        """
        own = tuple(file.path for file in files_of(self.params) if file.length)
        return own if self.input is None else (self.input, *own)


def build_job(
    planned: PlannedJob,
    locate: Locate,
    params: Mapping[str, Any] | None = None,
    splits: Sequence[Split] | None = None,
) -> JobSpec:
    """Return the planned job as a job to submit, after its input is stored.

    `locate` returns the blocks of a file. `params` are added to the planned parameters, such as the key
    ranges that the driver computes for the application sort. `splits` are the job's splits if the caller has
    made them. Raises ValueError if the file does not have the planned blocks.
    """
    return JobSpec(
        job=planned.job,
        name=planned.name,
        app=planned.app,
        user=planned.user,
        queue=planned.queue,
        priority=planned.priority,
        submit_s=planned.submit_s,
        deadline_s=planned.deadline_s,
        requested_s=planned.requested_s,
        splits=_splits(planned, locate) if splits is None else splits,
        reduces=planned.reduces,
        map_demand=planned.map_demand,
        reduce_demand=planned.reduce_demand,
        params={**planned.params, **(params or {})},
        map_costs=planned.map_costs,
        reduce_costs=planned.reduce_costs,
    )


def _splits(planned: PlannedJob, locate: Locate) -> tuple[Split, ...]:
    if planned.input is None:
        return tuple(Split(index=index) for index in range(planned.maps))
    blocks = sorted(locate(planned.input), key=lambda block: block.offset)
    if planned.map_costs and not suits(planned, [block.length for block in blocks]):
        return _ranges(planned, planned.input, blocks)
    if len(blocks) != planned.maps:
        raise ValueError(
            f"{planned.input} has {len(blocks)} blocks, {planned.job} was planned for {planned.maps}"
        )
    return tuple(
        Split(
            index=index,
            file=planned.input,
            offset=block.offset,
            length=block.length,
            block=block.block,
            hosts=tuple(block.nodes),
        )
        for index, block in enumerate(blocks)
    )


def suits(planned: PlannedJob, lengths: Sequence[int]) -> bool:
    """Return whether map i of the job can read block i of a file, whose blocks have `lengths` bytes.

    There must be a block for each map, with all the bytes that the map reads.
    """
    if len(lengths) != planned.maps:
        return False
    costs = planned.map_costs
    return not costs or all(map(le, map(attrgetter("read_bytes"), costs), lengths))


def _ranges(planned: PlannedJob, file: str, blocks: Sequence[BlockRange]) -> tuple[Split, ...]:
    """Return the splits of a synthetic job whose maps do not read one block each: consecutive ranges of a
    file.

    Raises ValueError if the maps read more bytes than the file has.
    """
    starts = [block.offset for block in blocks]
    end = blocks[-1].offset + blocks[-1].length
    if sum(cost.read_bytes for cost in planned.map_costs) > end:
        raise ValueError(f"{file} has {end} bytes, the maps of {planned.job} read more")
    splits, offset = [], 0
    for index, cost in enumerate(planned.map_costs):
        block = blocks[bisect_right(starts, min(offset, end - 1)) - 1]
        splits.append(
            Split(
                index=index,
                file=file,
                offset=offset,
                length=cost.read_bytes,
                block=block.block,
                hosts=tuple(block.nodes),
            )
        )
        offset += cost.read_bytes
    return tuple(splits)


def cut(length: int, block_bytes: int) -> tuple[int, ...]:
    """Return the lengths of a file's blocks: full blocks, then one block with the remainder.

    An empty file has one empty block.
    """
    full, rest = divmod(length, block_bytes)
    return (block_bytes,) * full + ((rest,) if rest or not full else ())


def vary(cost: Cost, variation: float, seed: int, job: str, kind: str, index: int) -> Cost:
    """Return a task's cost with CPU time, duration and written bytes multiplied by one random factor.

    The factor is lognormal with mean 1 and the coefficient of variation `variation`. It depends only on the
    seed and on the names and index of the task. The bytes that a map reads are not changed, since blocks are
    equal.
    """
    if variation <= 0:
        return cost
    sigma = math.sqrt(math.log1p(variation**2))
    factor = chance(seed, "cost", job, kind, index).lognormvariate(-(sigma**2) / 2, sigma)
    return replace(
        cost,
        cpu_s=cost.cpu_s * factor,
        write_bytes=round(cost.write_bytes * factor),
        duration_s=None if cost.duration_s is None else cost.duration_s * factor,
    )

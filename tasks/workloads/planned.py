"""A planned workload, before a cluster exists: all values are resolved except the locations of blocks."""

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
    """A file to upload before the run. `source` is `file`, `generate` (a kind of data) or `filler`.

    Only synthetic tasks read filler. `blocks` are lengths. `preferred` has each block's nodes from a trace;
    None leaves the choice to the placement policy.
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
        """Return whether the file is code of a user's application."""
        return self.path.startswith(PROGRAMS)

    @property
    def length(self) -> int:
        return sum(self.blocks)


@value
class PlannedJob:
    """A job before its input is stored. Fields are those of `JobSpec`.

    With `input`, map i reads block i, or consecutive ranges if synthetic jobs of different amounts share a
    file. Otherwise it has `maps` maps. The maps with the indices `unplaced` prefer no node, although their blocks
    are somewhere.
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
    after: str | None = None
    think_s: float = 0.0
    input: str | None = None
    maps: int
    reduces: int = 0
    map_demand: Demand
    reduce_demand: Demand
    params: Mapping[str, Any] = field(default_factory=dict)
    map_costs: tuple[Cost, ...] = ()
    reduce_costs: tuple[Cost, ...] = ()
    unplaced: tuple[int, ...] = ()
    running_map_limit: int = 0
    uber: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the block-store paths of the files that the job reads: its input and its application's code."""
        own = tuple(file.path for file in files_of(self.params) if file.length)
        return own if self.input is None else (self.input, *own)


def circle_in(waits: Sequence[int | None]) -> list[int]:
    """Return the numbers of jobs that wait for each other in a circle, or [] if there are none.

    `waits[i]` is the number of the job for which job i waits.
    """
    seen: set[int] = set()
    for first in range(len(waits)):
        chain: list[int] = []
        at: int | None = first
        while at is not None and at not in seen:
            seen.add(at)
            chain.append(at)
            at = waits[at]
        if at is not None and at in chain:
            return chain[chain.index(at) :]
    return []


def build_job(
    planned: PlannedJob,
    locate: Locate,
    params: Mapping[str, Any] | None = None,
    splits: Sequence[Split] | None = None,
) -> JobSpec:
    """Return the job to submit, after its input is stored. `params` adds, for example, sort's key ranges.

    `splits` are those the caller has made. Raises ValueError if the file does not have the planned blocks.
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
        after=planned.after,
        think_s=planned.think_s,
        splits=_splits(planned, locate) if splits is None else splits,
        reduces=planned.reduces,
        map_demand=planned.map_demand,
        reduce_demand=planned.reduce_demand,
        params={**planned.params, **(params or {})},
        map_costs=planned.map_costs,
        reduce_costs=planned.reduce_costs,
        running_map_limit=planned.running_map_limit,
        uber=planned.uber,
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
    unplaced = frozenset(planned.unplaced)
    return tuple(
        Split(
            index=index,
            file=planned.input,
            offset=block.offset,
            length=block.length,
            block=block.block,
            hosts=() if index in unplaced else tuple(block.nodes),
        )
        for index, block in enumerate(blocks)
    )


def suits(planned: PlannedJob, lengths: Sequence[int]) -> bool:
    """Return whether map i can read block i, which has all its bytes."""
    if len(lengths) != planned.maps:
        return False
    costs = planned.map_costs
    return not costs or all(map(le, map(attrgetter("read_bytes"), costs), lengths))


def _ranges(planned: PlannedJob, file: str, blocks: Sequence[BlockRange]) -> tuple[Split, ...]:
    """Return splits that are consecutive ranges of a file. Raises ValueError if it is too short."""
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
    """Return a file's block lengths, the remainder last; an empty file has one empty block."""
    full, rest = divmod(length, block_bytes)
    return (block_bytes,) * full + ((rest,) if rest or not full else ())


def vary(cost: Cost, variation: float, seed: int, job: str, kind: str, index: int) -> Cost:
    """Return a cost with CPU time, duration and written bytes times a lognormal factor of mean 1.

    It depends only on the seed and the task's names and index. Read bytes are unchanged, since blocks are
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

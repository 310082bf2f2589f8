"""Placed input files as arrays, and splits that are made from them only when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

from schedbed.cluster.blocks.namespace import block_id
from schedbed.scheduler.engines import Values
from schedbed.tasks.specs import BlockRange, NodeId, Split


@dataclass(slots=True, kw_only=True)
class PlacedFile:
    """An input file with its replicas' nodes, without objects for blocks.

    Block i is on `nodes[number]` for the numbers `holders[ends[i - 1]:ends[i]]`; `ends[-1]` counts as 0.
    `first` is the first block's number.
    """

    path: str
    first: int
    lengths: Sequence[int]
    nodes: Sequence[NodeId]
    holders: Values
    ends: Values
    offsets: Values

    def nodes_of(self, index: int) -> tuple[NodeId, ...]:
        """Return the nodes of the replicas of the block with the number `index` in the file."""
        low = int(self.ends[index - 1]) if index else 0
        numbers: list[int] = self.holders[low : int(self.ends[index])].tolist()
        return tuple([self.nodes[number] for number in numbers])

    def ranges(self) -> tuple[BlockRange, ...]:
        """Return all blocks as objects, in order."""
        ends = pairwise([0, *self.ends.tolist()])
        numbers: list[int] = self.holders.tolist()
        names = [self.nodes[number] for number in numbers]
        return tuple(
            BlockRange(
                block=block_id(self.first + index), offset=offset, length=length, nodes=tuple(names[low:high])
            )
            for index, (offset, length, (low, high)) in enumerate(
                zip(self.offsets.tolist(), self.lengths, ends, strict=True)
            )
        )


class PlacedSplits(Sequence[Split]):
    """The splits of a job whose map i reads block i of `file`. Each split is made when it is asked for."""

    __slots__ = ("file",)

    def __init__(self, file: PlacedFile) -> None:
        self.file = file

    def __len__(self) -> int:
        return len(self.file.lengths)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Split, ...]: ...
    def __getitem__(self, index: int | slice) -> Split | tuple[Split, ...]:
        if isinstance(index, slice):
            return tuple(self._make(place) for place in range(len(self))[index])
        return self._make(range(len(self))[index])

    def __iter__(self) -> Iterator[Split]:
        return map(self._make, range(len(self)))

    def _make(self, index: int) -> Split:
        file = self.file
        return Split(
            index=index,
            file=file.path,
            offset=int(file.offsets[index]),
            length=file.lengths[index],
            block=block_id(file.first + index),
            hosts=file.nodes_of(index),
        )

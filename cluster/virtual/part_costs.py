"""The cost of a part of a map's input split, in proportion to the bytes of the part."""

from __future__ import annotations

from dataclasses import replace

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.tasks.parts import Part


def part_cost(whole: TaskCost, part: Part) -> TaskCost:
    """Return the cost of processing a part of a split, where `whole` is the cost for the whole split.

    The costs of all parts add up to the whole cost, except for memory: each part needs the whole memory.
    """
    share, partitions, duration_s = part.share, whole.partitions, whole.duration_s
    return replace(
        whole,
        cpu_s=whole.cpu_s * share,
        sort_cpu_s=whole.sort_cpu_s * share,
        read_bytes=part.of(whole.read_bytes),
        output_bytes=part.of(whole.output_bytes),
        spill_bytes=part.of(whole.spill_bytes),
        partitions=None if partitions is None else tuple(map(part.of, partitions)),
        duration_s=None if duration_s is None else duration_s * share,
        records_in=part.of(whole.records_in),
        records_out=part.of(whole.records_out),
    )

"""The cost of a part of a split map, in proportion to the part's bytes."""

from __future__ import annotations

from dataclasses import replace

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.tasks.parts import Part


def part_cost(whole: TaskCost, part: Part) -> TaskCost:
    """Return the cost of a part of a map. The sizes of all parts add up to the sizes of the whole map.

    The memory of a part is the memory of the whole map.
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

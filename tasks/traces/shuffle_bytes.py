"""The shuffled bytes of a traced job, computed from its reduces, since the counters of maps do not show
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedbed.tasks.traces.trace import TraceTask


def fetched_bytes(reduces: Sequence[TraceTask]) -> int | None:
    """Return the number of bytes that all reduces fetched; None if no reduce has a count.

    Reduces without a count are assumed to have fetched the mean.
    """
    known = [task.input_bytes for task in reduces if task.input_bytes is not None]
    return round(sum(known) / len(known) * len(reduces)) if known else None


def sharing(maps: Sequence[TraceTask], fetched: int) -> tuple[TraceTask, ...]:
    """Return the maps with outputs scaled so that they add up to `fetched` bytes.

    The recorded outputs of maps are larger than the shuffle: they are counted before the combiner and
    compression (Hadoop's map output bytes), or include each spill and the index of each partition (bytes
    written to local files). Maps without a count get the mean of the others.
    """
    known = [task.output_bytes for task in maps if task.output_bytes is not None]
    whole = sum(known) / len(known) * len(maps) if known else 0.0
    factor = fetched / whole if whole else 0.0
    even = fetched / max(1, len(maps))
    return tuple(
        replace(task, output_bytes=round(even if not whole else (task.output_bytes or 0) * factor))
        if task.output_bytes is not None or not whole
        else task
        for task in maps
    )

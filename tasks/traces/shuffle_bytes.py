"""The number of bytes that a traced job shuffled, computed from its reduces. The counters of maps do not
contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedbed.tasks.traces.trace import TraceTask


def fetched_bytes(reduces: Sequence[TraceTask]) -> int | None:
    """Return the number of bytes that all reduces fetched, or None if no reduce has a known number.

    Reduces with an unknown number are assumed to have fetched the mean of the others.
    """
    known = [task.input_bytes for task in reduces if task.input_bytes is not None]
    return round(sum(known) / len(known) * len(reduces)) if known else None


def sharing(maps: Sequence[TraceTask], fetched: int) -> tuple[TraceTask, ...]:
    """Return the maps with their output bytes scaled so that the sum is `fetched`.

    The recorded outputs of maps are larger than the shuffle: they are counted before the combiner and
    compression (Hadoop's map output bytes), or include each spill and the index of each partition (bytes
    written to local files). A map with an unknown output is assumed to have the mean of the others.
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

"""The shuffled bytes of a traced job: what its reduces fetched, since the maps' own counters do not show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedbed.tasks.traces.trace import TraceTask


def fetched_bytes(reduces: Sequence[TraceTask]) -> int | None:
    """Return the bytes that all reduces fetched. Reduces without a count are given the mean; None if none has a
    count."""
    known = [task.input_bytes for task in reduces if task.input_bytes is not None]
    return round(sum(known) / len(known) * len(reduces)) if known else None


def sharing(maps: Sequence[TraceTask], fetched: int) -> tuple[TraceTask, ...]:
    """Return the maps with outputs that add up to what was fetched, in the proportions of their recorded outputs.

    Counters of maps are from before the combiner and compression (Hadoop's map output bytes), or include each spill
    and the index of every partition (bytes written to local files). Maps without a count get the mean of the others.
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

"""The locations of map outputs that the JobTracker has announced, as one list per job, which only grows.

A reduce reads new entries repeatedly. Its cursor is the number of entries that it has read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass(slots=True)
class _Job:
    outputs: list[Message] = field(default_factory=list)
    all_done: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class OutputBoard:
    """The locations of map outputs (fields of MapOutput) per job, which reduces read by long polls.

    A later entry replaces earlier entries for the same map index.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def add(self, job: str, outputs: list[Message], all_done: bool) -> None:
        """Append locations of map outputs to the list of a job, and wake waiting readers.

        `all_done` means that all maps of the job have finished.
        """
        known = self._jobs.setdefault(job, _Job())
        known.outputs.extend(outputs)
        known.all_done = all_done
        known.news.set()
        known.news = asyncio.Event()

    def forget(self, job: str) -> None:
        """Discard the list of a job that has ended, and wake waiting readers."""
        if known := self._jobs.pop(job, None):
            known.news.set()

    async def read(self, job: str, cursor: int, patience_s: float) -> Message:
        """Return {"cursor", "outputs", "all_done"}: the entries of the job's list after position `cursor`.

        If there are no such entries, wait up to `patience_s` seconds for new ones. The next call must pass
        the returned cursor.
        """
        known = self._jobs.setdefault(job, _Job())
        if cursor >= len(known.outputs) and not known.all_done:
            try:
                await asyncio.wait_for(known.news.wait(), patience_s)
            except TimeoutError:
                pass
        return {
            "cursor": len(known.outputs),
            "outputs": known.outputs[cursor:],
            "all_done": known.all_done,
        }

"""The map outputs announced by the JobTracker, by job: a growing list that reduces read with a cursor."""

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
    """The announced map outputs by job (fields of MapOutput), for long polls by reduces.

    A later entry replaces earlier entries of the same index.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def add(self, job: str, outputs: list[Message], all_done: bool) -> None:
        """Append new outputs of a job and wake waiting readers.

        `all_done` means that no more outputs follow.
        """
        known = self._jobs.setdefault(job, _Job())
        known.outputs.extend(outputs)
        known.all_done = all_done
        known.news.set()
        known.news = asyncio.Event()

    def forget(self, job: str) -> None:
        """Forget a job that has ended and wake waiting readers."""
        if known := self._jobs.pop(job, None):
            known.news.set()

    async def read(self, job: str, cursor: int, patience_s: float) -> Message:
        """Return {"cursor", "outputs", "all_done"} with the outputs after `cursor`.

        Waits up to `patience_s` seconds for new outputs if there are none.
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

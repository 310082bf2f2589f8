"""Stops reduces that hold the room that their own job's maps need.

Reduces that wait for maps could hold all the room that those maps need, for example after a node is lost. A job whose
maps find no room therefore gives up its youngest reduce, as YARN's RMContainerAllocator does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from schedbed.scheduler.policy import Kill
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

TakesMap = Callable[[NodeView, JobView], bool]


PATIENCE = 3
"""Timeouts after which a reduce goes for maps that do not start although there is room: the order keeps them back."""


class Stalls:
    """Waiting times of maps that wait while reduces of the same job run.

    After `timeout_s` seconds without room for the maps, one reduce is stopped. After `patience` timeouts one is
    stopped even if there is room; None for never.
    """

    def __init__(self, timeout_s: float, patience: int | None = PATIENCE) -> None:
        self.timeout_s = timeout_s
        self.patience_s = math.inf if patience is None else patience * timeout_s
        self._waits_s: dict[str, float] = {}  # since when, by job
        self._stalls_s: dict[str, float] = {}

    def kills(self, view: View, takes_map: TakesMap) -> list[Kill]:
        """Return the reduces to stop now. `takes_map(job)` returns whether any node has room for a map of the job."""
        kills: list[Kill] = []
        now_s, waits_s, stalls_s = view.now_s, self._waits_s, self._stalls_s
        self._waits_s, self._stalls_s = {}, {}
        for job in view.jobs.values():
            if not _waits(job):
                continue
            name = job.job
            self._waits_s[name] = waited_s = waits_s.get(name, now_s)
            why = ""
            if not _has_room(view, job, takes_map):
                self._stalls_s[name] = stalled_s = stalls_s.get(name, now_s)
                if now_s - stalled_s >= self.timeout_s:
                    why = "its job's maps find no room"
            if not why and now_s - waited_s >= self.patience_s:
                why = "its job's maps are kept back"
            if why and not job.reduces.killing:
                reduces = [a for a in job.attempts.values() if a.task.kind is TaskKind.REDUCE]
                kills.append(Kill(max(reduces, key=lambda attempt: attempt.serial), why))
                self._waits_s[name] = now_s
        return kills


def _waits(job: JobView) -> bool:
    """Return whether the job has unstarted maps while only its reduces run."""
    maps = job.maps
    return maps.unstarted > 0 and not maps.running and job.reduces.running > 0


def _has_room(view: View, job: JobView, takes_map: TakesMap) -> bool:
    return any(
        takes_map(node, job) and not view.avoids(job, node, TaskKind.MAP) for node in view.nodes.values()
    )

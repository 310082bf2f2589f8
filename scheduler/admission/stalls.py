"""Preemption of reduces that occupy the room that maps of the same job need.

Reduces wait for map outputs, so they can occupy all the room that the maps need, for example after a node is
lost. If a job's maps find no room, its youngest reduce is therefore killed, as in YARN's
RMContainerAllocator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from schedbed.scheduler.policy import Kill
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

TakesMap = Callable[[NodeView, JobView], bool]


PATIENCE = 3
"""The number of timeouts after which a reduce is stopped for maps that do not start despite room."""


class Stalls:
    """A record of the jobs whose maps wait while their reduces run, and of the time at which each wait began.

    If no node has room for a job's maps for `timeout_s` seconds, one reduce of the job is killed. If the maps
    have waited for `patience` times `timeout_s`, one reduce is killed even if there is room. If `patience` is
    None, this second rule is off.
    """

    def __init__(self, timeout_s: float, patience: int | None = PATIENCE) -> None:
        self.timeout_s = timeout_s
        self.patience_s = math.inf if patience is None else patience * timeout_s
        self._waits_s: dict[str, float] = {}  # Time at which the wait began, by job.
        self._stalls_s: dict[str, float] = {}  # Time since which no node has room for a map, by job.

    def kills(self, view: View, takes_map: TakesMap) -> list[Kill]:
        """Return orders to kill the reduces that have blocked maps for too long, at most one per job.

        `takes_map(node, job)` returns whether the node has room for a map of the job.
        """
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
    """Return whether the job has unstarted maps, no running maps, and running reduces."""
    maps = job.maps
    return maps.unstarted > 0 and not maps.running and job.reduces.running > 0


def _has_room(view: View, job: JobView, takes_map: TakesMap) -> bool:
    return any(
        takes_map(node, job) and not view.avoids(job, node, TaskKind.MAP) for node in view.nodes.values()
    )

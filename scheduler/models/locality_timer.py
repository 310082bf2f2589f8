"""The timer of Spark's locality wait, which decides how far from its data a task may start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

NODE, NO_PREFERENCE, RACK, ANY = range(4)
"""The levels, nearest first (TaskLocality). Not modeled: PROCESS_LOCAL, since nodes hold no cached partitions."""


class LocalityTimer:
    """The level that a set of tasks has reached (TaskSetManager of Spark 3.5.5).

    `waits_s`: the seconds at each level before the next one is allowed. The last level has none. `accepts`: no offer
    was declined since the last reset (TaskSchedulerImpl.noRejectsSinceLastReset).
    """

    __slots__ = ("accepts", "level", "reset_s", "waits_s")

    def __init__(self, now_s: float, waits_s: Mapping[int, float]) -> None:
        self.level, self.reset_s, self.accepts = NODE, now_s, True
        self.waits_s = waits_s

    def allowed(self, now_s: float, levels: Sequence[int], has_tasks: Callable[[int], bool]) -> int:
        """Return the level now. A level without tasks is left at once, others after their wait.

        `levels`: those that live nodes can satisfy, nearest first, ending with ANY. Source: getAllowedLocalityLevel.
        """
        self.level = _first(levels, self.level)
        while self.level != levels[-1]:
            if not has_tasks(self.level):
                self.reset_s = now_s
            elif now_s - self.reset_s >= self.waits_s[self.level]:
                self.reset_s += self.waits_s[self.level]
            else:
                break
            self.level = _first(levels, self.level + 1)
        return self.level

    def reset(self, now_s: float, level: int) -> None:
        """Restart the timer at `level` (resetDelayScheduleTimer)."""
        self.level, self.reset_s, self.accepts = level, now_s, True


def _first(levels: Sequence[int], least: int) -> int:
    return next(level for level in levels if level >= least)

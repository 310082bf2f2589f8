"""The free slots of a machine over time, by the ends that running jobs have promised and by reservations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import inf
from typing import Protocol

from schedbed.tasks.specs import NodeId

Places = Mapping[NodeId, int]
"""The number of slots of a job on each node; empty for a job that may take any slots."""


class StartPlan(Protocol):
    """The room for waiting jobs from now on. The caller asks about one job after the other, by priority."""

    @property
    def full(self) -> bool:
        """Return whether no job at all can start now."""
        ...

    def start(self, size: int, lasts_s: float) -> Places | None:
        """Take room for a job that starts now, or return None if there is none that delays no reservation."""
        ...

    def reserve(self, size: int, lasts_s: float) -> float:
        """Reserve room for a job at the earliest time, and return the time, infinity if nobody can know it."""
        ...


class SlotPlan:
    """The plan of EASY's papers, in which all slots are equal.

    `free` of the machine's `slots` belong to no job. `ends`: the promised end in s of each running job, and the
    slots that it holds. A promise that is over counts as an end at any moment. Two times that differ by up to
    `slack_s` seconds are equal.
    """

    def __init__(
        self, now_s: float, slots: int, free: int, ends: Iterable[tuple[float, int]], slack_s: float
    ) -> None:
        self._now_s, self._slots, self._left, self._slack_s = now_s, slots, free, slack_s
        freed = sorted((max(end_s, now_s), held) for end_s, held in ends if end_s < inf)
        self._ends_s = [end_s for end_s, _ in freed]
        self._free = list(accumulate((held for _, held in freed), initial=free))
        self._taken: list[tuple[float, float, int]] = []  # From, until, slots.

    @property
    def full(self) -> bool:
        return self._left <= 0

    def start(self, size: int, lasts_s: float) -> Places | None:
        """Implement `StartPlan.start`."""
        if size > self._left or not self._fits(self._now_s, size, lasts_s):
            return None
        self._left -= size
        self._take(self._now_s, size, lasts_s)
        return {}

    def reserve(self, size: int, lasts_s: float) -> float:
        """Implement `StartPlan.reserve`. What depends on an end that nobody promised might be possible at any time.

        Then all slots are kept from now on.
        """
        times_s = {self._now_s, *self._ends_s, *(end_s for _, end_s, _ in self._taken if end_s < inf)}
        at_s = next((time_s for time_s in sorted(times_s) if self._fits(time_s, size, lasts_s)), inf)
        if at_s == inf:
            self._take(self._now_s, self._slots, lasts_s)
        else:
            self._take(at_s, size, lasts_s)
        return at_s

    def _take(self, at_s: float, size: int, lasts_s: float) -> None:
        self._taken.append((at_s, at_s + lasts_s, size))

    def _fits(self, at_s: float, size: int, lasts_s: float) -> bool:
        """Return whether `size` slots are free from `at_s` on for `lasts_s` seconds.

        Slots become fewer only where something that was taken begins.
        """
        until_s = at_s + lasts_s - self._slack_s
        begins = (begin_s for begin_s, _, _ in self._taken if at_s < begin_s < until_s)
        return all(self._free_at(time_s) >= size for time_s in (at_s, *begins))

    def _free_at(self, time_s: float) -> int:
        late_s = time_s + self._slack_s
        taken = sum(size for begin_s, end_s, size in self._taken if begin_s <= time_s and end_s > late_s)
        return self._free[bisect_right(self._ends_s, late_s)] - taken

"""The free slots of a machine over time, by the ends that running jobs have promised and by reservations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf


class Timeline:
    """Free slots from `now_s` on.

    `ends`: the promised end in s of each running job, and the slots that it holds. A promise that is over counts as
    an end at any moment. Two times that differ by up to `slack_s` seconds are equal.
    """

    def __init__(self, now_s: float, free: int, ends: Iterable[tuple[float, int]], slack_s: float) -> None:
        self._now_s, self._slack_s = now_s, slack_s
        freed = sorted((max(end_s, now_s), held) for end_s, held in ends if end_s < inf)
        self._ends_s = [end_s for end_s, _ in freed]
        self._free = list(accumulate((held for _, held in freed), initial=free))
        self._taken: list[tuple[float, float, int]] = []  # From, until, slots.

    def take(self, at_s: float, size: int, lasts_s: float) -> None:
        """Take `size` slots from `at_s` on for `lasts_s` seconds."""
        self._taken.append((at_s, at_s + lasts_s, size))

    def fits(self, at_s: float, size: int, lasts_s: float) -> bool:
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

    def earliest_s(self, size: int, lasts_s: float) -> float:
        """Return the earliest time at which `fits` is true; infinity if that depends on an end nobody promised."""
        times_s = {self._now_s, *self._ends_s, *(end_s for _, end_s, _ in self._taken if end_s < inf)}
        return next((time_s for time_s in sorted(times_s) if self.fits(time_s, size, lasts_s)), inf)

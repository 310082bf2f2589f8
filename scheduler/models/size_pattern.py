"""Sizes of jobs from the times of their tasks, and slots by size (LsPS, xu2015 3.1.4.1): the arithmetic alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from schedbed.tasks.specs import TaskKind

UNKNOWN_S = 1.0
"""How long a task is taken to last before any has ended."""


class MeanTimes:
    """The mean time of tasks by kind; what is not known yet is as in `wider`, which learns from these tasks, too."""

    __slots__ = ("_count", "_sum_s", "_wider")

    def __init__(self, wider: MeanTimes | None = None) -> None:
        self._wider = wider
        self._sum_s = dict.fromkeys(TaskKind, 0.0)
        self._count = dict.fromkeys(TaskKind, 0)

    def add(self, kind: TaskKind, took_s: float) -> None:
        """Learn from one task."""
        self._sum_s[kind] += took_s
        self._count[kind] += 1
        if self._wider is not None:
            self._wider.add(kind, took_s)

    def knows(self, kind: TaskKind) -> bool:
        """Has one of these tasks ended?"""
        return self._count[kind] > 0

    def mean_s(self, kind: TaskKind) -> float:
        """Return the mean time of a task of that kind."""
        if self._count[kind]:
            return self._sum_s[kind] / self._count[kind]
        return UNKNOWN_S if self._wider is None else self._wider.mean_s(kind)

    def size_s(self, maps: int, reduces: int) -> float:
        """Return the size of a job: its tasks times their mean time, in seconds of a slot."""
        return maps * self.mean_s(TaskKind.MAP) + reduces * self.mean_s(TaskKind.REDUCE)


def slots_by_size(slots: float, sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return equation 2, mended: each user's part of `slots` by mean job size (above 0); they add up to all."""
    if not sizes:
        return {}
    total = sum(1 / size for size in sizes.values())
    equal = (1 - alpha) / len(sizes)
    return {user: slots * (alpha / size / total + equal) for user, size in sizes.items()}


def variation(sizes: Sequence[float]) -> float:
    """Return the coefficient of variation; 0 for fewer than two sizes."""
    mean = fmean(sizes) if len(sizes) > 1 else 0.0
    return pstdev(sizes) / mean if mean > 0 else 0.0

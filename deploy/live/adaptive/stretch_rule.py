"""The rule that computes a run's stretch from the CPU that other programs use, as pure functions.

The stretch is the number of real seconds per emulated second.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Factors on the first stretch; the last one is the maximum."""
SHARE = 0.6
"""The share of the remaining cores that nodes may use when all nodes are busy.

The share is smaller than with `stretch: auto` on an idle host: the emulation's own work stays the same, and with
fewer cores some process waits sooner.
"""
IGNORED = 0.1
"""The share of the host's cores that others may use without an effect.

It covers system services and the error of a measurement: the kernel counts busy time in samples, with a standard
deviation of 0.06 cores on two cores in half a second.
"""
HOLD_S = 2.0
"""Real seconds for which a smaller stretch must have been enough before the stretch falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The stretch (real seconds per emulated second) that a run needs at one measurement of the host's load.

    `step` is the needed stretch divided by the stretch at the start of the run. `is_enough` is False if even
    the largest allowed factor is too small.
    """

    step: float
    is_enough: bool


def needed(declared: float, cores: float, others: float) -> Need:
    """Return the smallest factor in `STEPS` by which to slow down the run so that its nodes have enough CPU.

    The factor multiplies the stretch (real seconds per emulated second) at the run's start. `declared` is the
    number of host cores that the nodes need at that stretch, `cores` is the number of cores of the host, and
    `others` is the number that other programs use. The factor is 1 if `others` is at most the share `IGNORED`
    of `cores`. The nodes may use a part of the cores that other programs leave: the share `SHARE`, or
    `declared` / `cores` if that is larger. If no factor is enough, return the largest factor with `is_enough`
    false.
    """
    if others <= IGNORED * cores:
        return Need(step=1.0, is_enough=True)
    left = max(0.0, cores - others) * min(1.0, max(SHARE, declared / cores))
    for step in STEPS:
        if declared <= step * left:
            return Need(step=step, is_enough=True)
    return Need(step=STEPS[-1], is_enough=False)


class StretchRule:
    """The stretch of a run (real seconds per emulated second), which is adapted to the host's load.

    The stretch rises immediately. It falls after a smaller stretch has been enough for `HOLD_S` seconds.
    `first` is the stretch at the start of the run, `declared` the number of host cores that the nodes need at
    this stretch, and `cores` the number of cores of the host.
    """

    def __init__(self, first: float, declared: float, cores: float) -> None:
        self._first = first
        self._declared = declared
        self._cores = cores
        self._step = 1.0
        self._looks: list[
            tuple[float, float, float]
        ] = []  # (time, factor, cores of others) since a smaller stretch is enough.
        self.others = 0.0  # Host cores that others used at the last change.
        self.is_enough = True

    @property
    def stretch(self) -> float:
        """Return the current stretch, in real seconds per emulated second."""
        return round(self._first * self._step, 6)

    def look(self, now_s: float, others: float) -> bool:
        """Adapt the stretch to `others`, the number of host cores that other programs use at the time
        `now_s`.

        Return whether the stretch has changed.
        """
        need = needed(self._declared, self._cores, others)
        self.is_enough = need.is_enough
        before = self._step
        if need.step >= before:
            looks, self._looks = [(now_s, need.step, others)], []
        else:
            looks = self._looks = [*self._looks, (now_s, need.step, others)]
            if now_s - looks[0][0] < HOLD_S:
                return False
            self._looks = []
        self._step = max(step for _, step, _ in looks)
        if self._step == before:
            return False
        self.others = max(others for _, _, others in looks)
        return True

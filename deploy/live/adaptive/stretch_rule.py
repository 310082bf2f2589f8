"""The stretch that is needed, given the CPU that others take of the host. Pure."""

from __future__ import annotations

from dataclasses import dataclass

STEPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Times the first stretch; the last is the most."""
SHARE = 0.6
"""The share of the cores that others leave which nodes may take when all are busy. It is less than what `stretch: auto`
gives them of an idle host: the emulation's own work is the same, and with fewer cores somebody waits sooner."""
IGNORED = 0.1
"""The share of the host's cores that others may take without an effect: a system's own services, and what a look may be
off by, since the kernel counts busy time in samples (0.06 of two cores, standard deviation, in half a second)."""
HOLD_S = 2.0
"""Real seconds for which less must have been enough before the stretch falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The step of the stretch that a look found necessary, and whether it is enough."""

    step: float
    is_enough: bool


def needed(declared: float, cores: float, others: float) -> Need:
    """Return the least step at which nodes of `declared` host cores fit beside what others take.

    `declared` is at the first stretch. Nodes may take `SHARE` of what is left, or the share of the idle host that
    they declared if that is more.
    """
    if others <= IGNORED * cores:
        return Need(step=1.0, is_enough=True)
    left = max(0.0, cores - others) * min(1.0, max(SHARE, declared / cores))
    for step in STEPS:
        if declared <= step * left:
            return Need(step=step, is_enough=True)
    return Need(step=STEPS[-1], is_enough=False)


class StretchRule:
    """The stretch during a run. It rises immediately, and falls when less has been enough for `HOLD_S`."""

    def __init__(self, first: float, declared: float, cores: float) -> None:
        self._first = first
        self._declared = declared
        self._cores = cores
        self._step = 1.0
        self._looks: list[
            tuple[float, float, float]
        ] = []  # time, step and others of those that count for a fall
        self.others = 0.0  # host cores that others used when the stretch changed last
        self.is_enough = True

    @property
    def stretch(self) -> float:
        """Return the current stretch, in real seconds per emulated second."""
        return round(self._first * self._step, 6)

    def look(self, now_s: float, others: float) -> bool:
        """Process the host cores that others use. Return whether the stretch has changed."""
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

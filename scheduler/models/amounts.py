"""Amounts of memory and vcores, which YARN's containers take and its queues hold."""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

from schedbed.tasks.specs import Demand


class Amount(NamedTuple):
    """An amount of memory and of vcores."""

    memory_bytes: float = 0.0
    vcores: float = 0.0

    def plus(self, other: Amount | Demand, times: float = 1) -> Amount:
        return Amount(self.memory_bytes + times * other.memory_bytes, self.vcores + times * other.vcores)

    def times(self, factor: float) -> Amount:
        return Amount(self.memory_bytes * factor, self.vcores * factor)

    def fits(self, room: Amount) -> bool:
        """Return whether neither part exceeds that of `room` (Resources.fitsIn)."""
        return self.memory_bytes <= room.memory_bytes and self.vcores <= room.vcores

    def holds(self, demand: Demand) -> int:
        """Return how many containers fit, negative if room lacks (computeAvailableContainers)."""
        return int(min(self._counts(demand), default=0))

    def takes(self, demand: Demand) -> int:
        """Return how many containers have at least this room (divideAndCeilContainers)."""
        return ceil(max(self._counts(demand), default=0))

    def _counts(self, demand: Demand) -> list[float]:
        pairs = ((self.memory_bytes, demand.memory_bytes), (self.vcores, demand.vcores))
        return [have / need for have, need in pairs if need]


NOTHING, UNLIMITED = Amount(), Amount(inf, inf)


def amount_of(demand: Demand) -> Amount:
    """Return the amount that one container of this demand takes."""
    return Amount(demand.memory_bytes, demand.vcores)

"""Measurement of the speed of a host's cores: the CPU seconds of a fixed computation.

The computation resembles tasks: words are counted, numbers are sorted, bytes are compressed. Apart from
caches and shared cores, CPU time does not depend on other load of the host. The minimum of several rounds is
used.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from schedbed.tasks.chance import array_chance

ROUNDS = 10
WORDS = 20_000
NUMBERS = 100_000
TURNS = 60_000
ALIKE = 0.02
"""Cores whose speeds differ by at most this fraction count as equal: two trials of a core differ as much."""


class CoreTrial:
    """The fixed computation of a core trial, with the same input on every host."""

    def __init__(self) -> None:
        chance = array_chance(1, "core trial")
        self._words = b" ".join(b"w%d" % number for number in chance.integers(0, 500, WORDS))
        self._numbers = chance.integers(0, 2**31, NUMBERS)

    def run(self) -> None:
        """Run the computation once, which takes about 10 ms."""
        Counter(self._words.split())
        np.sort(self._numbers)
        zlib.compress(self._words, 1)
        value = 1
        for _ in range(TURNS):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF

    def least_s(self, rounds: int = ROUNDS, cpu_clock: Callable[[], float] = time.process_time) -> float:
        """Return the minimum CPU time of `rounds` runs, in seconds."""
        self.run()
        taken: list[float] = []
        for _ in range(rounds):
            began_s = cpu_clock()
            self.run()
            taken.append(cpu_clock() - began_s)
        return min(taken)


def relative_speeds(trial_s: Mapping[str, float]) -> dict[str, float]:
    """Return the core speed of each host relative to the slowest host, which has speed 1.

    `trial_s` holds the CPU seconds of the core trial by host. A speed within ALIKE of 1 counts as 1. No speed
    is below 1, so an emulated node never needs more of a host's cores than it declares.
    """
    slowest_s = max(trial_s.values(), default=0.0)
    speeds = {host: slowest_s / taken_s for host, taken_s in trial_s.items()}
    return {host: 1.0 if speed <= 1 + ALIKE else round(speed, 4) for host, speed in speeds.items()}

"""Measurement of a core's speed: the least CPU time of rounds of a fixed computation, which resembles tasks."""

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
    """The fixed computation that measures the speed of a core. Its input is the same on every host."""

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
        """Return the least CPU seconds of a round. `cpu_clock` reads this process's CPU time."""
        self.run()
        taken: list[float] = []
        for _ in range(rounds):
            began_s = cpu_clock()
            self.run()
            taken.append(cpu_clock() - began_s)
        return min(taken)


def relative_speeds(trial_s: Mapping[str, float]) -> dict[str, float]:
    """Return each host's speed relative to the slowest, which is 1, from its trial's CPU seconds.

    Speeds above 1 by at most ALIKE (2%) become 1. An emulated core thus needs at most its declared fraction
    of any host's core.
    """
    slowest_s = max(trial_s.values(), default=0.0)
    speeds = {host: slowest_s / taken_s for host, taken_s in trial_s.items()}
    return {host: 1.0 if speed <= 1 + ALIKE else round(speed, 4) for host, speed in speeds.items()}

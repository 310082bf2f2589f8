"""Artificial work of tasks: using CPU time, and random bytes to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedbed.tasks.chance import array_chance
from schedbed.tasks.pacing import own_cpu_s

PATTERN_BYTES = 256 * 1024
TURNS = 500  # Loop iterations between two clock reads: 0.03 ms; 0.6 ms on 1/20 of a core.


def burn(until_cpu_s: float, tick: Callable[[], None], cpu_clock: Callable[[], float] = own_cpu_s) -> None:
    """Compute until this process has used `until_cpu_s` seconds of CPU time since its start.

    `tick` is called repeatedly. `cpu_clock` returns the CPU time used so far.
    """
    value = 1
    while cpu_clock() < until_cpu_s:
        for _ in range(TURNS):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF
        tick()


class Filler:
    """An endless sequence of incompressible bytes. Fillers of the same seed and names give the same bytes."""

    def __init__(self, seed: int, *names: object) -> None:
        self._seed, self._names = seed, names
        self._pattern = memoryview(b"")  # Created for the first piece, since an attempt may write nothing.
        self._at = 0

    def take(self, length: int) -> Iterator[memoryview]:
        """Yield the next `length` bytes in pieces."""
        while length > 0:
            self._pattern = self._pattern or memoryview(self._made())
            piece = self._pattern[self._at : self._at + length]
            self._at = (self._at + len(piece)) % PATTERN_BYTES
            length -= len(piece)
            yield piece

    def _made(self) -> bytes:
        return array_chance(self._seed, *self._names).bytes(PATTERN_BYTES)

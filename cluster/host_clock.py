"""Measures, during a run, the offset of a host's clock from the clock of the driver's host, with an error bound.

Pure except for its arguments: a clock, and a function that asks for the other host's time.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedbed.tasks.specs import Counters

if TYPE_CHECKING:
    from schedbed.cluster.messages import AttemptReport, AttemptStatus

ROUND_TRIPS = 50
"""Questions for one reading; the one with the least round trip counts."""
EVERY_S = 10.0
"""Real seconds between two readings."""
AGAIN_S = 0.2
"""Real seconds until the next try while there is no reading yet."""
DRIFT = 100e-6
"""Clocks of two hosts may run apart by this share of the elapsed time, more than quartz does."""

Exchange = tuple[float, float, float]
"""A question about the time: asked (own clock), answer (the other's clock), answered (own clock)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """A reading: at `at_s` (own time of day) the own clock was ahead of the other by `offset_s`, plus or minus
    `bound_s`."""

    at_s: float
    offset_s: float
    bound_s: float


def least_round_trip(exchanges: Iterable[Exchange]) -> ClockReading:
    """Return the reading of the exchange with the least round trip.

    The answer was given at some time between question and arrival, so half of the round trip bounds the error.
    """
    asked_s, said_s, answered_s = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    middle_s = (asked_s + answered_s) / 2
    return ClockReading(at_s=middle_s, offset_s=middle_s - said_s, bound_s=(answered_s - asked_s) / 2)


async def read_clock(
    ask: Callable[[], Awaitable[float]], now_s: Callable[[], float], times: int = ROUND_TRIPS
) -> ClockReading:
    """Ask for the other's time of day `times` times, one after the other, and return the best reading. Errors of
    `ask` are raised."""
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = now_s()
        said_s = await ask()
        exchanges.append((asked_s, said_s, now_s()))
    return least_round_trip(exchanges)


class ClockTrack:
    """The readings of one clock during a run, and the interpolated offset at any time."""

    def __init__(self) -> None:
        self.readings: list[ClockReading] = []

    def add(self, reading: ClockReading) -> None:
        """Add a later reading, unless the previous one is still more precise.

        A reading on a busy host has a wide bound. It is dropped if an earlier reading, widened by the drift since, is
        more precise and does not contradict it. A contradiction means that a clock was set.
        """
        if self.readings:
            last = self.readings[-1]
            elapsed_s = max(0.0, reading.at_s - last.at_s)
            known_to_s = last.bound_s + DRIFT * elapsed_s
            agrees = abs(reading.offset_s - last.offset_s) <= reading.bound_s + known_to_s
            if agrees and reading.bound_s > known_to_s:
                return
        self.readings.append(reading)

    def offset_s(self, at_s: float) -> float:
        """Return the offset at a time of day of the own clock, in seconds; 0 without a reading."""
        readings = self.readings
        if not readings:
            return 0.0
        index = bisect.bisect_left(readings, at_s, key=lambda reading: reading.at_s)
        if index in (0, len(readings)):
            return readings[min(index, len(readings) - 1)].offset_s
        before, after = readings[index - 1], readings[index]
        share = (at_s - before.at_s) / (after.at_s - before.at_s)
        return before.offset_s + share * (after.offset_s - before.offset_s)


class HostScale:
    """Scale factors that make figures of a host comparable: its clock's offset, and the speed of its cores.

    `speed` is relative to a core of the slowest host.
    """

    def __init__(self, track: ClockTrack | None = None, speed: float = 1.0) -> None:
        self._track = track or ClockTrack()
        self.speed = speed

    def run_s(self, at_s: float, epoch_s: float, stretch: float) -> float:
        """Return the time since the run's start by the driver's clock, given the time by the host's clock."""
        return at_s - self._track.offset_s(epoch_s + at_s * stretch) / stretch

    def status(self, said: AttemptStatus, epoch_s: float, stretch: float) -> AttemptStatus:
        """Return a running attempt's status with its time converted to the driver's clock."""
        if said.started_s is None or not self._track.readings:
            return said
        return type(said)(
            said.attempt, said.progress, said.phase, self.run_s(said.started_s, epoch_s, stretch)
        )

    def report(self, said: AttemptReport, epoch_s: float, stretch: float) -> AttemptReport:
        """Return a report with times converted to the driver's clock, and CPU time converted to a core of the slowest
        host."""
        if not self._track.readings and self.speed == 1:
            return said

        def shifted(at_s: float) -> float:
            return self.run_s(at_s, epoch_s, stretch)

        found = said.counters
        ends = {
            name: None if at_s is None else shifted(at_s)
            for name, at_s in (("shuffle_end", found.shuffle_end), ("sort_end", found.sort_end))
        }
        counters: Counters = replace(found, cpu_s=found.cpu_s * self.speed, **ends)
        return replace(said, start_s=shifted(said.start_s), end_s=shifted(said.end_s), counters=counters)


async def follow_clock(
    track: ClockTrack, read: Callable[[], Awaitable[ClockReading]], every_s: float = EVERY_S
) -> None:
    """Add a reading to the track now and every `every_s` seconds, until canceled. Failed readings are skipped."""
    while True:
        with contextlib.suppress(Exception):  # a fault may keep down who is asked
            track.add(await read())
        await asyncio.sleep(every_s if track.readings else AGAIN_S)

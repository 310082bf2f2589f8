"""Measurement of the offset, with an error bound, of a host's clock from that of the run's driver. No I/O here."""

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
"""Number of questions for one reading. The question with the shortest round trip is used."""
EVERY_S = 10.0
"""Real seconds between two readings."""
AGAIN_S = 0.2
"""Real seconds between tries while there is no reading yet."""
DRIFT = 100e-6
"""Maximum drift between two hosts' clocks, as a fraction of the elapsed time; quartz clocks drift less."""

Exchange = tuple[float, float, float]
"""A question about the time: sent (own clock), answer (the other host's clock), received (own clock)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """At the Unix time `at_s`, this clock was `offset_s` ahead of the other, within `bound_s` seconds."""

    at_s: float
    offset_s: float
    bound_s: float


def least_round_trip(exchanges: Iterable[Exchange]) -> ClockReading:
    """Return the reading of the shortest exchange. The answer's time is unknown within it: half is the error."""
    asked_s, said_s, answered_s = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    middle_s = (asked_s + answered_s) / 2
    return ClockReading(at_s=middle_s, offset_s=middle_s - said_s, bound_s=(answered_s - asked_s) / 2)


async def read_clock(
    ask: Callable[[], Awaitable[float]], now_s: Callable[[], float], times: int = ROUND_TRIPS
) -> ClockReading:
    """Return the most precise of several readings. `ask` returns the other host's time; its errors pass."""
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = now_s()
        said_s = await ask()
        exchanges.append((asked_s, said_s, now_s()))
    return least_round_trip(exchanges)


class ClockTrack:
    """The measured offsets of a host's clock during a run. Offsets between measurements are interpolated."""

    def __init__(self) -> None:
        self.readings: list[ClockReading] = []

    def add(self, reading: ClockReading) -> None:
        """Add a reading, unless the last one agrees and is more precise even with the drift since.

        Readings that disagree mean that one of the clocks was set.
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
        """Return the interpolated offset at this host's Unix time `at_s`, or 0 without readings."""
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
    """Makes hosts' times and CPU seconds comparable. `speed` is relative to the slowest host's cores."""

    def __init__(self, track: ClockTrack | None = None, speed: float = 1.0) -> None:
        self._track = track or ClockTrack()
        self.speed = speed

    def run_s(self, at_s: float, epoch_s: float, stretch: float) -> float:
        """Convert a time by this host's clock to the driver's, both in emulated seconds since the run's start."""
        return at_s - self._track.offset_s(epoch_s + at_s * stretch) / stretch

    def status(self, said: AttemptStatus, epoch_s: float, stretch: float) -> AttemptStatus:
        """Return a status with its start by the driver's clock."""
        if said.started_s is None or not self._track.readings:
            return said
        return type(said)(
            said.attempt, said.progress, said.phase, self.run_s(said.started_s, epoch_s, stretch)
        )

    def report(self, said: AttemptReport, epoch_s: float, stretch: float) -> AttemptReport:
        """Return a report with times by the driver's clock and CPU seconds of a core of the slowest host."""
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
    """Add a reading every `every_s` real seconds until canceled. A failed one is skipped."""
    while True:
        with contextlib.suppress(Exception):  # A fault may keep the asked process down.
            track.add(await read())
        await asyncio.sleep(every_s if track.readings else AGAIN_S)

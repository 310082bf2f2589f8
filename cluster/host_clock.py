"""Measurement of the offset between a host's clock and the clock of the run's driver, with an error bound.

The driver is the process that controls the run. The functions do no I/O: the caller passes them a clock, and
a function that asks the other host for its time.
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
    """A measured offset between this host's clock and the clock of another host.

    When this host's clock showed the Unix time `at_s`, it was `offset_s` seconds ahead of the other host's
    clock. The error of the offset is at most `bound_s` seconds.
    """

    at_s: float
    offset_s: float
    bound_s: float


def least_round_trip(exchanges: Iterable[Exchange]) -> ClockReading:
    """Return the clock offset computed from the exchange with the shortest round trip.

    The other host read its clock at an unknown time between question and answer, so the error is at most half
    of the round trip.
    """
    asked_s, said_s, answered_s = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    middle_s = (asked_s + answered_s) / 2
    return ClockReading(at_s=middle_s, offset_s=middle_s - said_s, bound_s=(answered_s - asked_s) / 2)


async def read_clock(
    ask: Callable[[], Awaitable[float]], now_s: Callable[[], float], times: int = ROUND_TRIPS
) -> ClockReading:
    """Measure the clock offset `times` times in sequence, and return the most precise reading.

    `ask` returns the other host's Unix time, and `now_s` returns this host's. Exceptions of `ask` are passed
    on.
    """
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
        """Add a new reading, unless the previous reading agrees with it and is still more precise.

        The previous reading becomes less precise with time: the clock drift that is possible since then is
        added to its error bound. If the readings disagree, one of the two clocks was set, and the new reading
        is added.
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
        """Return the interpolated clock offset in seconds when this host's clock showed the Unix time `at_s`.

        The offset is 0 if there is no reading.
        """
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
    """The conversions that make times and CPU seconds of different hosts comparable.

    `track` contains the measured offsets between the host's clock and the clock of the run's driver. `speed`
    is the speed of the host's cores relative to the cores of the slowest host.
    """

    def __init__(self, track: ClockTrack | None = None, speed: float = 1.0) -> None:
        self._track = track or ClockTrack()
        self.speed = speed

    def run_s(self, at_s: float, epoch_s: float, stretch: float) -> float:
        """Convert a time by this host's clock to the same time by the clock of the run's driver.

        `at_s` and the result are emulated seconds since the run's start. `epoch_s` is the run's start as Unix
        time, and `stretch` the number of real seconds per emulated second.
        """
        return at_s - self._track.offset_s(epoch_s + at_s * stretch) / stretch

    def status(self, said: AttemptStatus, epoch_s: float, stretch: float) -> AttemptStatus:
        """Return a copy of `said`, the status of an attempt, with the start time converted to the driver's
        clock.

        The driver is the process that controls the run. `epoch_s` is the run's start as Unix time, and
        `stretch` the number of real seconds per emulated second.
        """
        if said.started_s is None or not self._track.readings:
            return said
        return type(said)(
            said.attempt, said.progress, said.phase, self.run_s(said.started_s, epoch_s, stretch)
        )

    def report(self, said: AttemptReport, epoch_s: float, stretch: float) -> AttemptReport:
        """Return a copy of `said`, the report of an ended attempt, with values comparable between hosts.

        Times are converted to the clock of the run's driver (the process that controls the run), and CPU
        seconds to seconds of a core of the slowest host. `epoch_s` is the run's start as Unix time, and
        `stretch` the number of real seconds per emulated second.
        """
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
    """Measure the clock offset at once and again every `every_s` real seconds. Add each reading to `track`.

    `read` measures the offset once. If a measurement fails, the function continues with the next one. It runs
    until canceled.
    """
    while True:
        with contextlib.suppress(Exception):  # A fault may keep the asked process down.
            track.add(await read())
        await asyncio.sleep(every_s if track.readings else AGAIN_S)

from __future__ import annotations

import asyncio

import pytest

from schedbed.cluster import clock as clocks
from schedbed.cluster.clock import RunClock

AHEAD_S = 900.0  # of the time of day to the monotonic clock


class HostTime:
    """Fake clocks of a host, with a `sleep` that advances them."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s - AHEAD_S

    async def sleep(self, for_s: float) -> None:
        self.now_s += for_s


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HostTime:
    made = HostTime()
    monkeypatch.setattr(clocks, "time", made)

    class Sleeper:
        sleep = made.sleep

    monkeypatch.setattr(clocks, "asyncio", Sleeper)
    return made


def test_a_clock_is_real_time_over_its_stretch(host: HostTime) -> None:
    clock = RunClock(990.0, 4.0)
    assert clock.now_s() == 2.5 and clock.stretch == 4.0
    assert clock.time_of_day_s(2.5) == 1000.0 and clock.since_start_s(1000.0) == 2.5
    assert clock.real_s(2.0) == 8.0
    asyncio.run(clock.sleep(2.0))
    assert host.now_s == 1008.0 and clock.now_s() == 4.5

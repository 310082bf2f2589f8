"""The offset of a host's clock, measured during a run by the shortest round trip, with an error bound."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.host_clock import (
    DRIFT,
    ROUND_TRIPS,
    ClockReading,
    ClockTrack,
    HostScale,
    follow_clock,
    least_round_trip,
    read_clock,
)
from schedbed.cluster.messages import AttemptReport, AttemptStatus
from schedbed.tasks.specs import Counters

DELAY = st.floats(1e-5, 0.5)


def reading(at_s: float, offset_s: float, bound_s: float = 0.001) -> ClockReading:
    return ClockReading(at_s=at_s, offset_s=offset_s, bound_s=bound_s)


def track(*readings: ClockReading) -> ClockTrack:
    made = ClockTrack()
    for each in readings:
        made.add(each)
    return made


@given(ahead_s=st.floats(-10, 10), ways=st.lists(st.tuples(DELAY, DELAY), min_size=1, max_size=60))
def test_the_true_offset_lies_within_the_bound(ahead_s: float, ways: list[tuple[float, float]]) -> None:
    now_s, exchanges = 1000.0, []
    for there_s, back_s in ways:
        exchanges.append((now_s, now_s + there_s - ahead_s, now_s + there_s + back_s))
        now_s += there_s + back_s
    found = least_round_trip(exchanges)
    assert abs(found.offset_s - ahead_s) <= found.bound_s + 1e-9
    assert found.bound_s == pytest.approx(min(map(sum, ways)) / 2, abs=1e-9)


def test_a_reading_asks_fifty_times_and_takes_the_quickest_answer() -> None:
    now_s, asked = [100.0], []

    async def ask() -> float:
        asked.append(now_s[0])
        slow = len(asked) != 30
        now_s[0] += 0.004 if slow else 0.0001
        said_s = now_s[0] - 0.08
        now_s[0] += 0.0001
        return said_s

    found = asyncio.run(read_clock(ask, lambda: now_s[0]))
    assert len(asked) == ROUND_TRIPS == 50
    assert found.offset_s == pytest.approx(0.08) and found.bound_s == pytest.approx(0.0001)


def test_between_readings_the_offset_lies_on_a_line_and_outside_it_stays() -> None:
    assert ClockTrack().offset_s(5.0) == 0.0
    found = track(reading(10.0, 0.1), reading(20.0, 0.101), reading(30.0, 0.101))
    assert [found.offset_s(at_s) for at_s in (0.0, 10.0, 15.0, 25.0, 99.0)] == pytest.approx(
        [0.1, 0.1, 0.1005, 0.101, 0.101]
    )


def test_a_vague_reading_is_left_out_unless_it_shows_that_a_clock_was_set() -> None:
    sharp = reading(0.0, 0.1, 0.001)
    assert track(sharp, reading(10.0, 0.11, 0.05)).readings == [sharp]
    for kept in (reading(10.0, 0.4, 0.05), reading(10.0, 0.1002, 0.001 + 5 * DRIFT)):
        assert track(sharp, kept).readings == [sharp, kept]


@given(
    slope=st.floats(-DRIFT / 2, DRIFT / 2),
    errors=st.lists(st.tuples(st.floats(0.0001, 0.02), st.floats(-1, 1)), min_size=2, max_size=30),
)
def test_a_clock_that_drifts_is_followed_to_the_widest_bound_kept(
    slope: float, errors: list[tuple[float, float]]
) -> None:
    found = track(
        *(
            reading(10.0 * number, 0.08 + slope * 10 * number + bound_s * luck, bound_s)
            for number, (bound_s, luck) in enumerate(errors)
        )
    )
    for before, after in pairwise(found.readings):
        widest_s = max(before.bound_s, after.bound_s)
        for at_s in (before.at_s, (before.at_s + after.at_s) / 2, after.at_s):
            assert abs(found.offset_s(at_s) - 0.08 - slope * at_s) <= widest_s + 1e-9


def test_every_time_of_a_report_is_corrected_and_cpu_time_counted_by_the_slowest_core() -> None:
    scale, when = HostScale(track(reading(1000.0, 0.08)), speed=2.0), (1000.0, 4.0)
    said = AttemptReport("a", "succeeded", 1.0, 3.0, counters=Counters(cpu_s=0.5, shuffle_end=2.0))
    found = scale.report(said, *when)
    assert (found.start_s, found.end_s, found.counters.cpu_s) == pytest.approx((0.98, 2.98, 1.0))
    assert found.counters.shuffle_end == pytest.approx(1.98) and found.counters.sort_end is None
    assert scale.status(AttemptStatus("a", 0.5, "map", 1.0), *when).started_s == pytest.approx(0.98)
    waiting = AttemptStatus("a", 0.0, "start")
    assert scale.status(waiting, *when) == waiting
    assert HostScale().report(said, *when) is said


def test_a_master_that_is_down_is_asked_again_and_readings_go_on() -> None:
    found, answers = ClockTrack(), iter([None, reading(1.0, 0.1), None, reading(2.0, 0.1)])

    async def read() -> ClockReading:
        try:
            said = next(answers)
        except StopIteration:
            raise asyncio.CancelledError from None
        if said is None:
            raise ConnectionError
        return said

    async def follow() -> None:
        with pytest.raises(asyncio.CancelledError):
            await follow_clock(found, read, every_s=0.0)

    asyncio.run(follow())
    assert [each.at_s for each in found.readings] == [1.0, 2.0]

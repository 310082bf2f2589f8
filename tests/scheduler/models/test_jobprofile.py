"""Measuring, averaging, scaling and storing of job profiles, which hold the durations of a job's phases."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.models.job_profile import JobProfile, Profiler, Times


def measured() -> Profiler:
    """Return a profiler that has seen three maps, which ended at 10, 12 and 20 s, two reduces of the first
    wave and one of the second.
    """
    profiler = Profiler()
    for start_s, end_s in ((0.0, 10.0), (0.0, 12.0), (10.0, 20.0)):
        profiler.map_ended(start_s, end_s, input_bytes=100, output_bytes=50)
    profiler.reduce_ended(5.0, 23.0, 30.0, input_bytes=60, output_bytes=30)
    profiler.reduce_ended(12.0, 25.0, 28.0, input_bytes=60, output_bytes=30)
    profiler.reduce_ended(30.0, 34.0, 36.0, input_bytes=30, output_bytes=15)
    return profiler


def test_the_phases_of_section_2_2() -> None:
    """Section 2.2 of the paper: maps take 10, 12 and 10 s.

    First shuffles count from the end of all maps at 20 s: 3 and 5 s. The typical shuffle takes 34 - 30 s, the
    reduce phases 7, 3 and 2 s.
    """
    profile = measured().profile()
    assert profile is not None
    assert profile.map == pytest.approx((32 / 3, 12.0)) and profile.map_min_s == 10.0
    assert profile.first_shuffle == pytest.approx((4.0, 5.0))
    assert profile.typical_shuffle == pytest.approx((4.0, 4.0))
    assert profile.reduce == pytest.approx((4.0, 7.0))
    assert (profile.map_input_bytes, profile.map_selectivity) == (100.0, 0.5)
    assert (profile.reduce_input_bytes, profile.reduce_selectivity) == (50.0, 0.5)


def test_the_maximum_may_be_the_mean_of_the_longest() -> None:
    """Section 4: "the mean of a few top values". Of maps of 10, 12, 14 and 90 s, the three longest take 38.7 s."""
    for top, longest_s in ((1, 90.0), (3, 116 / 3), (9, 126 / 4)):
        profiler = Profiler(top)
        for took_s in (10.0, 90.0, 12.0, 14.0):
            profiler.map_ended(0.0, took_s, 0, 0)
        profile = profiler.profile()
        assert profile is not None
        assert profile.map == pytest.approx((31.5, longest_s))


def test_what_was_not_seen_is_taken_to_be_alike() -> None:
    """Phases without measurements use the durations of similar phases: without any task, with maps only, with
    a first wave of reduces whose shuffle is unknown, and with second waves only.
    """
    profiler = Profiler()
    assert profiler.profile() is None
    profiler.map_ended(0.0, 10.0, 0, 0)
    profile = profiler.profile()
    assert profile is not None and profile.reduce == (10.0, 10.0) and profile.typical_shuffle == (0.0, 0.0)
    profiler.reduce_ended(4.0, None, 16.0, 0, 0)
    profile = profiler.profile()
    assert profile is not None and profile.reduce == (6.0, 6.0) and profile.typical_shuffle == (0.0, 0.0)
    late = Profiler()
    late.map_ended(0.0, 10.0, 0, 0)
    late.reduce_ended(11.0, 14.0, 15.0, 0, 0)
    profile = late.profile()
    assert profile is not None and profile.first_shuffle == profile.typical_shuffle == (3.0, 3.0)


def test_runs_are_averaged() -> None:
    """The average of one run with maps of 10 s and of two runs with 40 s is (10 + 2 x 40) / 3 = 30 s."""
    one = JobProfile(map=Times(10.0, 20.0))
    both = one.merged(JobProfile(map=Times(40.0, 80.0), runs=2))
    assert both.map == (30.0, 60.0) and both.runs == 3


def test_durations_grow_with_the_data() -> None:
    """Maps of 200 bytes instead of 100 take twice as long.

    They write 200 x 0.5 x 6 = 600 bytes for 4 reduces. Each reduce reads 150 bytes instead of 50 and takes
    three times as long.
    """
    profile = JobProfile(
        map=Times(10.0, 12.0),
        first_shuffle=Times(1.0, 2.0),
        typical_shuffle=Times(2.0, 3.0),
        reduce=Times(4.0, 5.0),
        map_min_s=8.0,
        map_input_bytes=100.0,
        map_selectivity=0.5,
        reduce_input_bytes=50.0,
    )
    now = profile.for_data(200.0, maps=6, reduces=4)
    assert now.map == (20.0, 24.0) and now.map_min_s == 16.0
    assert (now.first_shuffle, now.typical_shuffle, now.reduce) == ((3.0, 6.0), (6.0, 9.0), (12.0, 15.0))
    unknown = profile.for_data(0.0, maps=6, reduces=0)
    assert unknown == profile


def test_a_scenarios_scale_makes_all_smaller() -> None:
    """The scale 0.1 divides durations and amounts of data by ten and keeps the selectivities.

    The scale 10 restores the profile.
    """
    profile = measured().profile()
    assert profile is not None
    small = profile.at_scale(0.1)
    assert small.reduce == pytest.approx((0.4, 0.7)) and small.map_min_s == pytest.approx(1.0)
    assert (small.map_input_bytes, small.map_selectivity) == (10.0, 0.5)
    assert small.at_scale(10.0).first_shuffle == pytest.approx(profile.first_shuffle)


def test_a_profile_survives_json() -> None:
    """A profile converted to JSON and back is equal."""
    profile = measured().profile()
    assert profile is not None and JobProfile.from_json(profile.to_json()) == profile


@pytest.mark.parametrize("change", [{"map": [1]}, {"map": [1, 2, 3]}, {"reduce": None}, {"runs": "many"}])
def test_foreign_data_is_refused(change: dict[str, Any]) -> None:
    """JSON that is not a job profile raises `ValueError`."""
    profile = measured().profile()
    assert profile is not None
    if change == {"map": [1]}:
        assert JobProfile.from_json({**profile.to_json(), **change}).map == (1.0, 0.0)
        return
    with pytest.raises(ValueError, match="not a job profile"):
        JobProfile.from_json({**profile.to_json(), **change})

"""Equations 2 and 3 of liu2015 (the policy FGCS) with numbers."""

from __future__ import annotations

import math

import pytest

from schedbed.scheduler.models.fgcs_demand import DemandMean, TaskUse, cpu_demand, io_time_s, read_demands

MB = 10**6


@pytest.mark.parametrize(
    ("cpu_s", "local_mb", "hdfs_mb", "io_s", "demand"),
    [
        (78.0, 0, 0, 0.0, 100.0),  # Pi: 78 / (78 + 0)
        (20.0, 0, 2000, 20.0, 50.0),  # TeraGen: 2 GB at 100 MB/s; 20 / (20 + 20)
        (6.0, 50, 300, 4.0, 60.0),  # 50 MB at 50 MB/s + 300 MB at 100 MB/s = 1 + 3 s; 6 / (6 + 4)
        (0.0, 100, 0, 2.0, 0.0),  # no CPU at all: 0 / (0 + 2)
        (0.0, 0, 0, 0.0, 100.0),  # nothing to go by
    ],
)
def test_demand_is_the_cpus_part_of_the_time_at_full_io_speed(
    cpu_s: float, local_mb: int, hdfs_mb: int, io_s: float, demand: float
):
    use = TaskUse(cpu_s=cpu_s, local_bytes=local_mb * MB, hdfs_bytes=hdfs_mb * MB)
    assert io_time_s(use, 50 * MB, 100 * MB) == pytest.approx(io_s)
    assert cpu_demand(use, 50 * MB, 100 * MB) == pytest.approx(demand)


def test_a_jobs_demand_is_the_mean_rounded_up():
    """The mean of the demands 40% and 50.5% of a core is 45.25%, rounded up to 46%."""
    mean = DemandMean()
    mean.add(40, 30)
    mean.add(50.5, 30)
    assert mean.value(shortest_s=5) == 46


def test_short_tasks_say_nothing():
    """Tasks of (1 + 8) / 2 = 4.5 s on average are ignored if `shortest_s` is 5, and the demand stays at 100%
    of a core.
    """
    mean = DemandMean()
    assert mean.value(shortest_s=0) == 100
    mean.add(10, 1)
    mean.add(10, 8)
    assert mean.value(shortest_s=5) == 100
    assert mean.value(shortest_s=4.5) == 10


def test_a_task_without_cpu_still_asks_for_something():
    mean = DemandMean()
    mean.add(0, 60)
    assert mean.value(shortest_s=5) == 1


@pytest.mark.parametrize("value", [0, -1, 101, True, "lots", math.nan])
def test_demands_are_percents(value: object):
    with pytest.raises(ValueError, match="percent of a core"):
        read_demands({"map": value})

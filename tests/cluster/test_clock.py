from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from schedbed.cluster import clock as clocks
from schedbed.cluster.clock import RunClock
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.tasks.stretch_file import StretchFile

AHEAD_S = 900.0  # of the time of day to the monotonic clock


class HostTime:
    """Fake clocks of a host, with a `sleep` that advances them.

    `at` is a list of pairs of a time and a function to call at that time.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.at: list[tuple[float, object]] = []

    def time(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s - AHEAD_S

    async def sleep(self, for_s: float) -> None:
        self.now_s += for_s
        while self.at and self.at[0][0] <= self.now_s:
            _, act = self.at.pop(0)
            assert callable(act)
            act()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HostTime:
    made = HostTime()
    monkeypatch.setattr(clocks, "time", made)

    class Sleeper:
        sleep = made.sleep

    monkeypatch.setattr(clocks, "asyncio", Sleeper)
    return made


def changing(tmp_path: Path, stretch: float = 1.0) -> tuple[Path, StretchFile]:
    path = tmp_path / "stretch"
    StretchFile.create(path, 990.0, stretch)
    return path, StretchFile(path, write=True)


def test_a_clock_without_changes_is_real_time_over_its_stretch(host: HostTime) -> None:
    clock = RunClock(990.0, 4.0)
    assert clock.now_s() == 2.5 and clock.stretch == 4.0 and clock.kept == 1.0
    assert clock.steady_s() == host.monotonic()
    assert clock.time_of_day_s(2.5) == 1000.0 and clock.real_s(2.0) == 8.0
    asyncio.run(clock.sleep(2.0))
    assert host.now_s == 1008.0


def test_a_clock_follows_the_changes_of_its_run(host: HostTime, tmp_path: Path) -> None:
    path, writer = changing(tmp_path, 2.0)
    clock = RunClock(1000.0, 2.0, path)
    steady_s = clock.steady_s()
    host.now_s = 1010.0
    assert clock.now_s() == pytest.approx(5.0) and clock.kept == 1.0
    writer.append(1020.0, 5.0)
    host.now_s = 1030.0
    assert clock.now_s() == pytest.approx(10.0 + 2.0)
    assert clock.stretch == 5.0 and clock.kept == pytest.approx(0.4) and clock.real_s(1.0) == 5.0
    assert clock.steady_s() - steady_s == pytest.approx(20.0 + 4.0)
    assert clock.time_of_day_s(12.0) == pytest.approx(1030.0)
    assert clock.time_of_day_s(10.0) == pytest.approx(1020.0)


def test_all_clocks_of_a_run_agree_also_those_that_begin_later(host: HostTime, tmp_path: Path) -> None:
    path, writer = changing(tmp_path)
    early = RunClock(1000.0, 1.0, path)
    writer.append(1010.0, 3.0)
    host.now_s = 1040.0
    assert RunClock(1000.0, 1.0, path).now_s() == early.now_s() == pytest.approx(20.0)


def test_a_clock_that_is_made_before_the_file_finds_it_when_the_run_begins(
    host: HostTime, tmp_path: Path
) -> None:
    clock = RunClock(0.0, 1.0, tmp_path / "stretch")
    path, writer = changing(tmp_path)
    writer.append(1010.0, 2.0)
    clock.begin(1000.0)
    host.now_s = 1020.0
    assert clock.now_s() == pytest.approx(15.0)
    assert path.is_file()


def test_a_change_that_comes_late_does_not_turn_time_back(host: HostTime, tmp_path: Path) -> None:
    path, writer = changing(tmp_path)
    clock = RunClock(1000.0, 1.0, path)
    host.now_s = 1010.0
    before_s = clock.now_s()
    writer.append(1008.0, 4.0)
    assert clock.now_s() == before_s
    host.now_s = 1020.0
    assert clock.now_s() == pytest.approx(8.0 + 3.0)


@pytest.mark.parametrize(("stretch", "ends_s"), [(4.0, 1014.0), (1.0, 1005.0)])
def test_a_sleep_ends_when_its_emulated_time_has_passed(
    host: HostTime, tmp_path: Path, stretch: float, ends_s: float
) -> None:
    """A sleep of four emulated seconds at 2 real seconds each ends on time if the stretch changes meanwhile.

    The stretch, the number of real seconds per emulated second, changes after one emulated second.
    """
    path, writer = changing(tmp_path, 2.0)
    clock = RunClock(1000.0, 2.0, path)
    host.at = [(1002.0, lambda: writer.append(1002.0, stretch))]
    asyncio.run(clock.sleep(4.0))
    assert host.now_s == pytest.approx(ends_s)
    assert clock.now_s() == pytest.approx(4.0)


def test_a_runs_configuration_brings_its_changes_to_whoever_loads_it(tmp_path: Path) -> None:
    node = NodeSpec(
        node="n1",
        rack="r1",
        cores=2,
        core_speed=0.5,
        memory_bytes=2**28,
        disk_bps=1e7,
        network_bps=1e7,
        map_slots=1,
        reduce_slots=1,
    )
    cluster = ClusterSpec(nodes=(node,), stretch=2.0)
    told = {"policy": "fifo", "given": "fifo", "scale": 1.0, "seed": 1, "epoch_s": 1000.0, "token": "t"}
    config = RunConfig(run_id="r", work=tmp_path / "work", cluster=cluster, adaptive=True, **told)
    config.make_work()
    config.save(tmp_path)
    again = RunConfig.load(tmp_path)
    assert again is not None and again.changes is not None and again.changes == config.changes
    assert StretchFile(again.changes).time.changes[0][1] == 2.0
    plain = RunConfig(run_id="r", work=tmp_path / "plain", cluster=cluster, **told)
    plain.make_work()
    assert plain.changes is None and list((tmp_path / "plain" / "nodes").iterdir()) == []

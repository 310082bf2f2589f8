from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks import stretch_file
from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.own.watch import Idle, Watch
from schedbed.tasks.stretch_file import Change, EmulatedTime, SteadyTime, StretchFile

START_S = 1_700_000_000.0  # a time of day: figures must be exact at its size

stretches = st.floats(1.0, 8.0)
gaps = st.floats(0.0, 1000.0)


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    made, at_s = [(START_S, draw(stretches))], START_S
    for gap_s in draw(st.lists(gaps, max_size=8)):
        at_s += gap_s
        made.append((at_s, draw(stretches)))
    return made


@given(changes(), st.floats(-100.0, 9000.0), st.floats(0.0, 100.0))
def test_emulated_time_is_monotone_and_as_fast_as_its_stretches_say(
    made: list[Change], at_s: float, for_s: float
) -> None:
    time = EmulatedTime(made)
    lasted_s = time.emulated_s(START_S + at_s + for_s) - time.emulated_s(START_S + at_s)
    assert for_s / max(k for _, k in made) - 1e-5 <= lasted_s <= for_s / min(k for _, k in made) + 1e-5


@given(changes())
def test_emulated_time_is_continuous_where_the_stretch_changes(made: list[Change]) -> None:
    time = EmulatedTime(made)
    for real_s, _ in made:
        assert time.emulated_s(real_s - 1e-6) == pytest.approx(time.emulated_s(real_s), abs=1e-5)


@given(changes(), st.floats(-100.0, 9000.0))
def test_real_time_is_the_inverse(made: list[Change], at_s: float) -> None:
    time = EmulatedTime(made)
    assert time.real_s(time.emulated_s(START_S + at_s)) == pytest.approx(START_S + at_s, abs=1e-4, rel=0)


@given(changes())
def test_the_stretch_at_a_change_is_the_one_that_it_brings(made: list[Change]) -> None:
    time = EmulatedTime(made)
    last = dict(made)  # of several at one time the last counts
    for real_s, stretch in last.items():
        assert time.stretch_at(real_s) == stretch
    assert time.stretch_at(START_S - 1.0) == made[0][1]


def test_a_stretch_that_doubles_halves_what_passes() -> None:
    time = EmulatedTime([(100.0, 1.0), (110.0, 2.0), (130.0, 1.0)])
    assert [time.emulated_s(at) for at in (90.0, 100.0, 110.0, 120.0, 130.0, 131.0)] == [
        -10.0,
        0.0,
        10.0,
        15.0,
        20.0,
        21.0,
    ]


def test_who_has_the_file_open_sees_each_change(tmp_path: Path) -> None:
    path = tmp_path / "stretch"
    StretchFile.create(path, 100.0, 1.5)
    reader, writer = StretchFile(path), StretchFile(path, write=True)
    assert reader.time.changes == ((100.0, 1.5),)
    writer.append(110.0, 3.0)
    assert reader.time.changes == ((100.0, 1.5), (110.0, 3.0))
    assert reader.time.stretch_at(109.0) == 1.5 and reader.time.stretch_at(110.0) == 3.0
    told = "from schedbed.tasks.stretch_file import *;from pathlib import Path;import sys;"
    told += "print(StretchFile(Path(sys.argv[1])).time.changes)"
    other = subprocess.run(
        [sys.executable, "-c", told, str(path)], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == str(reader.time.changes)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "stretch"
    StretchFile.create(path, 100.0, 1.0)
    with pytest.raises(TypeError):
        StretchFile(path).append(110.0, 2.0)


@pytest.mark.parametrize(("real_s", "stretch"), [(99.0, 2.0), (110.0, 0.5), (110.0, float("nan"))])
def test_what_is_no_change_is_refused(tmp_path: Path, real_s: float, stretch: float) -> None:
    path = tmp_path / "stretch"
    StretchFile.create(path, 100.0, 1.0)
    writer = StretchFile(path, write=True)
    with pytest.raises(ValueError, match="stretch"):
        writer.append(real_s, stretch)
    assert writer.time.changes == ((100.0, 1.0),)


def test_a_full_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch_file, "CHANGES_MAX", 2)
    path = tmp_path / "stretch"
    StretchFile.create(path, 100.0, 1.0)
    writer = StretchFile(path, write=True)
    assert not writer.is_full
    writer.append(110.0, 2.0)
    assert writer.is_full
    with pytest.raises(ValueError, match="after 2 changes"):
        writer.append(120.0, 3.0)


def test_the_file_takes_next_to_no_space(tmp_path: Path) -> None:
    path = tmp_path / "stretch"
    StretchFile.create(path, 100.0, 1.0)
    assert path.stat().st_blocks * 512 <= 64 * 1024


def test_steady_time_counts_in_seconds_of_the_first_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now, slept = tmp_path / "stretch", [100.0], []

    class Clock:
        @staticmethod
        def time() -> float:
            return now[0]

        @staticmethod
        def monotonic() -> float:
            return now[0]

        @staticmethod
        def sleep(for_s: float) -> None:
            slept.append(for_s)

    monkeypatch.setattr(stretch_file, "time", Clock)
    StretchFile.create(path, 100.0, 2.0)
    StretchFile(path, write=True).append(110.0, 4.0)
    steady = SteadyTime(2.0, StretchFile(path))
    began_s = steady.now_s()
    steady.sleep(1.0)
    now[0] = 120.0
    assert steady.now_s() - began_s == 15.0  # ten at the declared rates, ten at half of them
    steady.sleep(1.0)
    plain = SteadyTime(2.0, None)
    plain.sleep(1.0)
    assert plain.now_s() == 120.0 and slept == [1.0, 2.0, 1.0]


def changed_status(tmp_path: Path, at_s: list[float]) -> tuple[StatusFile, StretchFile]:
    path = tmp_path / "stretch"
    StretchFile.create(path, 90.0, 2.0)
    return StatusFile(tmp_path / "status", 100.0, lambda: at_s[0], 2.0, StretchFile(path)), StretchFile(
        path, write=True
    )


def test_an_attempts_times_follow_the_changes(tmp_path: Path) -> None:
    now = [110.0]
    status, writer = changed_status(tmp_path, now)
    assert status.started_s == pytest.approx(5.0) and status.stretch == 2.0
    writer.append(120.0, 4.0)
    now[0] = 128.0
    assert status.now_s() == pytest.approx(12.0) and status.stretch == 4.0


def test_the_watch_over_a_users_code_ticks_in_emulated_time(tmp_path: Path) -> None:
    now = [100.0]
    status, writer = changed_status(tmp_path, now)
    idle = Idle(0.02, status)
    assert idle.every_s == pytest.approx(0.01)
    ticks: list[int] = []
    watch = Watch(idle, mark=lambda: len(ticks), also=lambda: ticks.append(1))
    with watch.watching():
        while not ticks:
            signal.pause()
        assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(0.01, rel=0.1)
        writer.append(100.0, 8.0)
        count = len(ticks)
        while len(ticks) < count + 2:
            signal.pause()
        assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(0.04, rel=0.1)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

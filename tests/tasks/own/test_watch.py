from __future__ import annotations

import signal
from pathlib import Path

import pytest

from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.own.watch import Idle, Watch


def test_the_watch_over_a_users_code_ticks_in_emulated_time(tmp_path: Path) -> None:
    idle = Idle(0.02, StatusFile(tmp_path / "status", 100.0, lambda: 100.0, 2.0))
    assert idle.every_s == pytest.approx(0.01)
    ticks: list[int] = []
    watch = Watch(idle, mark=lambda: len(ticks), also=lambda: ticks.append(1))
    with watch.watching():
        while len(ticks) < 2:
            signal.pause()
        assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(0.01, rel=0.1)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

"""An attempt is silent if its status file does not change for too long, unless its node was frozen."""

from __future__ import annotations

import os
from pathlib import Path

from schedbed.tasks.own.silence import GRACE_S, StatusFileAge, silence_of
from schedbed.tasks.specs import TaskKind
from tests.harness.memory_node import a_spec


def test_silence_counts_by_heartbeats(tmp_path: Path) -> None:
    status = tmp_path / "status"
    silence = StatusFileAge(status, 5.0)
    assert not any(silence.too_long(float(now_s)) for now_s in range(100))  # its code has not begun
    status.touch()
    looks = [silence.too_long(100.0 + now_s) for now_s in range(30)]
    assert looks.index(True) == 5 + GRACE_S + 1
    assert (
        silence.reason == "hangs: its code did nothing for 5.0s (task_timeout) and could not be interrupted"
    )
    os.utime(status, (1, 1))
    assert not silence.too_long(131.0)
    assert not silence.too_long(1131.0)  # the node was frozen


def test_only_own_applications_are_watched(tmp_path: Path) -> None:
    assert silence_of(a_spec(TaskKind.MAP), tmp_path) is None
    assert silence_of(a_spec(TaskKind.MAP, params={"task_timeout": 3}), tmp_path) is not None

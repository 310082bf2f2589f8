"""The record of a policy's calls survives the process.

If two processes end during a call, the policy is blamed.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from schedbed.scheduler.guard.call_record import SIZE, CallRecord, kept_mark, no_short_life, read_mark


def begin(path: Path) -> tuple[CallRecord, str]:
    memory, ended_in = kept_mark(path)
    mark = CallRecord()
    mark.share(memory)
    return mark, ended_in


def test_the_last_call_can_be_read_from_outside() -> None:
    memory, mark = mmap.mmap(-1, SIZE), CallRecord()
    mark.enter(mark.number("unseen"))
    mark.share(memory)
    assert read_mark(memory) == (False, 0, "")
    mark.enter(mark.number("decide (mine.py, line 7)"))
    assert read_mark(memory) == (True, 3, "decide (mine.py, line 7)")
    mark.enter(mark.number("tick (mine.py, line 1)"))
    mark.leave()
    assert read_mark(memory) == (False, 4, "tick (mine.py, line 1)")


def test_two_processes_in_a_row_that_end_in_a_call(tmp_path: Path) -> None:
    path = tmp_path / "policy-call"
    for expected in ("", "", "has ended the JobTracker's process twice, in decide (mine.py, line 7)"):
        mark, ended_in = begin(path)
        assert ended_in == expected
        mark.enter(mark.number("decide (mine.py, line 7)"))


def test_a_process_that_ends_elsewhere_is_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "policy-call"
    for _ in range(4):
        mark, ended_in = begin(path)
        assert ended_in == ""
        mark.enter(mark.number("decide (mine.py, line 7)"))
        mark, ended_in = begin(path)
        assert ended_in == ""
        assert mark.memory is not None
        no_short_life(mark.memory)
        mark.leave()

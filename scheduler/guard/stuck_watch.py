"""Detection, by another process of the host, that a call of the policy hangs the JobTracker's process.

`TimeBound` cannot interrupt C code that holds the interpreter's lock, such as `3**10**9`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from schedbed.scheduler.guard.call_record import read_kept_mark
from schedbed.scheduler.guard.time_bound import limit_s, stuck_s


class StuckWatch:
    """Checks every `every_s` seconds, by the call mark in `path`, whether a call of another process hangs.

    A call hangs if it is active after the checks that fit into `stuck_s`. Checks are counted, so that a pause
    of the host does not matter. A process stopped, or killed in a call, does not hang.
    """

    def __init__(self, path: Path, *, every_s: float, stuck_s: Callable[[str], float] = stuck_s) -> None:
        self._path = path
        self._every_s = every_s
        self._stuck_s = stuck_s
        self._last_s = 0.0
        self._seen: tuple[int, int] | None = None
        self._looks = 0

    def look(self) -> str:
        """Return an error if the current call hangs, or "", at most every `every_s` seconds."""
        if time.monotonic() - self._last_s < 0.9 * self._every_s:
            return ""
        self._last_s = time.monotonic()
        mark = read_kept_mark(self._path)
        if mark is None or not mark.inside or not _runs(mark.pid):
            self._seen = None
            return ""
        now = mark.pid, mark.calls
        if now != self._seen:
            self._seen, self._looks = now, 0
            return ""
        self._looks += 1
        if self._looks < max(2, round(self._stuck_s(mark.text) / self._every_s)):
            return ""
        return f"the policy has not answered for {limit_s(mark.text):g} s, and could not be interrupted, in {mark.text}"


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False

"""Detection, by another process of the host, that a call of the policy hangs the JobTracker's process.

`TimeBound` cannot interrupt C code that holds the interpreter's lock, such as `3**10**9`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from schedbed.scheduler.guard.call_record import read_kept_mark
from schedbed.scheduler.guard.time_bound import limit_s, run_queue_s, stuck_s


class StuckWatch:
    """Checks every `every_s` seconds, by the call mark in `path`, whether a call of another process hangs.

    A call hangs if it is active after the checks that fit into `stuck_s`. Checks are counted, so that a pause
    of the host does not matter, without the time for which the process waited for a CPU. A process stopped,
    or killed in a call, does not hang.
    """

    def __init__(self, path: Path, *, every_s: float, stuck_s: Callable[[str], float] = stuck_s) -> None:
        self._path = path
        self._every_s = every_s
        self._stuck_s = stuck_s
        self._last_s = 0.0
        self._seen: tuple[int, int] | None = None
        self._looks = 0
        self._before_s: dict[int, float] = {}  # By thread, when the call was first seen.

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
        waited_s = _run_queues_s(mark.pid)
        if now != self._seen:
            self._seen, self._looks, self._before_s = now, 0, waited_s
            return ""
        self._looks += 1
        waited_s = max((of - self._before_s.get(thread, 0.0) for thread, of in waited_s.items()), default=0.0)
        if self._looks < max(2, round((self._stuck_s(mark.text) + waited_s) / self._every_s)):
            return ""
        return f"the policy has not answered for {limit_s(mark.text):g} s, and could not be interrupted, in {mark.text}"


def _run_queues_s(pid: int) -> dict[int, float]:
    """Return how long each thread of a process was ready but had no CPU. The one that hangs waits longest."""
    try:
        threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return {}
    return {thread: run_queue_s(thread, pid) for thread in threads}


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False

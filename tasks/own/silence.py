"""Detection of attempts that show no life: user code hangs, and the attempt's own timer cannot stop it.

The timer (`tasks.own.watch`) touches the status file each second. At each heartbeat without a change, the
agent adds the time since the last one, at most two seconds, so none while the whole node is frozen.
"""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.own.watch import TIMEOUT
from schedbed.tasks.specs import AttemptSpec
from schedbed.tasks.units import format_duration

GRACE_S = 10.0  # Extra time for the attempt's own timer, whose message says more.
GAP_MAX_S = 2.0  # Most seconds counted between two checks.


class StatusFileAge:
    """The time since an attempt's status file changed, at most `limit_s`."""

    def __init__(self, status: Path, limit_s: float) -> None:
        self._status = status
        self._limit_s = limit_s
        self._seen_ns = -1
        self._looked_s: float | None = None
        self._silent_s = 0.0

    @property
    def reason(self) -> str:
        """Return why the attempt must be killed, in one line for users."""
        limit = format_duration(self._limit_s)
        return f"hangs: its code did nothing for {limit} (task_timeout) and could not be interrupted"

    def too_long(self, now_s: float) -> bool:
        """Check the status file at the time `now_s`. Return whether it has not changed for too long."""
        gap_s = 0.0 if self._looked_s is None else min(GAP_MAX_S, now_s - self._looked_s)
        self._looked_s = now_s
        try:
            changed_ns = self._status.stat().st_mtime_ns
        except OSError:
            return False  # The user code has not begun.
        self._silent_s = 0.0 if changed_ns != self._seen_ns else self._silent_s + gap_s
        self._seen_ns = changed_ns
        return self._silent_s > self._limit_s + GRACE_S


def silence_of(spec: AttemptSpec, status: Path) -> StatusFileAge | None:
    """Return the measure for a user's application, or None for a shipped one."""
    limit_s = spec.params.get(TIMEOUT)
    return None if limit_s is None else StatusFileAge(status, float(limit_s))

"""Pauses and limits for repeated fetches by simulated attempts, equal to those of live attempts."""

from __future__ import annotations

LOCATE_WAITS_S = (0.3, 1.0, 2.0)  # Pauses before another search for a block's replicas.
FAILURES_MAX = 30  # Failed fetches of one map's output before the reduce fails.
_RETRY_S = 0.25
_RETRY_MAX_S = 8.0


def retry_after_s(failures: int) -> float:
    """Return the pause in seconds before a map output is fetched again, after `failures` failed fetches."""
    return min(_RETRY_MAX_S, _RETRY_S * 2 ** (failures - 1))

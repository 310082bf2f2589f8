"""DTSS (xu2015 chapter 4): the share at which both parts of a split map end together, and the time gained.

A whole map takes N seconds on a node with its input and M elsewhere, and waits D seconds for a node with the input.
Under delay scheduling it ends after N + D. The parts of a map split at P end after P M and (1 - P) N + D (equations
17 to 20).
"""

from __future__ import annotations


def best_share(local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the share P at which both parts end together, at most 1: P M = (1 - P) N + D. Returns 0 if all times are
    0."""
    both_s = local_s + remote_s
    return min(1.0, (local_s + delay_s) / both_s) if both_s > 0 else 0.0


def gain_s(share: float, local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the seconds by which a map ends earlier if it is split at this share and its rest runs at the input."""
    rest_s = (1 - share) * local_s + delay_s if share < 1 else 0.0
    return local_s + delay_s - max(share * remote_s, rest_s)

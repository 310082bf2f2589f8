"""The formulas of DTSS (xu2015, chapter 4): the best share of a split map's first task, and the time saved.

A map takes N seconds with local input and M without; a local slot is free after D. Waiting takes N + D. Split
at share P, the first part ends after P M seconds elsewhere, the second after (1 - P) N + D (equations 17 to
20).
"""

from __future__ import annotations


def best_share(local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the share P at which both parts end together: P M = (1 - P) N + D, from 0 to 1."""
    both_s = local_s + remote_s
    return min(1.0, (local_s + delay_s) / both_s) if both_s > 0 else 0.0


def gain_s(share: float, local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the seconds that a split saves, compared with waiting for a node with the input."""
    rest_s = (1 - share) * local_s + delay_s if share < 1 else 0.0
    return local_s + delay_s - max(share * remote_s, rest_s)

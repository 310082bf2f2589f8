"""DTSS (xu2015 chapter 4): where to split a map so that both of its parts end together, and what that gains.

A whole map takes N seconds on a node that holds its input and M elsewhere, and waits D seconds for the former.
Under delay scheduling it ends after N + D; of a map split at P the parts end after P M and (1 - P) N + D
(equations 17 to 20).
"""

from __future__ import annotations


def best_share(local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the P at which both parts end at once, at most 1: P M = (1 - P) N + D. 0 when nothing takes any time."""
    both_s = local_s + remote_s
    return min(1.0, (local_s + delay_s) / both_s) if both_s > 0 else 0.0


def gain_s(share: float, local_s: float, remote_s: float, delay_s: float) -> float:
    """Return how much earlier a map ends when it is split there and its rest runs where the input is."""
    rest_s = (1 - share) * local_s + delay_s if share < 1 else 0.0
    return local_s + delay_s - max(share * remote_s, rest_s)

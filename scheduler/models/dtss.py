"""The formulas of DTSS (xu2015 chapter 4): the share at which a map is split into two tasks, and the time
saved.

A map takes N seconds on a node that holds its input and M seconds on another node, and it waits D seconds for
a slot on a node with the input. Under delay scheduling the map ends after N + D seconds. If the map is split
at share P, the first part runs at once on a node without the input and ends after P M seconds; the second
part runs at the input and ends after (1 - P) N + D seconds (equations 17 to 20).
"""

from __future__ import annotations


def best_share(local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the share P at which both parts of a map end at the same time: P M = (1 - P) N + D.

    The result is at most 1, and 0 if all times are 0.
    """
    both_s = local_s + remote_s
    return min(1.0, (local_s + delay_s) / both_s) if both_s > 0 else 0.0


def gain_s(share: float, local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the seconds saved if a map is split at `share` and its second part runs on a node with the
    input."""
    rest_s = (1 - share) * local_s + delay_s if share < 1 else 0.0
    return local_s + delay_s - max(share * remote_s, rest_s)

"""The formulas of the locality axis DTSS (dynamic task splitting; xu2015 chapter 4), which splits a map into
two tasks: the best share of the first task, and the time saved.

A map takes N seconds on a node that holds its input and M seconds on another node. A slot on a node with the
input is free after a delay of D seconds, so under delay scheduling the map ends after N + D seconds. If the
map is split at share P, the first part runs immediately on a node without the input and ends after P M
seconds; the second part runs on a node with the input and ends after (1 - P) N + D seconds (equations 17 to
20).
"""

from __future__ import annotations


def best_share(local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the share P of a map to put into its first part so that both parts end together: P M = (1 - P) N
    + D.

    `local_s` (N), `remote_s` (M): seconds of the whole map on a node with or without its input. `delay_s`
    (D): seconds until the second part starts. The result is at most 1, and 0 if all times are 0.
    """
    both_s = local_s + remote_s
    return min(1.0, (local_s + delay_s) / both_s) if both_s > 0 else 0.0


def gain_s(share: float, local_s: float, remote_s: float, delay_s: float) -> float:
    """Return the seconds saved by splitting a map, compared with waiting `delay_s` seconds for a node with
    its input.

    `share`: share of the map in the first part. `local_s`, `remote_s`: seconds of the whole map on a node
    with or without its input.
    """
    rest_s = (1 - share) * local_s + delay_s if share < 1 else 0.0
    return local_s + delay_s - max(share * remote_s, rest_s)

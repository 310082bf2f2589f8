"""The number of additional slots that a job needs to meet its deadline (PD, xu2015 equation 6)."""

from __future__ import annotations

from math import inf


def slots_lacking(
    mean_s: float, running_left_s: float, unstarted: int, running: int, until_goal_s: float
) -> float:
    """Return the number of slots that a job lacks: remaining work / time until the goal - running tasks.

    This is equation 6. `running_left_s` is the sum of the remaining times of the running tasks; the printed
    (sum / mean + unstarted) x mean equals sum + unstarted x mean. The result is negative if the job has more
    slots than it needs, infinite if the goal has passed.
    """
    if until_goal_s <= 0:
        return inf
    return (running_left_s + unstarted * mean_s) / until_goal_s - running

"""The additional slots that a job needs for its deadline (PD, xu2015 equation 6), without a scheduler."""

from __future__ import annotations

from math import inf


def slots_lacking(
    mean_s: float, running_left_s: float, unstarted: int, running: int, until_goal_s: float
) -> float:
    """Return equation 6: the remaining work over the time until the goal, minus the job's running tasks.

    `running_left_s` is the sum of the remaining times of the running tasks; the printed (sum / mean + unstarted) x
    mean equals sum + unstarted x mean. The result is negative if the job has more slots than it needs, infinite if
    the goal has passed.
    """
    if until_goal_s <= 0:
        return inf
    return (running_left_s + unstarted * mean_s) / until_goal_s - running

"""How many more slots a job needs for its deadline (PD, xu2015 equation 6): the arithmetic alone."""

from __future__ import annotations

from math import inf


def slots_lacking(
    mean_s: float, running_left_s: float, unstarted: int, running: int, until_goal_s: float
) -> float:
    """Return equation 6: the work that is left, over the time until the goal, less the slots that the job has.

    `running_left_s` is what the running tasks have left in all; the printed (sum / mean + unstarted) x mean is
    sum + unstarted x mean. Below 0 for a job that has more than it needs, infinite when the goal has passed.
    """
    if until_goal_s <= 0:
        return inf
    return (running_left_s + unstarted * mean_s) / until_goal_s - running

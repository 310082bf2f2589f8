"""The number of additional slots that a job needs to meet its deadline, used by the order axis PD (xu2015
equation 6).
"""

from __future__ import annotations

from math import inf


def slots_lacking(
    mean_s: float, running_left_s: float, unstarted: int, running: int, until_goal_s: float
) -> float:
    """Return the number of additional slots that a job needs to meet its deadline: (remaining work / time
    left) - running tasks.

    `mean_s`: mean time of a task. `running_left_s`: sum of the remaining times of the running tasks.
    `unstarted`, `running`: numbers of tasks. `until_goal_s`: seconds until the deadline. The result is
    negative if the job has more slots than necessary, and infinite if the deadline has passed. The remaining
    work is `running_left_s` + `unstarted` x `mean_s`, which equals the term in equation 6 as printed.
    """
    if until_goal_s <= 0:
        return inf
    return (running_left_s + unstarted * mean_s) / until_goal_s - running

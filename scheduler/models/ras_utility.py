"""The formulas of the policy RAS (polo2011 3.2 and 3.3): the number of slots that a job needs to meet its
goal, and the utility of a number of slots.
"""

from __future__ import annotations

from math import ceil, inf, log

_SLACK = 1e-9  # Rounding can put a whole number slightly above itself.


def slots_required(pending: int, work_s: float | None, left_s: float | None) -> int:
    """Return the number of map slots with which a job meets its goal, from 1 to `pending`.

    `pending`: number of unfinished maps. `work_s`: seconds of work in these maps, or None if the mean time of
    a map is unknown. `left_s`: seconds until the goal, or None without a goal. The result is `pending`, the
    earliest possible end, if the goal has passed or if `work_s` or `left_s` is None. Unlike xu2015 equation
    6, which gives additional slots, the result includes the slots of running maps.
    """
    if left_s is None or left_s <= 0 or work_s is None:
        return max(1, pending)
    return max(1, min(pending, ceil(work_s / left_s - _SLACK)))


def ends_within(work_s: float | None, running: int, period_s: float) -> bool:
    """Return whether `running` maps, each on its own slot, finish `work_s` seconds of work within `period_s`
    seconds (Algorithm 1, line 26).

    The result is false if `work_s` is None, which means unknown.
    """
    return work_s is not None and running > 0 and work_s / running <= period_s


def map_utility(allocated: int, required: int, pending: int) -> float:
    """Return the utility of `allocated` map slots for a job with `pending` unfinished maps (equation 2).

    The utility is -inf for no slot, 0 for `required` slots (the number with which the job meets its goal),
    and 1 for `pending` slots or more. `required` is from 1 to `pending`; if both are equal, that number of
    slots gives 1.
    """
    if allocated >= pending:
        return 1.0
    if allocated <= 0:
        return -inf
    if allocated >= required:
        return (allocated - required) / (pending - required)
    return log(allocated) / log(required) - 1


def reduce_utility(allocated: int, pending: int) -> float:
    """Return the utility of `allocated` reduce slots for a job with `pending` unfinished reduces (equation
    3).

    The utility is from -1 for no slot to 0 for `pending` slots. The formula is not defined for no slot; -1 is
    the limit that the paper's text gives.
    """
    if allocated >= pending:
        return 0.0
    if allocated <= 0:
        return -1.0
    return log(allocated) / log(pending) - 1

"""RAS's arithmetic: the slots that a goal needs, and the utility of a placement (polo2011 3.2 and 3.3)."""

from __future__ import annotations

from math import ceil, inf, log

_SLACK = 1e-9  # work / time may be a whole number but for rounding


def slots_required(pending: int, work_s: float | None, left_s: float | None) -> int:
    """Return the map slots that a job needs to meet its goal, from 1 to `pending`; `pending` means "as early as
    possible".

    `work_s`: seconds that the running maps still need plus a mean map for each unstarted one; None if no mean is
    known. `left_s`: seconds until the goal; None without a goal. Running maps are included in the result, unlike in
    xu2015 equation 6, which gives additional slots.
    """
    if left_s is None or left_s <= 0 or work_s is None:
        return max(1, pending)
    return max(1, min(pending, ceil(work_s / left_s - _SLACK)))


def ends_within(work_s: float | None, running: int, period_s: float) -> bool:
    """Return whether the running maps will finish that work within the period (Algorithm 1, line 26)."""
    return work_s is not None and running > 0 and work_s / running <= period_s


def map_utility(allocated: int, required: int, pending: int) -> float:
    """Return equation 2: -inf without a slot, 0 with the required slots, 1 with a slot for each pending map.

    `required` is from 1 to `pending`; if both are equal, having them gives 1.
    """
    if allocated >= pending:
        return 1.0
    if allocated <= 0:
        return -inf
    if allocated >= required:
        return (allocated - required) / (pending - required)
    return log(allocated) / log(required) - 1


def reduce_utility(allocated: int, pending: int) -> float:
    """Return equation 3, from -1 (no pending reduce has a slot, as the text's range says) to 0 (all have one)."""
    if allocated >= pending:
        return 0.0
    if allocated <= 0:
        return -1.0
    return log(allocated) / log(pending) - 1

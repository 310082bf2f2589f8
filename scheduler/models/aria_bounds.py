"""The performance model of ARIA (verma2011, sections 3 and 5): bounds on a job's completion time, and the
slots with which it meets its deadline.

Equation 7, the average bound, is misprinted; this module uses T_avg = (T_low + T_up) / 2. All times are
seconds.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import NamedTuple

from schedbed.scheduler.models.job_profile import JobProfile

BOUNDS = ("avg", "low", "up")
"""Estimates of the completion time, one of which is compared with the deadline."""

_SLACK = 1e-9  # Rounding can put a whole number of slots slightly above itself.


class Bounds(NamedTuple):
    """Lower bound, average and upper bound of the time until a job completes, in seconds from now."""

    low_s: float
    avg_s: float
    up_s: float


class Curve(NamedTuple):
    """A job's completion time in seconds with m map and r reduce slots: a/m + b/r + c (eq. 9)."""

    a: float
    b: float
    c: float

    def time_s(self, maps: int, reduces: int) -> float:
        """Return the completion time, infinite if a stage has work but no slot."""
        return _share(self.a, maps) + _share(self.b, reduces) + self.c


class SlotAllocation(NamedTuple):
    """A job's slots. `capped`: it gets all available ones, which may be too few for the deadline."""

    maps: int
    reduces: int
    capped: bool = False


def _share(work: float, slots: int) -> float:
    if work <= 0:
        return 0.0
    return work / slots if slots > 0 else inf


def bounds(profile: JobProfile, maps: int, reduces: int, map_slots: int, reduce_slots: int) -> Bounds:
    """Return the bounds of the time to run the remaining tasks on these slots (eq. 1 to 7).

    If each reduce has its own slot, the lower bound has the profile's first shuffle (after the last map)
    only.
    """
    low_s = _share(maps * profile.map.avg_s, map_slots)
    up_s = _share((maps - 1) * profile.map.avg_s, map_slots) + profile.map.max_s if maps else 0.0
    if reduces:
        shuffle_s, reduce_s = profile.typical_shuffle.avg_s, profile.reduce.avg_s
        slots = max(reduce_slots, 1e-9)
        low_s += profile.first_shuffle.avg_s
        low_s += max(0.0, reduces / slots - 1) * shuffle_s + reduces * reduce_s / slots
        up_s += profile.first_shuffle.max_s + profile.typical_shuffle.max_s + profile.reduce.max_s
        up_s += max(0.0, (reduces - 1) / slots - 1) * shuffle_s + (reduces - 1) * reduce_s / slots
    return Bounds(low_s, (low_s + up_s) / 2, up_s)


def curve(profile: JobProfile, maps: int, reduces: int, bound: str = "avg") -> Curve:
    """Return the completion time by slots (eq. 9), as estimated by `bound`: "avg", "low" or "up"."""
    low, up = _low(profile, maps, reduces), _up(profile, maps, reduces)
    if bound == "low":
        return low
    if bound == "up":
        return up
    return Curve((low.a + up.a) / 2, (low.b + up.b) / 2, (low.c + up.c) / 2)


def _low(profile: JobProfile, maps: int, reduces: int) -> Curve:
    a = maps * profile.map.avg_s
    if not reduces:
        return Curve(a, 0.0, 0.0)
    shuffle_s = profile.typical_shuffle.avg_s
    return Curve(a, reduces * (shuffle_s + profile.reduce.avg_s), profile.first_shuffle.avg_s - shuffle_s)


def _up(profile: JobProfile, maps: int, reduces: int) -> Curve:
    a = max(0, maps - 1) * profile.map.avg_s
    last_s = profile.map.max_s if maps else 0.0
    if not reduces:
        return Curve(a, 0.0, last_s)
    shuffle_s = profile.typical_shuffle.avg_s
    last_s += profile.first_shuffle.max_s + profile.typical_shuffle.max_s + profile.reduce.max_s
    return Curve(a, (reduces - 1) * (shuffle_s + profile.reduce.avg_s), last_s - shuffle_s)


def allocate(curve: Curve, time_s: float, most_maps: int, most_reduces: int) -> SlotAllocation:
    """Return the smallest numbers of slots with which a job ends in `time_s`, rounded up (eq. 15).

    A limit is 0 only without such tasks. If equation 15 exceeds one limit, the other kind's slots follow from
    the remaining time (eq. 11). If both limits are too few, the result is the limits with `capped` set.
    """
    everything = SlotAllocation(most_maps, most_reduces, capped=True)
    left_s = time_s - curve.c
    if left_s <= 0:
        return everything
    root_a, root_b = sqrt(max(0.0, curve.a)), sqrt(max(0.0, curve.b))
    maps = _whole(root_a * (root_a + root_b) / left_s, most_maps)
    reduces = _whole(root_b * (root_a + root_b) / left_s, most_reduces)
    if maps > most_maps:
        maps = most_maps
        reduces = _rest(curve.b, left_s - _share(curve.a, maps), most_reduces)
    elif reduces > most_reduces:
        reduces = most_reduces
        maps = _rest(curve.a, left_s - _share(curve.b, reduces), most_maps)
    return everything if maps > most_maps or reduces > most_reduces else SlotAllocation(maps, reduces)


def _whole(slots: float, most: int) -> int:
    """Return `slots` rounded up, at least 1 unless `most` is 0."""
    return max(min(1, most), ceil(min(slots, 1e9) - _SLACK))


def _rest(work: float, left_s: float, most: int) -> int:
    """Return the slots for `work` slot seconds in `left_s`, or `most + 1` if no time is left."""
    if left_s <= 0:
        return most + 1
    return _whole(work / left_s, most)


# A variant of the policy ARIA's performance model that computes with whole waves: n tasks on s slots take
# ceil(n / s) waves. This variant is not in the paper verma2011.
#
# The paper's model is linear in tasks / slots, so its allocations cannot make a job end within 7% of each
# deadline of Figure 5, whatever the length of the job's tasks. An example is a job with 71 maps and 64
# reduces. The average bound allocates 58 map slots and 30 reduce slots for a deadline of 240 s, and 43 and
# 22 slots for 300 s. Both allocations need two waves of maps and three waves of reduces. Without any delay
# and with tasks of equal length, the job therefore ends after the same time T with either allocation. The T
# nearest to both deadlines is 2 / (1/240 + 1/300) = 266.7 s: 11.1% after one deadline and 11.1% before the
# other deadline.
#
# This module allocates slots so that whole waves end before the deadline, and never more slots than these
# waves need. All times are seconds.

WAVES = "waves"
"""The name of this model among the bounds."""


def waves_time_s(profile: JobProfile, maps: int, reduces: int, slots: SlotAllocation) -> float:
    """Return the seconds on the slots. A stage's last wave takes as long as its longest task."""
    map_waves, reduce_waves = _waves(maps, slots.maps), _waves(reduces, slots.reduces)
    return _maps_s(profile, map_waves) + _reduces_s(profile, reduce_waves)


def allocate_waves(
    profile: JobProfile, maps: int, reduces: int, time_s: float, most_maps: int, most_reduces: int
) -> SlotAllocation:
    """Return the smallest numbers of slots with which the job ends in time, or the limits with `capped`."""
    best: SlotAllocation | None = None
    map_waves = _waves(maps, most_maps)
    while (took_s := _maps_s(profile, map_waves)) <= time_s:
        reduce_waves = _most_waves(profile, reduces, time_s - took_s)
        slots = SlotAllocation(_slots(maps, map_waves), _slots(reduces, reduce_waves))
        fits = reduce_waves > 0 or not reduces
        if fits and slots.reduces <= most_reduces and (best is None or sum(slots[:2]) < sum(best[:2])):
            best = slots
        if map_waves >= maps:
            break
        map_waves = _waves(maps, _slots(maps, map_waves) - 1)
    return best or SlotAllocation(most_maps, most_reduces, capped=True)


def _waves(tasks: int, slots: int) -> float:
    if not tasks:
        return 0
    return -(-tasks // slots) if slots > 0 else inf


def _slots(tasks: int, waves: float) -> int:
    """Return the fewest slots on which the tasks end within `waves`."""
    return -(-tasks // int(waves)) if tasks and waves else 0


def _maps_s(profile: JobProfile, waves: float) -> float:
    return (waves - 1) * profile.map.avg_s + profile.map.max_s if waves else 0.0


def _reduces_s(profile: JobProfile, waves: float) -> float:
    if not waves:
        return 0.0
    more_s = (waves - 1) * (profile.typical_shuffle.avg_s + profile.reduce.avg_s)
    return profile.first_shuffle.avg_s + more_s + profile.reduce.max_s


def _most_waves(profile: JobProfile, reduces: int, left_s: float) -> int:
    """Return the most waves of reduces that end in time, 0 if it is too short for one."""
    left_s -= _reduces_s(profile, 1)
    if not reduces or left_s < 0:
        return 0
    wave_s = profile.typical_shuffle.avg_s + profile.reduce.avg_s
    return min(reduces, 1 + int(left_s / wave_s)) if wave_s > 0 else reduces

"""A variant of the policy ARIA's performance model that computes with whole waves: n tasks on s slots take
ceil(n / s) waves. This variant is not in the paper verma2011.

The paper's model is linear in tasks / slots, so its allocations cannot make a job end within 7% of each
deadline of Figure 5, whatever the length of the job's tasks. An example is a job with 71 maps and 64 reduces.
The average bound allocates 58 map slots and 30 reduce slots for a deadline of 240 s, and 43 and 22 slots for
300 s. Both allocations need two waves of maps and three waves of reduces. Without any delay and with tasks of
equal length, the job therefore ends after the same time T with either allocation. The T nearest to both
deadlines is 2 / (1/240 + 1/300) = 266.7 s: 11.1% after one deadline and 11.1% before the other deadline.

This module allocates slots so that whole waves end before the deadline, and never more slots than these waves
need. All times are seconds.
"""

from __future__ import annotations

from math import inf

from schedbed.scheduler.models.aria_bounds import SlotAllocation
from schedbed.scheduler.models.job_profile import JobProfile

WAVES = "waves"
"""The name of this model among the bounds."""


def waves_time_s(profile: JobProfile, maps: int, reduces: int, slots: SlotAllocation) -> float:
    """Return the completion time in seconds of `maps` maps and `reduces` reduces on the slots `slots`.

    The last wave of a stage takes as long as the stage's longest task in `profile`.
    """
    map_waves, reduce_waves = _waves(maps, slots.maps), _waves(reduces, slots.reduces)
    return _maps_s(profile, map_waves) + _reduces_s(profile, reduce_waves)


def allocate_waves(
    profile: JobProfile, maps: int, reduces: int, time_s: float, most_maps: int, most_reduces: int
) -> SlotAllocation:
    """Return the smallest numbers of slots with which the job ends within `time_s` seconds.

    `maps`, `reduces`: numbers of remaining tasks. `most_maps`, `most_reduces`: largest numbers of slots
    allowed. If even these limits are too few, the result is the limits with `capped` set.
    """
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
    """Return the smallest number of slots on which `tasks` tasks end within `waves` waves."""
    return -(-tasks // int(waves)) if tasks and waves else 0


def _maps_s(profile: JobProfile, waves: float) -> float:
    return (waves - 1) * profile.map.avg_s + profile.map.max_s if waves else 0.0


def _reduces_s(profile: JobProfile, waves: float) -> float:
    if not waves:
        return 0.0
    more_s = (waves - 1) * (profile.typical_shuffle.avg_s + profile.reduce.avg_s)
    return profile.first_shuffle.avg_s + more_s + profile.reduce.max_s


def _most_waves(profile: JobProfile, reduces: int, left_s: float) -> int:
    """Return the largest number of waves in which the reduces may run to end within `left_s` seconds.

    The result is 0 if the time is too short for one wave.
    """
    left_s -= _reduces_s(profile, 1)
    if not reduces or left_s < 0:
        return 0
    wave_s = profile.typical_shuffle.avg_s + profile.reduce.avg_s
    return min(reduces, 1 + int(left_s / wave_s)) if wave_s > 0 else reduces

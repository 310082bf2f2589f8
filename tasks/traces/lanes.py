"""Tasks of several stages that run one after the other, packed into the reduces of a job with two stages.

A job has maps and then reduces. A third stage therefore continues in reduces of the second: each such reduce, a
lane, runs a task after another one for which it waited. So the sum of the work stays the same, and the job takes
as long as its longest chain of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Lane:
    """`count` equal reduces, each of which runs the tasks with the indices `tasks` one after the other.

    `end_s` is the end of the last task. `work_s` is the sum of the tasks' work, and `lasts_s` is the duration.
    """

    count: int
    tasks: tuple[int, ...]
    end_s: float
    work_s: float
    lasts_s: float


def lanes(begins_s: Sequence[float], works_s: Sequence[float], counts: Sequence[int]) -> list[Lane]:
    """Return the lanes for groups of equal tasks that begin at given times after the maps.

    A task continues the lane that ended last before its begin. If the longest chain does not fit one lane, one
    reduce lasts until the end of that chain, and waits meanwhile.
    """
    made: list[Lane] = []
    for task in sorted(range(len(works_s)), key=lambda each: (begins_s[each], -works_s[each])):
        begin_s, work_s, left = begins_s[task], works_s[task], counts[task]
        free = [lane for lane in made if lane.end_s <= begin_s + 1e-9]
        for lane in sorted(free, key=lambda lane: -lane.end_s):
            taken = min(lane.count, left)
            if taken < lane.count:
                made.append(Lane(lane.count - taken, lane.tasks, lane.end_s, lane.work_s, lane.work_s))
            lane.count, lane.tasks, lane.end_s = taken, (*lane.tasks, task), begin_s + work_s
            lane.work_s = lane.lasts_s = lane.work_s + work_s
            left -= taken
            if not left:
                break
        if left:
            made.append(Lane(left, (task,), begin_s + work_s, work_s, work_s))
    last = max(made, key=lambda lane: (lane.end_s, lane.work_s), default=None)
    if last is not None and max(lane.work_s for lane in made) < last.end_s - 1e-9:
        if last.count > 1:
            made.append(Lane(last.count - 1, last.tasks, last.end_s, last.work_s, last.work_s))
        last.count, last.lasts_s = 1, last.end_s
    return made

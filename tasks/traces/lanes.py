"""Tasks of several stages that run one after the other, packed into the maps and reduces of a job with two stages.

A job has maps and then reduces. A third stage therefore continues in reduces of the second: each such reduce, a
lane, runs a task after another one for which it waited. So the sum of the work stays the same, and the job takes
as long as its longest chain of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count


@dataclass(slots=True)
class Lane:
    """`count` equal maps or reduces, each of which runs the tasks with the indices `tasks` one after the other.

    `end_s` is the end of the last task. `work_s` is the sum of the tasks' work, and `lasts_s` is the duration.
    """

    count: int
    tasks: tuple[int, ...]
    end_s: float
    work_s: float
    lasts_s: float


def lanes(begins_s: Sequence[float], works_s: Sequence[float], counts: Sequence[int]) -> list[Lane]:
    """Return the lanes for groups of `counts` equal tasks, which begin at given times after the start of the stage.

    A task continues the lane that ended last before its begin. If the longest chain does not fit one lane, one
    map or reduce lasts until the end of that chain, and waits meanwhile.
    """
    free: list[Lane] = []  # Sorted by their ends, since they become free in that order.
    busy: list[tuple[float, int, Lane]] = []
    serial = count()
    for task in sorted(range(len(works_s)), key=lambda each: (begins_s[each], -works_s[each])):
        begin_s, work_s, left = begins_s[task], works_s[task], counts[task]
        while busy and busy[0][0] <= begin_s + 1e-9:
            free.append(heappop(busy)[2])
        while left:
            before = free[-1] if free else Lane(left, (), 0.0, 0.0, 0.0)
            taken = min(before.count, left)
            total_s = before.work_s + work_s
            lane = Lane(taken, (*before.tasks, task), begin_s + work_s, total_s, total_s)
            heappush(busy, (lane.end_s, next(serial), lane))
            left -= taken
            before.count -= taken
            if free and not before.count:
                free.pop()
    made = [*free, *(lane for _, _, lane in busy)]
    last = max(made, key=lambda lane: (lane.end_s, lane.work_s), default=None)
    if last is not None and max(lane.work_s for lane in made) < last.end_s - 1e-9:
        if last.count > 1:
            made.append(Lane(last.count - 1, last.tasks, last.end_s, last.work_s, last.work_s))
        last.count, last.lasts_s = 1, last.end_s
    return made

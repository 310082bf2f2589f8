"""LSAP-Fair: LSAP with a cost that adds the excess over a user's fair share to the staging time.

Section 3.3.1 of xu2015 (lsap-fair-sched by Guo, Fox and Zhou, 2012) states that the cost has these two parts,
with weights set by the administrator. The formulas are this project's own. With S map slots and U users with
maps to run, a fair share is S / U. A user's k-th candidate map, with r running, has the excess (r + k) /
share - 1, limited to 0..1. Staging times are divided by the longest one. The parameter `fairness` is a weight
from 0 (staging alone) to 1 (fairness alone). Candidate maps are taken from the jobs in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from schedbed.scheduler.hooks import Quiet
from schedbed.scheduler.locality.lsap import MAP, PARAMETERS, AssignedSlots, Lsap
from schedbed.scheduler.models.staging_costs import FORBIDDEN
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import choice, number, share
from schedbed.scheduler.view import JobView, TallyView, TaskView, View


class LsapFair(Lsap):
    """A locality axis like `Lsap`, with a cost that includes fairness between users or queues.

    `fairness`: weight of fairness against staging time, from 0 to 1. `pool_by`: `user` or `queue`, the group
    of jobs that has a fair share of the slots.
    """

    quiet = Quiet(counts=True)  # It counts heartbeats, but does not read what they report.

    def __init__(
        self, *, fairness: float = 0.5, pool_by: str = "user", candidates: int = 100, off_rack: float = 2.0
    ) -> None:
        super().__init__(candidates=candidates, off_rack=off_rack)
        self._fairness = fairness
        self._by_user = pool_by == "user"

    def _gather(self, jobs: Iterable[JobView], many: int) -> list[TaskView]:
        """Return at most `many` unstarted maps, taken from the jobs in turn so that no user is left out."""
        found = [self._open[job.job].first(job, 1) for job in islice(jobs, many)]
        each = max(1, many // max(1, len(found)))
        for maps in found:
            if maps and each > 1:
                maps[:] = self._open[maps[0].job.job].first(maps[0].job, each)
        rounds = max((len(maps) for maps in found), default=0)
        return [maps[number] for number in range(rounds) for maps in found if number < len(maps)][:many]

    def _costs(self, view: View, tasks: Sequence[TaskView], staging: Any) -> Any:
        """Return (1 - fairness) x staging / longest staging + fairness x excess over the fair share."""
        import numpy as np

        slowest_s = float(staging[staging < FORBIDDEN].max(initial=0.0))
        costs = (1.0 - self._fairness) * (staging / slowest_s if slowest_s else staging)
        return costs + self._fairness * np.array(self._excess(view, tasks))[np.newaxis, :]

    def _excess(self, view: View, tasks: Sequence[TaskView]) -> list[float]:
        """Return by how much each map's user or queue would exceed its fair share, in shares from 0 to 1."""
        pools: dict[str, int] = {}
        for task in tasks:
            pool = self._pool(task)
            pools.setdefault(pool.name, pool.running - pool.killing)
        fair_share = view.slots(MAP) / len(pools)
        found = []
        for task in tasks:
            name = self._pool(task).name
            pools[name] += 1
            found.append(min(1.0, max(0.0, pools[name] / fair_share - 1.0)) if fair_share else 0.0)
        return found

    def _pool(self, task: TaskView) -> TallyView:
        return task.job.maps.user if self._by_user else task.job.maps.queue


AXIS = Axis(
    axis="locality",
    name="lsap-fair",
    factory=LsapFair,
    summary="like lsap, but the matching also avoids users who are above their fair share",
    paper="xu2015 3.3.1; Guo 2012 (lsap-fair-sched)",
    parameters=(
        number(
            "fairness",
            "0.5",
            "",
            "weight of fairness: 0 considers only the time to transfer input, 1 only users' fair shares",
            share,
        ),
        choice(
            "pool_by", ("user", "queue"), "whether each user or each queue gets a fair share of the slots"
        ),
        *PARAMETERS,
    ),
    compose=AssignedSlots,
    rank=31,
)
POLICY = AXIS.named(
    summary="Like fair, but idle slots and maps are matched by the time to transfer input and by "
    "users' fair shares.",
    order="fair",
    rank=33,
)

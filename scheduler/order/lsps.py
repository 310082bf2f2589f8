"""The order axis LsPS (Leveraging Size Patterns): users with small jobs receive more slots, and users whose
jobs have similar sizes run them in FIFO order.

Source: the thesis xu2015, section 3.1.4.1, after Yao et al. 2013, in two tiers. First tier: slots are divided
among users by weight. The size of a job is its number of tasks times their mean time, and equation 1 is the
mean size S_i of the jobs that user i has in the cluster. Equation 2 as printed is wrongly bracketed, since
its shares do not add up to equation 4. The corrected equation, with SU* = slots / U for U users, is SU_i =
SU* x U x (alpha x (1/S_i) / sum(1/S) + (1 - alpha) / U). Equation 3 is a min share of one slot for each user.
Second tier: a user's jobs run in FIFO order if their sizes are similar (coefficient of variation below 1),
else by fair shares.

Decisions where the thesis has no rule: the mean time of a job's maps or reduces is that of the job's own
ended tasks; before the first task has ended, it is the mean of the user's tasks, then of all users' tasks,
then one second. The second tier uses the sizes of the user's jobs in the cluster and of the last `window`
jobs that succeeded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.models.task_times import MeanTimes, took_s
from schedbed.scheduler.order.pools import Pool, PoolOrder, PoolSettings, SlotsByKind
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, number, positive, share
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

_SHORTEST_S = 1e-6


class SizedPool(Pool):
    """The pool of one user's jobs, with the sizes of the jobs in slot seconds.

    `ended_s`: sizes of the user's last successful jobs. `times`: mean times of the user's tasks. The sizes of
    the current jobs, by id, change only in `set_size` and `pop_size`.
    """

    __slots__ = ("_mean_s", "_sizes_s", "_variation", "ended_s", "times")

    def __init__(self, name: str, window: int, everybody: MeanTimes) -> None:
        super().__init__(name, PoolSettings(min_share=SlotsByKind(1, 1), inside="fifo"))
        self.times = MeanTimes(everybody)
        self._sizes_s: dict[str, float] = {}
        self.ended_s: deque[float] = deque(maxlen=window)
        self._mean_s: float | None = None  # None after a change of a size, as the next value.
        self._variation: float | None = None

    def set_size(self, job: str, size_s: float) -> None:
        """Set the size of the current job with the id `job`."""
        if self._sizes_s.get(job) != size_s:
            self._sizes_s[job] = size_s
            self._mean_s = self._variation = None

    def pop_size(self, job: str, *, keeps: bool) -> None:
        """Remove the job with the id `job` from the current jobs. `keeps`: keep its size, as it succeeded."""
        size_s = self._sizes_s.pop(job)
        if keeps:
            self.ended_s.append(size_s)
        self._mean_s = self._variation = None

    @property
    def mean_s(self) -> float:
        """Return the mean size of the user's current jobs in slot seconds (equation 1), always above 0."""
        if self._mean_s is None:
            self._mean_s = max(_SHORTEST_S, fmean(self._sizes_s.values()))
        return self._mean_s

    @property
    def variation(self) -> float:
        """Return the coefficient of variation of the sizes of the user's current and last successful jobs."""
        if self._variation is None:
            self._variation = variation([*self.ended_s, *self._sizes_s.values()])
        return self._variation


class Lsps(PoolOrder):
    """The order axis of a composed policy: more slots for users with small jobs.

    `alpha`: from 0 (equal slots for all users) to 1 (slots in proportion to 1 / mean job size). `alike`: a
    user's jobs run in FIFO order if the coefficient of variation of their sizes is below this value.
    `window`: number of a user's ended jobs whose sizes are kept.
    """

    quiet = QUIET

    def __init__(self, *, alpha: float = 0.5, alike: float = 1.0, window: int = 20) -> None:
        super().__init__()
        self._alpha, self._alike, self._window = alpha, alike, window
        self._everybody = MeanTimes()
        self._times: dict[str, MeanTimes] = {}  # By id, of the current jobs.
        self._learned = False  # Whether a task has ended since sizes were last computed.

    def new_pool(self, name: str) -> SizedPool:
        """Implement `PoolOrder.new_pool`."""
        return SizedPool(name, self._window, self._everybody)

    def _sized_pool(self, job: JobView) -> Any:
        return self.pools[job.user]

    # Sizes

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: compute the size of the new job, and update the weights of all users."""
        super().submitted(view, job)
        self._times[job.job] = MeanTimes(self._sized_pool(job).times)
        self._size(job)
        self._share_out(view)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: update the job's size, for new weights at the next tick."""
        job = attempt.task.job
        if job.job in self._times and attempt.state == "succeeded":
            self._times[job.job].add(attempt.task.kind, took_s(attempt))
            self._size(job)
            self._learned = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: keep the size of a successful job, and update the weights of all users."""
        super().finished(view, job)
        pool = self._sized_pool(job)
        pool.pop_size(job.job, keeps=job.state == "succeeded")
        del self._times[job.job]
        self._share_out(view)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: recompute all sizes and weights if a task has ended since the last tick."""
        if self._learned:
            self._learned = False
            for job in view.jobs.values():
                self._size(job)
            self._share_out(view)

    def _size(self, job: JobView) -> None:
        size_s = self._times[job.job].size_s(job.maps.total, job.reduces.total)
        self._sized_pool(job).set_size(job.job, size_s)

    # Slots and the order inside

    def slots(self, view: View, kind: TaskKind) -> dict[str, float]:
        """Return each user's slots (equation 2), of those with jobs."""
        sizes = {name: pool.mean_s for name, pool in self._users()}
        return slots_by_size(view.slots(kind), sizes, self._alpha)

    def _users(self) -> list[tuple[str, Any]]:
        return [(name, pool) for name, pool in self.pools.items() if pool.jobs]

    def _share_out(self, view: View) -> None:
        """Set the weights of all users by the sizes of their jobs, and the order of each user's jobs, FIFO or fair."""
        users = self._users()
        weights = slots_by_size(len(users), {name: pool.mean_s for name, pool in users}, self._alpha)
        for name, pool in users:
            inside = "fifo" if pool.variation < self._alike else "fair"
            self.resettle(pool, replace(pool.settings, weight=weights[name], inside=inside))

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return a note to append to the reason of a launch: the user's slots, and the mean size of the user's jobs."""
        pool = self._sized_pool(job)
        holds, due = pool.tallies[kind].running, self.slots(view, kind)[job.user]
        return (
            f"{job.user} holds {holds} of {due:.3g} slots for jobs of {pool.mean_s:.3g} s on average, "
            f"{pool.settings.inside} as they vary by {pool.variation:.2f}"
        )


AXIS = Axis(
    axis="order",
    name="lsps",
    factory=Lsps,
    summary="users with small jobs get more slots; a user's jobs run in FIFO order if their sizes "
    "are similar, else they share equally",
    paper="xu2015 3.1.4.1, equations 1 to 4; Yao et al. 2013",
    parameters=(
        number(
            "alpha",
            "0.5",
            "",
            "how strongly users with small jobs are favored: 0 gives all users equal slots, "
            "1 gives slots in proportion to 1 / mean job size",
            share,
        ),
        number(
            "alike",
            "1",
            "",
            "largest variation of job sizes (standard deviation / mean) at which a user's "
            "jobs run in FIFO order instead of fair shares",
            positive,
        ),
        count(
            "window",
            "20",
            "number of each user's last ended jobs whose sizes count when the variation of job sizes "
            "is computed",
        ),
    ),
    rank=60,
)
POLICY = AXIS.named(
    summary="Users with small jobs get more slots; a user's jobs run in FIFO order if their sizes "
    "are similar, else they share equally.",
    rank=56,
)


# The formulas of the order axis LsPS (xu2015 3.1.4.1): the number of slots of each user by mean job size,
# and the variation of job sizes.


def slots_by_size(slots: float, sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Divide slots among users by mean job size (equation 2, corrected): equally for `alpha` 0, by 1 / size for 1."""
    if not sizes:
        return {}
    total = sum(1 / size for size in sizes.values())
    equal = (1 - alpha) / len(sizes)
    return {user: slots * (alpha / size / total + equal) for user, size in sizes.items()}


def variation(sizes: Sequence[float]) -> float:
    """Return the coefficient of variation, 0 for fewer than two sizes."""
    mean = fmean(sizes) if len(sizes) > 1 else 0.0
    return pstdev(sizes) / mean if mean > 0 else 0.0

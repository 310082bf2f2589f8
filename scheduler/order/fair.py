"""Fair (Hadoop's fair scheduler): pools with weights and min shares, kept sorted; see algorithms, Baselines.

Pools below their min share come first, by running/min share; then all by running/weight; ties by the earliest
submit. Inside a pool: fair by running tasks (weighted by priority, as HFS does), or FIFO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from schedbed.scheduler.order.pools import Pool, PoolSettings
from schedbed.scheduler.order.preemption import Preemption
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import Admission, Kill, Locality
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import PolicyParameter, by_name, choice, duration, positive
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import JobSpec, TaskKind


class Fair:
    """Order axis. `pool_by` is user or queue; a pool that is not in `pools` has the default settings.

    With a timeout (seconds), a pool that is below its min share, or below half its fair share, for longer gets
    slots back: the most recently launched tasks of pools above their share are killed.
    """

    elidable = True  # heartbeats that bring nothing mean nothing to it

    def __init__(
        self,
        *,
        pools: Mapping[str, PoolSettings] | None = None,
        pool_by: str = "user",
        inside: str = "fair",
        min_share_timeout_s: float | None = None,
        fair_share_timeout_s: float | None = None,
    ) -> None:
        self._settings = dict(pools or {})
        self._default = PoolSettings(inside=inside)
        self._by_user = pool_by == "user"
        self._pools: dict[str, Pool] = {}
        self._order: dict[TaskKind, SortedKeys[SortedKeys[JobView]]] = {
            kind: SortedKeys() for kind in TaskKind
        }  # the ready jobs of each pool that has some
        self._preemption: Preemption | None = None
        if min_share_timeout_s is not None or fair_share_timeout_s is not None:
            self._preemption = Preemption(min_share_timeout_s, fair_share_timeout_s)

    @property
    def preempts(self) -> bool:
        """Is a timeout set?"""
        return self._preemption is not None

    @property
    def compiled_as(self) -> str | None:
        """Says that the compiled loop has this order, as long as nothing is pre-empted."""
        return None if self.preempts else "fair"

    def pool_of(self, job: JobView | JobSpec) -> str:
        """Returns the name of the job's pool."""
        return job.user if self._by_user else job.queue

    def settings_of(self, pool: str) -> PoolSettings:
        """Returns the pool's settings, the default ones when none are given."""
        return self._settings.get(pool, self._default)

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """As in `Order`."""
        return chain.from_iterable(self._order[kind])

    def submitted(self, view: View, job: JobView) -> None:
        """As in `Hooks`."""
        name = self.pool_of(job)
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = Pool(name, self.settings_of(name))
            for kind in TaskKind:
                stage = job.stage(kind)
                pool.tallies[kind] = stage.user if self._by_user else stage.queue
        pool.jobs.put(job, (job.submit_s, job.serial))

    def finished(self, view: View, job: JobView) -> None:
        """As in `Hooks`."""
        self._pool(job).jobs.drop(job)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """As in `Hooks`: the job moves in its pool, and the pool among the pools."""
        pool = self._pool(job)
        ready = pool.ready[kind]
        stage = job.stage(kind)
        if stage.ready:
            ready.put(job, pool.job_key(job, stage))
        else:
            ready.drop(job)
        if ready:
            self._order[kind].put(ready, pool.key(kind))
        else:
            self._order[kind].drop(ready)

    def _pool(self, job: JobView) -> Pool:
        return self._pools[self.pool_of(job)]

    def preempt(self, view: View) -> Sequence[Kill]:
        """As in `Hooks`."""
        if self._preemption is None:
            return ()
        return [kill for kind in TaskKind for kill in self._preemption.kills(view, self._pools, kind)]


def pools(doc: str) -> PolicyParameter:
    """Return the parameter of settings by pool, which only YAML can write."""
    example = "{ana: {weight: 2, min_share: 1}}"
    readers = {"weight": positive, "min_share": _count, "inside": _inside}
    return by_name("pools", "pool", doc, example, readers, PoolSettings)


def _count(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise ValueError(f"{raw!r} is not a number of slots (a whole number, 0 or more)")
    return raw


def _inside(raw: object) -> str:
    if raw not in ("fair", "fifo"):
        raise ValueError(f"{raw!r} is not one of fair, fifo")
    return str(raw)


def _check(order: Fair, locality: Locality, admission: Admission) -> None:
    if order.preempts and not admission.limits.slots:
        raise ValueError("pre-emption counts slots, so it needs admission=slots")


AXIS = Axis(
    axis="order",
    name="fair",
    factory=Fair,
    summary="pools by min share and weight, fair or FIFO inside",
    paper="Hadoop fair scheduler (HFS); xu2015 chapter 3",
    parameters=(
        pools("settings by pool name: weight, min_share (slots of each kind), inside (fair, fifo)"),
        choice("pool_by", ("user", "queue"), "what makes a pool"),
        choice("inside", ("fair", "fifo"), "order of jobs in a pool that `pools` does not name"),
        duration("min_share_timeout", "off", "pre-empt for a pool below its min share for so long"),
        duration("fair_share_timeout", "off", "pre-empt for a pool below half its fair share for so long"),
    ),
    check=_check,
    rank=10,
)
POLICY = Named(
    name="fair",
    summary="Pools share slots by min share and weight; nearest map first.",
    paper="Hadoop fair scheduler (HFS); xu2015 chapter 3",
    order="fair",
    rank=10,
)

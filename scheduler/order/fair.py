"""The order axis Fair (Hadoop's fair scheduler, HFS): divides slots among pools of jobs by weights and min
shares.

Pools below their min share come first, sorted by running tasks / min share; then all other pools, sorted by
running tasks / weight. Of two pools with equal keys, the pool with the oldest job comes first. With the
setting `ties` = name, the first by name comes first, as in HFS. Inside a pool, jobs are sorted by running
tasks (fair, weighted by priority as in HFS) or FIFO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.scheduler.order.pools import Pool, PoolOrder, PoolSettings
from schedbed.scheduler.order.preemption import Preemption, frees_slots
from schedbed.scheduler.policy import Admission, Kill, Locality
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import PolicyParameter, by_name, choice, duration, positive
from schedbed.scheduler.view import View
from schedbed.tasks.specs import TaskKind


class Fair(PoolOrder):
    """The order axis of a composed policy: pools of jobs that share slots by weight and min share.

    `pools`: settings by pool name; all other pools have the default settings. `pool_by`: a pool for each
    user, or for each queue. `inside`: default order of jobs in a pool, fair or fifo. `ties`: which of two
    equal pools comes first, by submit time or by name.

    `min_share_timeout_s`, `fair_share_timeout_s`: seconds after which a pool below its min share, or below
    half its fair share, takes slots back, or None for never. The most recently launched tasks of pools above
    their share are then killed.
    """

    elidable = True  # Heartbeats without news do not change its answers.

    def __init__(
        self,
        *,
        pools: Mapping[str, PoolSettings] | None = None,
        pool_by: str = "user",
        inside: str = "fair",
        ties: str = "submit",
        min_share_timeout_s: float | None = None,
        fair_share_timeout_s: float | None = None,
    ) -> None:
        super().__init__(by_user=pool_by == "user")
        self._settings = dict(pools or {})
        self._default = PoolSettings(inside=inside)
        self.by_name = ties == "name"
        self._preemption: Preemption | None = None
        if min_share_timeout_s is not None or fair_share_timeout_s is not None:
            self._preemption = Preemption(min_share_timeout_s, fair_share_timeout_s)

    @property
    def preempts(self) -> bool:
        """Return whether this order kills attempts, that is, whether any timeout is set."""
        return self._preemption is not None

    @property
    def compiled_as(self) -> str | None:
        """Return "fair" if the simulator can run this order in its compiled loop (fast machine code), else
        None.

        The compiled loop does not support preemption.
        """
        return None if self.preempts else "fair"

    def new_pool(self, name: str) -> Pool:
        """Implement `PoolOrder.new_pool`: return a pool with the settings for the pool `name`."""
        return Pool(name, self.settings_of(name), by_name=self.by_name)

    def settings_of(self, pool: str) -> PoolSettings:
        """Return the settings of the pool with the name `pool`; pools without settings have the default
        settings."""
        return self._settings.get(pool, self._default)

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: return the attempts to kill for pools that lacked slots longer than the
        timeouts."""
        if self._preemption is None:
            return ()
        return [kill for kind in TaskKind for kill in self._preemption.kills(view, self.pools, kind)]


def pools(doc: str) -> PolicyParameter:
    """Return the declaration of the policy parameter `pools`, a dictionary from pool name to settings.

    Users set this parameter in YAML only. `doc` is the parameter's help text.
    """
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
    if order.preempts and not frees_slots(admission):
        raise ValueError("pre-emption frees single slots, so it needs admission=slots")


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
        choice(
            "ties",
            ("submit", "name"),
            "which of two pools with equal shares comes first: oldest job, or name",
        ),
        duration(
            "min_share_timeout", "off", "pre-empt for a pool that was below its min share for this time"
        ),
        duration(
            "fair_share_timeout",
            "off",
            "pre-empt for a pool that was below half its fair share for this time",
        ),
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

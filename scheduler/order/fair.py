"""The order axis Fair (Hadoop's fair scheduler, HFS): divides slots among pools of jobs by weights and min
shares.

Pools below their min share come first, sorted by running tasks / min(min share, demand); then all other
pools, sorted by running tasks / weight. Of two pools with equal keys, the pool with the oldest job comes
first. With the setting `ties` = name, the first by name comes first, as in HFS. Inside a pool, jobs are
sorted by running tasks (fair, weighted by priority as in HFS) or FIFO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedbed.scheduler.hooks import QUIET, Kill, drop
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.pools import Pool, PoolOrder, PoolSettings, SlotsByKind
from schedbed.scheduler.order.preemption import Preemption, frees_slots
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    by_name,
    choice,
    duration,
    one_of,
    positive,
    slot_count,
)
from schedbed.scheduler.view import JobView, View
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.units import parse_duration


class Fair(PoolOrder):
    """The order axis of a composed policy: pools of jobs that share slots by weight and min share.

    `pools`: settings by pool name; all other pools have the default settings. `users`: the jobs of a user that
    may start tasks at a time, by user. `pool_by`: a pool for each user, or for each queue. `inside`: default
    order of jobs in a pool, fair or fifo. `ties`: which of two equal pools comes first, by submit time or by name.

    `min_share_timeout_s`, `fair_share_timeout_s`: seconds after which a pool below its min share, or below
    half its fair share, takes slots back, or None for never. The most recently launched tasks of pools above
    their share are then killed. `look_s`: seconds between two looks for such pools.
    """

    quiet = QUIET

    def __init__(
        self,
        *,
        pools: Mapping[str, PoolSettings] | None = None,
        pool_by: str = "user",
        inside: str = "fair",
        ties: str = "submit",
        min_share_timeout_s: float | None = None,
        fair_share_timeout_s: float | None = None,
        users: Mapping[str, UserSettings] | None = None,
        look_s: float = 0.0,
    ) -> None:
        super().__init__(by_user=pool_by == "user")
        self._default = PoolSettings(inside=inside)
        self._settings = {
            name: settings if settings.inside else replace(settings, inside=inside)
            for name, settings in (pools or {}).items()
        }
        self._users = dict(users or {})
        limits = [settings.max_running for settings in (*self._settings.values(), *self._users.values())]
        self._limits_jobs = any(limit is not None for limit in limits)
        self._may_run: dict[str, None] = {}  # Jobs that may start tasks, if their number is limited.
        self.by_name = ties == "name"
        self._preemption: Preemption | None = None
        # What a pool with slots due ran when it last changed.
        self._ran: dict[tuple[str, TaskKind], int] = {}
        timeouts_s = [settings.min_share_timeout_s for settings in self._settings.values()]
        if any(each is not None for each in (min_share_timeout_s, fair_share_timeout_s, *timeouts_s)):
            self._preemption = Preemption(min_share_timeout_s, fair_share_timeout_s, look_s)
        else:
            drop(self, "preempt", "starves")

    @property
    def preempts(self) -> bool:
        return self._preemption is not None

    @property
    def is_plain(self) -> bool:
        """Return whether the settings are only weights and orders: no shares, limits or pre-emption."""
        plain = all(
            settings == PoolSettings(weight=settings.weight, inside=settings.inside)
            for settings in self._settings.values()
        )
        return plain and not self._limits_jobs and not self.preempts

    def new_pool(self, name: str) -> Pool:
        """Implement `PoolOrder.new_pool`."""
        return Pool(name, self.settings_of(name), by_name=self.by_name)

    def settings_of(self, pool: str) -> PoolSettings:
        """Return the settings of the pool with the name `pool`; pools without settings have the default settings."""
        return self._settings.get(pool, self._default)

    # Limits of the number of jobs (PoolManager.getPoolMaxJobs and getUserMaxJobs, updateRunnability of HFS)

    def may_run(self, job: JobView) -> bool:
        """Implement `PoolOrder.may_run`: return whether fewer earlier jobs of its pool and user run than may."""
        return not self._limits_jobs or job.job in self._may_run

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: add the job to its pool."""
        super().submitted(view, job)
        self._choose_jobs()

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job from its pool, and let the next jobs start tasks."""
        super().finished(view, job)
        self._choose_jobs()

    def _choose_jobs(self) -> None:
        """Choose the jobs that may start tasks: the first of all by priority and time, as far as limits allow."""
        if not self._limits_jobs:
            return
        before, self._may_run = self._may_run, {}
        of_pool, of_user = Counter[str](), Counter[str]()
        jobs = [(job, pool) for pool in self.pools.values() for job in pool.jobs]
        for job, pool in sorted(jobs, key=lambda each: fifo_key(each[0])):
            of_user_most = self._users.get(job.user, UserSettings()).max_running
            most = pool.settings.max_running
            if (most is None or of_pool[pool.name] < most) and (
                of_user_most is None or of_user[job.user] < of_user_most
            ):
                of_pool[pool.name] += 1
                of_user[job.user] += 1
                self._may_run[job.job] = None
        for job, _ in jobs:
            if (job.job in before) != (job.job in self._may_run):
                for kind in TaskKind:
                    self.settle_job(job, kind)

    # Preemption

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: sort the job and its pool again, and note slots that the pool has got."""
        pool = self._pool(job)
        if pool.due[kind]:
            running = pool.tallies[kind].running
            pool.due[kind] = max(0, pool.due[kind] - max(0, running - self._ran[pool.name, kind]))
            self._ran[pool.name, kind] = running
        super().changed(view, job, kind)
        if not pool.ready[kind]:
            pool.due[kind] = 0

    def starves(self, view: View, job: JobView) -> bool:
        """Implement `Order.starves`: return whether the pool has lacked map slots for longer than a timeout."""
        return self._preemption is not None and self._preemption.starves(view, self._pool(job), TaskKind.MAP)

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`."""
        if self._preemption is None:
            return ()
        kills = self._preemption.kills(view, self.pools)
        for name, kill in kills:
            pool, kind = self.pools[name], kill.attempt.task.kind
            pool.due[kind] += 1
            self._ran[name, kind] = pool.tallies[kind].running
            self._place(pool, kind)
        return [kill for _, kill in kills]


def pools(doc: str) -> PolicyParameter:
    """Declare the parameter `pools`, for YAML only."""
    example = "{ana: {weight: 2, min_share: 1}}"
    readers = {
        "weight": positive,
        "min_share": _slots,
        "max_share": _slots,
        "max_running": slot_count,
        "inside": one_of("fair", "fifo"),
        "min_share_timeout": parse_duration,
    }
    durations = ("min_share_timeout",)
    return by_name("pools", "pool", doc, example, readers, _settings, durations=durations)


def _settings(*, min_share_timeout: float | None = None, **values: Any) -> PoolSettings:
    return PoolSettings(min_share_timeout_s=min_share_timeout, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """The settings of a user: `max_running` is the number of jobs that may start tasks at a time, or None."""

    max_running: int | None = None


def _slots(raw: object) -> SlotsByKind:
    """Parse a number of slots of each kind, or `{map: 1, reduce: 2}`."""
    if not isinstance(raw, Mapping):
        number = slot_count(raw)
        return SlotsByKind(number, number)
    known: Mapping[Any, Any] = raw
    if set(known) != {"map", "reduce"}:
        raise ValueError(f"{raw!r} is neither a number of slots nor {{map: NUMBER, reduce: NUMBER}}")
    return SlotsByKind(slot_count(known["map"]), slot_count(known["reduce"]))


def _check(order: Fair, locality: Locality, admission: Admission) -> None:
    if order.preempts and not frees_slots(admission):
        raise ValueError("pre-emption frees single slots, so it needs admission=slots")


AXIS = Axis(
    axis="order",
    name="fair",
    factory=Fair,
    summary="pools of jobs share the slots by weight and min share; in a pool, jobs share equally or "
    "run in FIFO order",
    paper="Hadoop fair scheduler (HFS); xu2015 chapter 3",
    parameters=(
        pools(
            "settings by pool name: weight, min_share and max_share (slots, or {map: 1, reduce: 2}), "
            "max_running (most jobs at a time), inside (fair or fifo), min_share_timeout"
        ),
        by_name(
            "users",
            "user",
            "settings by user name: max_running (most running jobs of the user), such as {ana: "
            "{max_running: 2}}",
            "{ana: {max_running: 2}}",
            {"max_running": slot_count},
            UserSettings,
        ),
        choice("pool_by", ("user", "queue"), "whether the jobs of each user or of each queue form a pool"),
        choice(
            "inside",
            ("fair", "fifo"),
            "order of the jobs in a pool, unless `pools` sets another: fair (equal shares) or fifo "
            "(by priority and submit time)",
        ),
        choice(
            "ties",
            ("submit", "name"),
            "which of two pools with equal shares comes first: the one with the oldest job (submit), "
            "or the first in the alphabet (name)",
        ),
        duration(
            "min_share_timeout",
            "off",
            "time after which a pool below its min share gets slots from other pools, whose "
            "tasks are killed; off for never",
        ),
        duration(
            "fair_share_timeout",
            "off",
            "time after which a pool below half its fair share gets slots from other pools, whose "
            "tasks are killed; off for never",
        ),
        duration(
            "look",
            "0s",
            "time between two checks for pools that have waited too long for slots; Hadoop 1 "
            "checks every 15 s",
        ),
    ),
    check=_check,
    rank=10,
)
POLICY = AXIS.named(
    summary="Pools of jobs share the slots by weight and min share; each job starts the map nearest "
    "to its data.",
    rank=10,
)

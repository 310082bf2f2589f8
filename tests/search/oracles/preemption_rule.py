"""Reference for pre-emption by the policy Fair: the attempts to kill, from shares found by bisection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.tasks.specs import TaskKind
from tests.search.shares import shares_of_pools
from tests.search.violation import hold

EPSILON = 1e-6


class PreemptionRule:
    """Follows since when each pool has less than its promised slots, and computes the attempts to kill."""

    def __init__(
        self, by_user: bool, settings: Mapping[str, Any], default: Any, timeouts: Any, look_s: float
    ) -> None:
        self._by_user, self._settings, self._default = by_user, settings, default
        self._timeouts_s = timeouts  # For the min share and for half the fair share; None: never.
        self._look_s, self._looked_s = look_s, float("-inf")
        self._content_s: dict[tuple[int, str, TaskKind], float] = {}
        self._took_s: dict[tuple[str, TaskKind], float] = {}
        self._pools: dict[str, None] = {}  # In the order of their first jobs.

    def submitted(self, job: Any) -> None:
        """Add the pool of a submitted job."""
        self._pools[self._pool_of(job)] = None

    def _pool_of(self, job: Any) -> str:
        return job.user if self._by_user else job.queue

    def check(self, view: Any, kills: list[Any], before: Mapping[str, str]) -> None:
        """Check that one tick kills exactly the expected attempts.

        `before` has the attempts' states before the kills.
        """
        looks = view.now_s >= self._looked_s + self._look_s
        if looks:
            self._looked_s = view.now_s
        wanted = [attempt.attempt for kind in TaskKind for attempt in self._due(view, kind, before, looks)]
        seen = f"{view.now_s}: {[kill.attempt.attempt for kill in kills]} instead of {wanted}"
        hold([kill.attempt.attempt for kill in kills] == wanted, "pre-emption gives back what is owed", seen)

    def _due(self, view: Any, kind: TaskKind, before: Mapping[str, str], looks: bool) -> list[Any]:
        shares, kept = shares_of_pools(view, kind, self._by_user, self._settings)
        live = [a for job in view.jobs.values() for a in job.attempts.values() if a.task.kind is kind]
        coming = sum(
            attempt.state == "killing" and attempt.task.kind is kind
            for node in view.nodes.values()
            for attempt in node.attempts.values()
        )
        owed = {name: self._owed(view, name, kind, shares, kept) for name in self._pools}
        if not looks:
            return []
        killable = sorted((a for a in live if before[a.attempt] != "killing"), key=lambda a: -a.serial)
        victims = []
        left = dict(kept)
        for attempt in killable:
            pool = self._pool_of(attempt.task.job)
            if left[pool] > shares[pool] + EPSILON:  # HFS: while a pool holds more than its share
                left[pool] -= 1
                victims.append(attempt)
        taken = []
        for name, slots in owed.items():
            spared = min(slots, coming)
            coming -= spared
            mine = victims[len(taken) : len(taken) + slots - spared]
            taken += mine
            if mine:
                self._took_s[name, kind] = view.now_s  # What was taken arrives later: the timeout runs again.
        return taken

    def _owed(self, view: Any, name: str, kind: TaskKind, shares: Any, kept: Any) -> int:
        share, held = shares.get(name, 0.0), kept.get(name, 0)
        jobs = [job for job in view.jobs.values() if self._pool_of(job) == name]
        demand = held + sum(job.stage(kind).unstarted for job in jobs if job.stage(kind).ready)
        least = min(self._settings.get(name, self._default).min_share.of(kind), demand, share)
        since_s = view.now_s - self._took_s.get((name, kind), 0.0)
        owed = 0
        for which, (enough, due) in enumerate(((least, least), (share / 2, share))):
            key, timeout_s = (which, name, kind), self._timeouts_s[which]
            if held >= enough - EPSILON or key not in self._content_s:
                self._content_s[key] = view.now_s
            if timeout_s is not None and min(view.now_s - self._content_s[key], since_s) > timeout_s:
                owed = max(owed, int(due - held + EPSILON))
        return owed

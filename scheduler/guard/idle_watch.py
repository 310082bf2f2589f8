"""Detection of runs that would never end, because the policy leaves all nodes idle or kills all tasks."""

from __future__ import annotations

from schedbed.scheduler.core.entities import Node, Stage
from schedbed.scheduler.core.ledger import Ledger
from schedbed.tasks.specs import TaskKind

ROUNDS = 100
"""The number of heartbeats of each node without any launch or running attempt that ends a run."""
KILLS_A_SLOT = 10
"""The number of kills per slot (in total at least `ROUNDS`) without a succeeded attempt that ends a run."""


class IdleWatch:
    """Detects a policy that starts no task in an idle cluster for `patience_s`, or kills every attempt."""

    def __init__(self, patience_s: float = 0.0) -> None:
        self._patience_s = patience_s
        self._nones = 0
        self._since_s = 0.0
        self._since_heartbeats = 0
        self._kills = 0

    def launched(self) -> None:
        self._nones = 0

    def succeeded(self) -> None:
        self._kills = 0

    def none(self, ledger: Ledger) -> str:
        """Count a call that returned None. Return an error if the cluster is idle for too long, or ""."""
        if ledger.live_attempts:
            self._nones = 0
            return ""
        if not self._nones:
            self._since_s, self._since_heartbeats = ledger.now_s, ledger.beats
        self._nones += 1
        if self._nones < ROUNDS or self._nones % ROUNDS:
            return ""
        alive = sum(node.alive for node in ledger.nodes.values())
        idle_s = ledger.now_s - self._since_s
        if ledger.beats - self._since_heartbeats < ROUNDS * alive or idle_s <= self._patience_s:
            return ""
        waiting, slots = _startable(ledger)
        if not waiting:
            return ""
        return (
            f"nothing runs, {waiting} tasks wait and {slots} slots are free, but the policy answered None "
            f"{self._nones} times in {idle_s:.1f} s"
        )

    def killed(self, ledger: Ledger) -> str:
        """Count a kill since the last success. Return an error if there are too many, or ""."""
        self._kills += 1
        slots = sum(ledger.slots(kind) for kind in TaskKind)
        if self._kills < max(ROUNDS, KILLS_A_SLOT * slots):
            return ""
        return f"the policy killed {self._kills} attempts in a row, and none succeeded meanwhile"


def _startable(ledger: Ledger) -> tuple[int, int]:
    """Return the unstarted tasks with room on a live node, and the free slots of their kinds."""
    nodes = [node for node in ledger.nodes.values() if node.alive]
    stages = [stage for job in ledger.jobs.values() for stage in (job.maps, job.reduces)]
    found = [stage for stage in stages if stage.ready and any(_takes(ledger, node, stage) for node in nodes)]
    kinds = {stage.kind for stage in found}
    slots = sum(node.free_slots(kind) for node in nodes for kind in kinds)
    return sum(stage.unstarted for stage in found), slots


def _takes(ledger: Ledger, node: Node, stage: Stage) -> bool:
    return ledger.fits(node, stage) and not ledger.avoids(stage.job, node, stage.kind)

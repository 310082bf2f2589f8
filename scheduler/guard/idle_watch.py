"""Ends runs that would never end: a policy that leaves everything idle, or kills everything it starts."""

from __future__ import annotations

from schedbed.scheduler.core.entities import Node, Stage
from schedbed.scheduler.core.ledger import Ledger
from schedbed.tasks.specs import TaskKind

ROUNDS = 100
"""Number of heartbeats of each node, with nothing running and none of them used, that end a run."""
KILLS_A_SLOT = 10
"""Number of kills for each slot, and at least `ROUNDS` in all, without a task that succeeds, that end a run."""


class IdleWatch:
    """Counts a policy's answers since its last useful one.

    `patience_s`: seconds for which the policy may leave an idle cluster idle, if longer than the default.
    """

    def __init__(self, patience_s: float = 0.0) -> None:
        self._patience_s = patience_s
        self._nones = 0
        self._since_s = 0.0
        self._since_beats = 0
        self._kills = 0

    def launched(self) -> None:
        """Note that a task started."""
        self._nones = 0

    def succeeded(self) -> None:
        """Note that an attempt succeeded."""
        self._kills = 0

    def none(self, ledger: Ledger) -> str:
        """Note that the policy starts nothing although a slot is free. Return what is wrong with that; empty if
        nothing."""
        if ledger.live_attempts:
            self._nones = 0
            return ""
        if not self._nones:
            self._since_s, self._since_beats = ledger.now_s, ledger.beats
        self._nones += 1
        if self._nones < ROUNDS or self._nones % ROUNDS:
            return ""
        alive = sum(node.alive for node in ledger.nodes.values())
        idle_s = ledger.now_s - self._since_s
        if ledger.beats - self._since_beats < ROUNDS * alive or idle_s <= self._patience_s:
            return ""
        waiting, slots = _startable(ledger)
        if not waiting:
            return ""
        return (
            f"nothing runs, {waiting} tasks wait and {slots} slots are free, but the policy answered None "
            f"{self._nones} times in {idle_s:.1f} s"
        )

    def killed(self, ledger: Ledger) -> str:
        """Count a kill by the policy. Return an error if it kills too often without progress, else an empty text."""
        self._kills += 1
        slots = sum(ledger.slots(kind) for kind in TaskKind)
        if self._kills < max(ROUNDS, KILLS_A_SLOT * slots):
            return ""
        return f"the policy killed {self._kills} attempts in a row, and none succeeded meanwhile"


def _startable(ledger: Ledger) -> tuple[int, int]:
    """Return the number of tasks that could start on a live node, and the number of free slots for them."""
    nodes = [node for node in ledger.nodes.values() if node.alive]
    stages = [stage for job in ledger.jobs.values() for stage in (job.maps, job.reduces)]
    found = [stage for stage in stages if stage.ready and any(_takes(ledger, node, stage) for node in nodes)]
    kinds = {stage.kind for stage in found}
    slots = sum(node.free_slots(kind) for node in nodes for kind in kinds)
    return sum(stage.unstarted for stage in found), slots


def _takes(ledger: Ledger, node: Node, stage: Stage) -> bool:
    return ledger.fits(node, stage) and not ledger.avoids(stage.job, node, stage.kind)

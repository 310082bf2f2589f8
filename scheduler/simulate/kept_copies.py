"""Replicas that stay where maps have fetched their block, as agents make them (`cluster.agent.replica_keeper`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.scheduler.policies.keeper_choice import Keeping

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.simulation import Simulation


class Copies:
    """Asks the NameNode when a map starts, and has the replica made when it has succeeded."""

    def __init__(self, simulation: Simulation, keeping: Keeping) -> None:
        self._simulation = simulation
        self._keeping = keeping
        self._fetching: dict[str, tuple[str, int]] = {}  # by attempt: the block, and what is read of it

    def launched(self, node: str, plan: AttemptPlan) -> None:
        """A map starts on a node."""
        if not plan.blocks or not self._keeping.asks(self._simulation.setup.seed, plan.attempt):
            return
        names, (block, read_bytes) = self._simulation.storage.names, plan.blocks[0]
        fetches = node not in names.holders(block)
        if fetches and names.keeps(node, block, self._keeping.budget)["keep"]:
            self._fetching[plan.attempt] = (block, read_bytes)

    def ended(self, now_s: float, node: str, report: AttemptReport) -> None:
        """An attempt has ended there."""
        block, read_bytes = self._fetching.pop(report.attempt, ("", 0))
        if block and report.state == "succeeded":
            self._simulation.upkeep.keep(now_s, block, node, read_bytes)

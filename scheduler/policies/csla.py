"""CSLA (lakshmi2019, Algorithm 1): load tags, and the turn that keeps them from starving anybody.

When only their tags kept jobs out of an offer, the answer is nothing once; the next time that this happens the
first of them is taken. Maps and reduces have a turn each, as they have slots of their own.
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.scheduler.admission.load import LoadTags
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Locality, Order, Proposal
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class LoadAware(Explained):
    """Any order and locality over load tags; the paper's is Capacity and greedy."""

    def __init__(self, order: Order, locality: Locality, admission: LoadTags) -> None:
        super().__init__(order, locality, admission)
        self._tags = admission
        self._passed = dict.fromkeys(TaskKind, False)  # the last turn was answered with nothing

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """As in `Policy`."""
        tags = self._tags
        tags.skipped = None
        proposal = super().decide(view, node, kind)
        if proposal is not None or tags.skipped is None:
            return proposal
        if not self._passed[kind]:
            self._passed[kind] = True
            return None
        tags.lenient = True
        answer = self._offer(view, node, tags.skipped, kind)
        tags.lenient = False
        if not isinstance(answer, Proposal):
            return None
        self._passed[kind] = False
        return self.noted(view, node, replace(answer, reason=f"{answer.reason}, its turn after a skip"))

"""A composition whose axes have more to say: `note(view, node, job, kind)` of a launch, `report()` of a whole run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedbed.scheduler.policy import Admission, Composed, Locality, Order, Policy, Proposal
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class Explained(Composed):
    """As `Composed`; the reason of a launch ends in the notes of the axes that have any."""

    @property
    def elidable(self) -> bool:
        """Ask the axes: notes and reports need no heartbeat of their own."""
        return super().elidable

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        axes: tuple[Any, ...] = (order, locality, admission)
        self._notes = [axis.note for axis in axes if hasattr(axis, "note")]
        self._reports = [axis.report for axis in axes if hasattr(axis, "report")]

    @staticmethod
    def suits(*axes: Any) -> bool:
        """Has any of them more to say?"""
        return any(hasattr(axis, "note") or hasattr(axis, "report") for axis in axes)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy`."""
        proposal = super().decide(view, node, kind)
        return None if proposal is None else self.noted(view, node, proposal)

    def noted(self, view: View, node: NodeView, proposal: Proposal) -> Proposal:
        """Return the proposal with the notes in its reason."""
        task = proposal.task
        notes = [note(view, node, task.job, task.kind) for note in self._notes]
        return replace(proposal, reason="; ".join([proposal.reason, *notes]))

    def report(self) -> dict[str, Any]:
        """Return what the policy found out, as JSON values by topic; `profiles` are by kind and name, to be kept."""
        merged: dict[str, Any] = {}
        for report in self._reports:
            for topic, values in report().items():
                merged[topic] = {**merged.get(topic, {}), **values}
        return merged


def report_of(policy: Policy) -> dict[str, Any]:
    """Return what the policy found out by now, nothing when it has no `report`."""
    report = getattr(policy, "report", None)
    return {} if report is None else report()

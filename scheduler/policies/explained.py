"""A composed policy whose axes explain launches (`note(view, node, job, kind)`) or whole runs
(`report()`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedbed.scheduler.policy import Admission, Composed, Locality, Order, Policy, Proposal
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class Explained(Composed):
    """A composed policy that appends the notes of its axes to the reason of a launch, and merges their
    reports."""

    @property
    def elidable(self) -> bool:
        """Return whether all axes are elidable: heartbeats without news change none of their answers."""
        return super().elidable

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        axes: tuple[Any, ...] = (order, locality, admission)
        self._notes = [axis.note for axis in axes if hasattr(axis, "note")]
        self._reports = [axis.report for axis in axes if hasattr(axis, "report")]

    @staticmethod
    def suits(*axes: Any) -> bool:
        """Return whether any of the axes has a note or a report, so that this class is needed."""
        return any(hasattr(axis, "note") or hasattr(axis, "report") for axis in axes)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: return the composed policy's proposal with the axes' notes in its
        reason."""
        proposal = super().decide(view, node, kind)
        return None if proposal is None else self.noted(view, node, proposal)

    def noted(self, view: View, node: NodeView, proposal: Proposal) -> Proposal:
        """Return the proposal with the axes' notes in its reason."""
        task = proposal.task
        notes = [note(view, node, task.job, task.kind) for note in self._notes]
        return replace(proposal, reason="; ".join([proposal.reason, *notes]))

    def report(self) -> dict[str, Any]:
        """Return the merged reports of the axes as JSON values by topic.

        The topic `profiles` holds profiles by kind and name, to be kept in the profile store.
        """
        merged: dict[str, Any] = {}
        for report in self._reports:
            for topic, values in report().items():
                merged[topic] = {**merged.get(topic, {}), **values}
        return merged


def report_of(policy: Policy) -> dict[str, Any]:
    """Return the report of the policy; empty if the policy has no `report`."""
    report = getattr(policy, "report", None)
    return {} if report is None else report()

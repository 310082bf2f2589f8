"""A composed policy whose axes add notes to the reasons of launches, or results to the report of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedbed.scheduler.hooks import Proposal, Quiet, hook, own
from schedbed.scheduler.policy import Admission, Composed, Locality, Order, Policy
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class Explained(Composed):
    """A composed policy that appends the notes of its axes to the reason of each launch, and merges the axes'
    reports.

    An axis has a note if it defines `note(view, node, job, kind)`, and a report if it defines `report()`.
    """

    @property
    def quiet(self) -> Quiet | None:
        """Implement `Hooks.quiet` as `Composed`."""
        return super().quiet

    @property
    def takes_containers(self) -> bool:
        return type(self).decide is Explained.decide and bool(own(self.admission, "takes_containers"))

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        axes: tuple[Any, ...] = (order, locality, admission)
        self._notes = [axis.note for axis in axes if hook(axis, "note")]
        self._reports = [axis.report for axis in axes if hook(axis, "report")]

    @staticmethod
    def suits(*axes: Any) -> bool:
        """Return whether an axis has a note or report, so that the policy must be an `Explained`."""
        return any(hook(axis, "note") or hook(axis, "report") for axis in axes)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: return the proposal of `Composed`, with the axes' notes added to its reason."""
        proposal = super().decide(view, node, kind)
        return None if proposal is None else self.noted(view, node, proposal)

    def noted(self, view: View, node: NodeView, proposal: Proposal) -> Proposal:
        """Return the proposal with the axes' notes appended to its reason."""
        task = proposal.task
        notes = [note(view, node, task.job, task.kind) for note in self._notes]
        return replace(proposal, reason="; ".join([proposal.reason, *notes]))

    def report(self) -> dict[str, Any]:
        """Return the axes' merged reports. `profiles` are for later runs, {kind: {name: profile}}."""
        merged: dict[str, Any] = {}
        for report in self._reports:
            for topic, values in report().items():
                merged[topic] = {**merged.get(topic, {}), **values}
        return merged


def report_of(policy: Policy) -> dict[str, Any]:
    """Return the report of the policy as JSON values, or an empty dictionary if the policy has no `report`."""
    report = hook(policy, "report")
    return {} if report is None else report()

"""The public module for writing a policy: the policy interface, proposals, and the views of the cluster.

A policy's file needs no other import:

    >>> from schedbed.policy import Policy, Proposal, TaskKind, View

`schedbed.scheduler.policy` documents the interface, with an example. `schedbed.scheduler.view` documents the
views.
"""

from schedbed.scheduler.hooks import Hooks, Kill, Limits, Proposal, Quiet
from schedbed.scheduler.policy import Admission, Composed, Locality, Order, Policy, PolicyError
from schedbed.scheduler.registry.registry import shipped_axis
from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

__all__ = [
    "Admission",
    "AttemptView",
    "Composed",
    "Hooks",
    "JobView",
    "Kill",
    "Limits",
    "Locality",
    "NodeView",
    "Order",
    "Policy",
    "PolicyError",
    "Proposal",
    "Quiet",
    "TaskKind",
    "TaskView",
    "View",
    "shipped_axis",
]

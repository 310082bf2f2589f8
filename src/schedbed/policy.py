"""Everything that a user's policy imports: the interface, its proposals, and the view of the cluster.

See `schedbed.scheduler.policy` for the interface with an example, and `schedbed.scheduler.view` for the view.
"""

from schedbed.scheduler.policy import (
    Admission,
    Composed,
    Hooks,
    Kill,
    Limits,
    Locality,
    Order,
    Policy,
    PolicyError,
    Proposal,
)
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
    "TaskKind",
    "TaskView",
    "View",
    "shipped_axis",
]

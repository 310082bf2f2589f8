"""A policy composed of three axes: a new order of jobs, and shipped delay scheduling and slots."""

from collections.abc import Iterable

from schedbed.policy import Composed, JobView, NodeView, TaskKind, View, shipped_axis


class PoorestUser:
    """An order axis that offers a free slot first to the user with the fewest running tasks of the slot's
    kind (map or reduce).

    Jobs of the same user are in the order of submission.
    """

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Return the jobs with a task of this kind to start, users with the fewest running tasks first."""
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        return sorted(ready, key=lambda job: (job.stage(kind).user.running, job.serial))


class PoorestFirst(Composed):
    """A composed policy with `PoorestUser` as its order, delay scheduling as its locality, and typed slots.

    `wait_s`: seconds that a job waits for a node with its data before it accepts a node farther away.
    """

    def __init__(self, *, wait_s: float = 3.0) -> None:
        locality = shipped_axis("locality", "delay", node_wait_s=wait_s, rack_wait_s=wait_s)
        super().__init__(PoorestUser(), locality, shipped_axis("admission", "slots"))

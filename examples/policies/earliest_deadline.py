"""A policy that runs the job with the earliest deadline first.

Jobs without a deadline come last, in the order of submission.
"""

from math import inf

from schedbed.policy import NodeView, Proposal, TaskKind, View


class EarliestDeadline:
    """A policy that prefers the job with the earliest deadline.

    `local_first`: whether to prefer a map with its input on the node over other maps of the same job.
    """

    def __init__(self, *, local_first: bool = True) -> None:
        self._local_first = local_first

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for a task of the job with the earliest deadline, or None.

        Only jobs with a task of this kind to start are considered.
        """
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        if not ready:
            return None
        job = min(ready, key=lambda job: (inf if job.deadline_s is None else job.deadline_s, job.serial))
        if kind is TaskKind.REDUCE:
            task = job.any_reduce()
        else:
            task = (job.local_map(node.node) if self._local_first else None) or job.any_map()
        due = "no deadline" if job.deadline_s is None else f"due in {job.deadline_s - view.now_s:.1f} s"
        return Proposal(task, due) if task is not None else None

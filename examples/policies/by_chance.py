"""A policy that picks a random job and a random task of that job.

Random numbers come from the view, so that a run with the same seed gives the same result.
"""

from schedbed.policy import NodeView, Proposal, TaskKind, View


class ByChance:
    """A policy that chooses a random job and task, as a baseline that any other policy should outperform."""

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for a random unstarted task of a random ready job, or None if no job is ready."""
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        if not ready:
            return None
        job = view.random.choice(ready)
        task = view.random.choice([task for task in job.stage(kind).tasks if task.state == "unstarted"])
        return Proposal(task, f"drawn from {len(ready)} jobs")

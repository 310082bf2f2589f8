"""A random job each time, and a random task of that job: chance comes from the view, so that runs can be repeated."""

from schedbed.policy import NodeView, Proposal, TaskKind, View


class ByChance:
    """The measure that any policy should beat."""

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return an unstarted task, drawn from a job that is drawn."""
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        if not ready:
            return None
        job = view.random.choice(ready)
        task = view.random.choice([task for task in job.stage(kind).tasks if task.state == "unstarted"])
        return Proposal(task, f"drawn from {len(ready)} jobs")

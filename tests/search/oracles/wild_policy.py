"""A user's policy whose proposals are mostly invalid, so that the core must refuse them."""

from schedbed.policy import NodeView, Proposal, TaskKind, View


class Wild:
    """Draws half of its proposals from all tasks, with random splits and copies.

    The other proposals are valid.
    """

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a random proposal, valid or not; sometimes None."""
        luck = view.random
        tasks = [task for job in view.jobs.values() for each in TaskKind for task in job.stage(each).tasks]
        if tasks and luck.random() < 0.5:
            split = luck.choice([None, None, 0.3, 0.0])
            return Proposal(luck.choice(tasks), "wild", split=split, speculative=luck.random() < 0.4)
        ready = [
            job for job in view.jobs.values() if job.stage(kind).ready and not view.avoids(job, node, kind)
        ]
        if not ready:
            return None
        job = luck.choice(ready)
        task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
        return None if task is None else Proposal(task, "sane")

"""Shortest remaining processing time: the job with the least remaining work goes first."""

from schedbed.policy import JobView, NodeView, Proposal, TaskKind, View

FETCH_BPS = 50e6  # Bytes of input that count as a second of work if costs are unknown.


def remaining_s(view: View, job: JobView) -> float:
    """Return the seconds of work left in a job, computed from the costs that the job declares.

    If the costs are hidden, the work is estimated from the size of the job's input.
    """
    open_tasks = [task for task in (*job.maps.tasks, *job.reduces.tasks) if task.state != "done"]
    if view.sizes == "hidden" or not job.spec.map_costs:  # Jobs of applications declare no costs.
        return sum(task.split.length for task in open_tasks) / FETCH_BPS
    costs = {TaskKind.MAP: job.spec.map_costs, TaskKind.REDUCE: job.spec.reduce_costs}
    return sum(costs[task.kind][task.index].cpu_s for task in open_tasks)


class ShortestRemaining:
    """A policy that prefers the job with the least remaining work.

    The remaining work of a job is computed again whenever the job changes.
    """

    def __init__(self) -> None:
        self._left_s: dict[str, float] = {}

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Compute the remaining work of the job again, after one of its tasks has started or ended."""
        self._left_s[job.job] = remaining_s(view, job)

    def finished(self, view: View, job: JobView) -> None:
        """Remove the stored remaining work of an ended job."""
        self._left_s.pop(job.job, None)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for a task of the ready job with the least remaining work, or None.

        A map with its input on the node is preferred over other maps of the job.
        """
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        if not ready:
            return None
        job = min(ready, key=lambda job: (self._left_s[job.job], job.serial))
        task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
        return Proposal(task, f"{self._left_s[job.job]:.1f} s left") if task is not None else None

"""First in, first out, with a custom speculation that copies the slowest running task to another node."""

from schedbed.policy import AttemptView, JobView, NodeView, Proposal, TaskKind, View


class Slowest:
    """A speculation that copies attempts that run longer than `factor` times the mean duration.

    The mean is taken over the succeeded attempts of the job's maps or reduces. At most `most` copies run at a
    time.
    """

    def __init__(self, factor: float, most: int) -> None:
        self._factor, self._most = factor, most
        self._ended: dict[tuple[str, TaskKind], tuple[int, float]] = {}  # Number and seconds of successes.
        self._copies = 0  # Running copies.

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Add the duration of a succeeded attempt to the mean of the job's maps or reduces.

        If the attempt was a copy, subtract 1 from the number of running copies.
        """
        if attempt.speculative:
            self._copies -= 1
        if attempt.state == "succeeded" and attempt.started_s is not None:
            key = attempt.task.job.job, attempt.task.kind
            count, total_s = self._ended.get(key, (0, 0.0))
            self._ended[key] = count + 1, total_s + attempt.end_s - attempt.started_s

    def finished(self, view: View, job: JobView) -> None:
        """Remove the stored durations of the attempts of an ended job."""
        for kind in TaskKind:
            self._ended.pop((job.job, kind), None)

    def tick(self, view: View) -> None:
        """Do nothing, because copies are chosen only when a slot is free."""

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal to copy the slowest task to `node`, or None if no task is slow enough.

        A copy never runs on the node of the first attempt.
        """
        if self._copies >= self._most:
            return None
        behind = [
            (self._behind(view, attempt), attempt.serial, attempt)
            for job in view.jobs.values()
            for attempt in job.attempts.values()
            if attempt.task.kind is kind and len(attempt.task.attempts) == 1
            if attempt.node is not node and view.fits(node, job.stage(kind))
        ]
        late, _, attempt = max(behind, key=lambda each: each[:2], default=(0.0, 0, None))
        if attempt is None or late < self._factor:
            return None
        self._copies += 1
        return Proposal(attempt.task, f"{late:.1f} times the usual time", speculative=True)

    def _behind(self, view: View, attempt: AttemptView) -> float:
        count, total_s = self._ended.get((attempt.task.job.job, attempt.task.kind), (0, 0.0))
        if attempt.state != "running" or attempt.started_s is None or not count:
            return 0.0
        return (view.now_s - attempt.started_s) * count / max(total_s, 1e-6)


class OwnLate:
    """A first in, first out policy with the speculation `Slowest`, to which it passes `factor` and `most`."""

    def __init__(self, *, factor: float = 1.5, most: int = 2) -> None:
        self.speculation = Slowest(factor, most)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for an unstarted task of the first job that has one, or None.

        A map with its input on the node is preferred over other maps of the job.
        """
        for job in view.jobs.values():
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
            if task is not None:
                return Proposal(task, "first in")
        return None

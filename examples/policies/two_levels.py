"""Two levels: one queue has slots reserved, and takes them back from other queues when it waits too long."""

from collections.abc import Mapping

from schedbed.policy import AttemptView, JobView, Kill, NodeView, Proposal, TaskKind, View


class TwoLevels:
    """Jobs of `queue` go first and may always have `reserved` of the slots; the others get what is left.

    After `grace_s` of waiting below the reservation, the youngest tasks of other queues are killed.
    """

    def __init__(self, *, queue: str = "urgent", reserved: float = 0.5, grace_s: float = 10.0) -> None:
        self._queue, self._reserved, self._grace_s = queue, reserved, grace_s
        self._waits_since_s: dict[TaskKind, float] = {}  # below the reservation, by kind of task

    def state(self) -> object:
        """Return what the JobTracker's snapshot is to hold."""
        return self._waits_since_s

    def restore(self, view: View, state: dict[TaskKind, float]) -> None:
        """Go on from what `state` has returned."""
        self._waits_since_s = state

    def report(self) -> Mapping[str, object]:
        """Return what summary.json shows of this policy."""
        return {"queue": self._queue, "reserved": self._reserved}

    def _first(self, view: View) -> list[JobView]:
        return [job for job in view.jobs.values() if job.queue == self._queue]

    def _missing(self, view: View, kind: TaskKind) -> int:
        """Return how many more slots the queue may have and could use now."""
        stages = [job.stage(kind) for job in self._first(view)]
        wanted = sum(stage.unstarted for stage in stages if stage.ready)
        held = sum(stage.running for stage in stages)
        return min(wanted, int(self._reserved * view.slots(kind)) - held)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a task of the first level, else one of the second that leaves the reservation alone."""
        levels = (self._first(view), [job for job in view.jobs.values() if job.queue != self._queue])
        for level, jobs in enumerate(levels, 1):
            for job in sorted(jobs, key=lambda job: (job.priority, job.serial)):
                if not job.stage(kind).ready:
                    continue
                task = (
                    job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
                )
                if task is not None:
                    return Proposal(task, f"level {level}")
        return None

    def tick(self, view: View) -> None:
        """Note since when the queue has waited."""
        for kind in TaskKind:
            if self._missing(view, kind) > 0:
                self._waits_since_s.setdefault(kind, view.now_s)
            else:
                self._waits_since_s.pop(kind, None)

    def preempt(self, view: View) -> list[Kill]:
        """Return the youngest attempts of others, as many as the queue misses."""
        kills: list[Kill] = []
        for kind, since_s in self._waits_since_s.items():
            if view.now_s - since_s < self._grace_s:
                continue
            others = [attempt for job in view.jobs.values() for attempt in self._victims(job, kind)]
            dying = sum(job.stage(kind).killing for job in view.jobs.values())
            youngest = sorted(others, key=lambda attempt: -attempt.serial)
            why = f"{self._queue} has waited {view.now_s - since_s:.1f} s for its slots"
            kills += [Kill(attempt, why) for attempt in youngest[: max(0, self._missing(view, kind) - dying)]]
        return kills

    def _victims(self, job: JobView, kind: TaskKind) -> list[AttemptView]:
        if job.queue == self._queue:
            return []
        live = (attempt for attempt in job.attempts.values() if attempt.task.kind is kind)
        return [attempt for attempt in live if attempt.state in ("assigned", "running")]

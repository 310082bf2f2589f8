"""Two levels of queues: if the first queue waits too long for its slots, tasks of other queues are killed."""

from collections.abc import Mapping

from schedbed.policy import AttemptView, JobView, Kill, NodeView, Proposal, TaskKind, View


class TwoLevels:
    """A policy that serves jobs of `queue` first, and guarantees them a share of all slots.

    `reserved`: the guaranteed share, from 0 to 1. Other queues use the slots that remain. If the queue waits
    `grace_s` seconds for its share, the youngest tasks of other queues are killed.
    """

    def __init__(self, *, queue: str = "urgent", reserved: float = 0.5, grace_s: float = 10.0) -> None:
        self._queue, self._reserved, self._grace_s = queue, reserved, grace_s
        self._waits_since_s: dict[TaskKind, float] = {}  # Time since when `queue` lacks slots.

    def state(self) -> object:
        """Return the state for a snapshot: a dictionary from kind of task to the time since when `queue` has
        lacked slots.
        """
        return self._waits_since_s

    def restore(self, view: View, state: dict[TaskKind, float]) -> None:
        """Set the state of the policy to `state`, which the method `state` returned before a restart."""
        self._waits_since_s = state

    def report(self) -> Mapping[str, object]:
        """Return the values to write to summary.json for this policy: its queue and the reserved share."""
        return {"queue": self._queue, "reserved": self._reserved}

    def _first(self, view: View) -> list[JobView]:
        return [job for job in view.jobs.values() if job.queue == self._queue]

    def _missing(self, view: View, kind: TaskKind) -> int:
        """Return how many more slots the jobs of `queue` could use now, within their guaranteed share.

        The result is negative if they use more than their share.
        """
        stages = [job.stage(kind) for job in self._first(view)]
        wanted = sum(stage.unstarted for stage in stages if stage.ready)
        held = sum(stage.running for stage in stages)
        return min(wanted, int(self._reserved * view.slots(kind)) - held)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal to start a task of a job of `queue`, else of any other job.

        Return None if no job has a task of this kind to start.
        """
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
        """Update the times since when `queue` has had fewer slots than its guaranteed share, for maps and for
        reduces.
        """
        for kind in TaskKind:
            if self._missing(view, kind) > 0:
                self._waits_since_s.setdefault(kind, view.now_s)
            else:
                self._waits_since_s.pop(kind, None)

    def preempt(self, view: View) -> list[Kill]:
        """Return orders to kill the youngest attempts of other queues, one per slot that `queue` lacks."""
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

"""A fixed number of slots for each job from its start to its end, as in Figure 5: a policy in one file."""

from __future__ import annotations

from pathlib import Path

from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.policy import Limits, Proposal
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

SPEC = f"{Path(__file__)}:FixedSlots"


def slots_of(name: str) -> tuple[int, int]:
    """Return the map and reduce slots in a job's name (`wikitrends@41x21`). Raises ValueError if it has none."""
    _, at, slots = name.rpartition("@")
    maps, by, reduces = slots.partition("x")
    if not at or not by:
        raise ValueError(f"{name!r} does not end in @MAPSxREDUCES")
    return int(maps), int(reduces)


class FixedSlots:
    """Jobs in the order of their submission, each with at most the number of tasks in its name at once; local maps
    first."""

    limits = Limits(slots=True)
    elidable = True  # heartbeats that bring nothing mean nothing to it

    def __init__(self) -> None:
        self._nearest = Greedy()

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy`."""
        for job in view.jobs.values():
            stage = job.stage(kind)
            if not stage.ready or stage.running >= self._most(job, kind):
                continue
            if kind is TaskKind.MAP:
                picked = self._nearest.pick(view, node, job)
                if isinstance(picked, Proposal):
                    return picked
            elif (task := job.any_reduce()) is not None:
                return Proposal(task, "below its number of slots")
        return None

    def _most(self, job: JobView, kind: TaskKind) -> int:
        maps, reduces = slots_of(job.spec.name)
        return maps if kind is TaskKind.MAP else reduces

"""A policy that gives each job a fixed number of slots from its start to its end, as in Figure 5."""

from __future__ import annotations

from pathlib import Path

from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.policy import Limits, Proposal
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

SPEC = f"{Path(__file__)}:FixedSlots"


def slots_of(name: str) -> tuple[int, int]:
    """Return the numbers of map slots and reduce slots that a job's name contains, as in `wikitrends@41x21`.

    Raises ValueError if the name contains none.
    """
    _, at, slots = name.rpartition("@")
    maps, by, reduces = slots.partition("x")
    if not at or not by:
        raise ValueError(f"{name!r} does not end in @MAPSxREDUCES")
    return int(maps), int(reduces)


class FixedSlots:
    """A policy that serves jobs in order of submission and limits each job to the slots in its name.

    Maps whose input is on the offering node are launched first.
    """

    limits = Limits(slots=True)
    elidable = True  # heartbeats without news do not change the policy's state

    def __init__(self) -> None:
        self._nearest = Greedy()

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: propose a task of the first job that is below its number of slots.

        A job's number of slots is in its name. Return None if there is no such task.
        """
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

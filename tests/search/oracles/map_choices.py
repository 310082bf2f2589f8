"""References for greedy locality and delay scheduling: the map that a job starts on a node.

They look at every task, without indices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from schedbed.scheduler.policy import Proposal
from schedbed.tasks.specs import TaskKind
from tests.search.violation import hold

LOCAL, FREE, RACK, ANYWHERE = "a local map", "a map without input", "a map of the rack", "any map"


def choices(view: Any, node: Any, job: Any) -> dict[str, bool]:
    """Return, for each degree of locality, whether the job has an unstarted map with it on the node."""
    waiting = [task for task in job.maps.tasks if task.state == "unstarted"]
    racks = {name: other.spec.rack for name, other in view.nodes.items()}
    near = [any(racks.get(host) == node.spec.rack for host in task.hosts) for task in waiting]
    return {
        LOCAL: any(node.node in task.hosts for task in waiting),
        FREE: any(not task.hosts for task in waiting),
        RACK: any(near),
        ANYWHERE: bool(waiting),
    }


def is_of(view: Any, node: Any, answer: Any, wanted: str) -> bool:
    """Return whether the answer proposes an unstarted map of the wanted degree of locality."""
    if not isinstance(answer, Proposal) or answer.task.state != "unstarted":
        return False
    hosts = answer.task.hosts
    racks = [view.nodes[host].spec.rack for host in hosts if host in view.nodes]
    return {
        LOCAL: node.node in hosts,
        FREE: not hosts,
        RACK: node.spec.rack in racks,
        ANYWHERE: True,
    }[wanted]


def check_greedy(view: Any, node: Any, job: Any, answer: Any) -> None:
    """Check that greedy locality takes a node-local map, else a rack-local one, else any."""
    there = choices(view, node, job)
    wanted = next((kind for kind in (LOCAL, RACK, ANYWHERE) if there[kind]), None)
    good = is_of(view, node, answer, wanted) if wanted else not isinstance(answer, Proposal)
    hold(good, "greedy locality takes the nearest map", f"{view.now_s}: {job.job} on {node.node}: {answer}")


@dataclass(slots=True)
class Waiting:
    """A job's waiting time at its current locality level, and the time at which it was last skipped."""

    wait_s: float = 0.0
    level: int = 0
    skipped_s: float | None = None


class DelayRule:
    """Reference for delay scheduling: Algorithm 3 of Zaharia et al. 2010, line by line.

    `told` compares each answer of the policy with the algorithm's.
    """

    def __init__(self, node_wait_s: float, rack_wait_s: float, *, typed: bool) -> None:
        self._t1_s, self._t2_s = node_wait_s, rack_wait_s
        self._typed = typed
        self._jobs: dict[str, Waiting] = {}

    def heartbeat(self, view: Any, node: Any) -> None:
        """Apply lines 2 and 3: add the time since its skip to each skipped job's wait.

        Hadoop 1's TaskTracker asks for tasks, and so calls the scheduler, only with a free slot of either kind.
        Nobody waits for a node without map slots.
        """
        taken = Counter(attempt.task.kind for attempt in node.attempts.values())
        full = taken[TaskKind.MAP] >= node.spec.map_slots and taken[TaskKind.REDUCE] >= node.spec.reduce_slots
        if self._typed and (full or node.spec.map_slots == 0):
            return
        for job in self._jobs.values():
            if job.skipped_s is not None:
                job.wait_s += view.now_s - job.skipped_s
                job.skipped_s = None

    def avoided(self, view: Any, job: Any) -> None:
        """Apply line 17 to a job that avoids the offered node: it is skipped, unless it was before."""
        mine = self._jobs.setdefault(job.job, Waiting())
        if mine.skipped_s is None:
            mine.skipped_s = view.now_s

    def told(self, view: Any, node: Any, job: Any, answer: Any) -> None:
        """Apply lines 5 to 17 to a job: compare the policy's answer, and update the job's wait."""
        mine = self._jobs.setdefault(job.job, Waiting())
        seen = f"{view.now_s}: {job.job} on {node.node}, {mine}: {answer}"
        if mine.skipped_s is not None:
            hold(not isinstance(answer, Proposal), "delay scheduling waits as it should", seen)
            return
        wanted = self._wanted(mine, choices(view, node, job))
        if wanted is None:
            mine.skipped_s = view.now_s
            hold(isinstance(answer, str), "delay scheduling waits as it should", seen)
            return
        hold(is_of(view, node, answer, wanted), "delay scheduling waits as it should", f"{seen}: {wanted}")
        if wanted is not FREE:
            mine.wait_s, mine.level = 0.0, {LOCAL: 0, RACK: 1, ANYWHERE: 2}[wanted]

    def _wanted(self, mine: Waiting, there: dict[str, bool]) -> str | None:
        if there[LOCAL] or there[FREE]:
            return LOCAL if there[LOCAL] else FREE
        if there[RACK] and (mine.level >= 1 or mine.wait_s >= self._t1_s):
            return RACK
        enough_s = {0: self._t1_s + self._t2_s, 1: self._t2_s, 2: 0.0}[mine.level]
        return ANYWHERE if there[ANYWHERE] and mine.wait_s >= enough_s else None

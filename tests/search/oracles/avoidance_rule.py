"""Reference for the nodes that a job avoids, computed from the rows of its failed attempts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedbed.tasks.specs import TaskKind
from tests.search.violation import Violation, hold

OFTEN = 3  # Failures on a node; equals `CoreConfig.node_failures_to_exclude`.


def could_hold(ledger: Any, node: Any, stage: Any) -> bool:
    """Return whether an empty node would have room for a task of the stage."""
    limits, spec = ledger.limits, node.spec
    slots = spec.map_slots if stage.kind is TaskKind.MAP else spec.reduce_slots
    lacks_memory = limits.memory and stage.demand.memory_bytes > spec.memory_bytes
    lacks_cores = limits.vcores and stage.demand.vcores > spec.cores
    return not (limits.slots and not slots) and not lacks_memory and not lacks_cores


class AvoidanceRule:
    """Follows failed attempts and the nodes' reports of full disks."""

    def __init__(self) -> None:
        self._failures: dict[str, dict[str, int]] = {}  # by job and node
        self._failed_on: dict[str, set[str]] = {}  # nodes, by task
        self._tries: Counter[str] = Counter()  # Failed attempts by task.
        self._disks: set[str] = set()  # Nodes that reported a full disk.
        self._full: set[tuple[str, str]] = set()  # Jobs with an attempt failed by a full disk, and node.

    def heartbeat(self, node: str, *, full: bool) -> None:
        """Record whether a node's disk is full.

        A disk that is no longer full ends the avoidance for that reason.
        """
        if full:
            self._disks.add(node)
        else:
            self._disks.discard(node)
            self._full = {pair for pair in self._full if pair[1] != node}

    def failed(self, row: Any) -> None:
        """Count a failed attempt."""
        there = self._failures.setdefault(row.job, {})
        there[row.node] = there.get(row.node, 0) + 1
        self._tries[row.task] += 1
        self._failed_on.setdefault(row.task, set()).add(row.node)
        if row.reason == "disk full" and row.node in self._disks:
            self._full.add((row.job, row.node))

    def check(self, ledger: Any) -> None:
        """Check which nodes each job avoids.

        A job avoids a node while another node that could hold the task has a weaker reason to be avoided.
        """
        for name in self._failures.keys() & ledger.jobs.keys():
            for task in (*ledger.jobs[name].maps.tasks, *ledger.jobs[name].reduces.tasks):
                seen = f"{task.task}: {task.failures} instead of {self._tries[task.task]}"
                hold(task.failures == self._tries[task.task], "a task's failures are counted", seen)
        for name in self._failures.keys() & ledger.jobs.keys():
            job = ledger.jobs[name]
            for stage in (job.maps, job.reduces):
                reasons = {node: self._strength(name, stage, node) for node in ledger.nodes}
                rest = [
                    reasons[n]
                    for n, node in ledger.nodes.items()
                    if node.alive and could_hold(ledger, node, stage)
                ]
                for node, here in reasons.items():
                    wanted = here > 0 and min(rest, default=here) < here
                    if ledger.avoids(job, ledger.nodes[node], stage.kind) is not wanted:
                        seen = f"{ledger.now_s}: {name} on {node} for a {stage.label}, {reasons}"
                        raise Violation("a job avoids where it failed", seen)

    def _strength(self, name: str, stage: Any, node: str) -> int:
        if (name, node) in self._full:
            return 3
        if self._failures[name].get(node, 0) >= OFTEN:
            return 2
        waiting = (task for task in stage.tasks if task.state == "unstarted")
        return int(any(node in self._failed_on.get(task.task, ()) for task in waiting))

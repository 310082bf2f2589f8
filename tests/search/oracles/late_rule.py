"""Reference for the speculative attempts of LATE (Zaharia et al., OSDI 2008, section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.policies.late import has_room
from schedbed.tasks.specs import TaskKind
from tests.search.oracles.room import container_room, slot_room
from tests.search.violation import hold

CHECK = "LATE copies what ends last"


def rate_of(attempt: Any, elapsed_s: float, progress: float) -> float:
    """Return an attempt's progress per second.

    The progress of a part counts as a share of the whole map.
    """
    part = attempt.task.part
    return progress * (1.0 if part is None else part.share) / elapsed_s


def may_copy(job: Any, kind: TaskKind) -> bool:
    """Return whether tasks of the kind may be copied, since all maps are done or it is the maps."""
    return kind is TaskKind.MAP or all(task.state == "done" for task in job.maps.tasks)


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the percentile of the values, linearly interpolated."""
    ordered = sorted(values)
    below, rest = divmod((len(ordered) - 1) * percent / 100, 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + (high - low) * rest


class LateRule:
    """Follows a `Late` policy: the owner reports each tick, ended attempt and answer to this reference."""

    def __init__(self, late: Any) -> None:
        self._late, self._asked = late, late.asked
        self._ended: dict[tuple[str, TaskKind], list[float]] = {}
        self._copied: set[str] = set()
        # Copied tasks of which no copy has ended since. The policy may copy the same tasks.
        self._own: dict[str, TaskKind] = {}
        self._speeds: dict[str, float] = {}
        self._due: dict[TaskKind, list[Any]] = {kind: [] for kind in TaskKind}
        self._slow_nodes: set[str] = set()

    def ended(self, attempt: Any) -> None:
        """Add a successful attempt's rate to its stage, and to its node's moving average with weight 0.3."""
        if attempt.speculative:
            self._own.pop(attempt.task.task, None)
        if attempt.state != "succeeded" or attempt.started_s is None or not attempt.task.job.active:
            return
        rates = self._ended.setdefault((attempt.task.job.job, attempt.task.kind), [])
        rates.append(rate_of(attempt, max(1e-3, attempt.end_s - attempt.started_s), 1.0))
        name = attempt.node.node
        before = self._speeds.get(name, 1.0)
        self._speeds[name] = 0.7 * before + 0.3 * rates[-1] / percentile(rates, 50)

    def tick(self, view: Any) -> None:
        """Update the slow tasks, longest remaining time first, and the slow nodes."""
        due: dict[TaskKind, list[Any]] = {kind: [] for kind in TaskKind}
        relative: dict[str, list[float]] = {}
        for job in view.jobs.values():
            for kind in TaskKind:
                if may_copy(job, kind):
                    due[kind] += self._slow_tasks(view, job, kind, relative)
        self._due = {kind: [each[-1] for each in sorted(found)] for kind, found in due.items()}
        self._speeds |= {name: sum(values) / len(values) for name, values in relative.items()}
        alive = {name: speed for name, speed in self._speeds.items() if view.nodes[name].alive}
        limit = percentile(alive.values(), self._asked.slow_node) if alive else 0.0
        self._slow_nodes = {name for name, speed in alive.items() if speed < limit * (1 - 1e-9)}

    def _slow_tasks(self, view: Any, job: Any, kind: TaskKind, relative: dict[str, list[float]]) -> list[Any]:
        judged: dict[Any, float] = {}
        for attempt in (each for each in job.attempts.values() if each.task.kind is kind):
            elapsed_s = view.now_s - (attempt.started_s if attempt.started_s is not None else inf)
            if attempt.state == "running" and elapsed_s >= self._asked.min_runtime_s and elapsed_s > 0:
                judged[attempt] = rate_of(attempt, elapsed_s, attempt.progress)
        if not judged:
            return []
        known = [*self._ended.get((job.job, kind), ()), *judged.values()]
        usual, limit = percentile(known, 50), percentile(known, self._asked.slow_task)
        found: list[Any] = []
        for attempt, rate in judged.items():
            if usual > 0:
                relative.setdefault(attempt.node.node, []).append(rate / usual)
            alone = not attempt.speculative and len(attempt.task.attempts) == 1
            if rate < limit * (1 - 1e-9) and alone and attempt.task.task not in self._copied:
                done, elapsed_s = attempt.progress, view.now_s - attempt.started_s
                left_s = (1 - done) * elapsed_s / done if done > 0 else inf
                found.append((-left_s, attempt.serial, attempt))
        return found

    def told(self, view: Any, node: Any, kind: TaskKind, answer: Any) -> None:
        """Check the answer to a node: a copy of the first slow task that may run there, else None.

        No copy is allowed on a slow node, or if as many copies as the cap run already.
        """
        if answer is None and not self._due[kind]:
            return
        held = [attempt for other in view.nodes.values() for attempt in other.attempts.values()]
        held += [task.winner for task in view.committing.values()]
        copied = {each.task.task for each in held if each.speculative}
        hold(self._own.keys() <= copied, CHECK, f"{self._own} are counted, {copied} have copies")
        copies = sum(each is kind for each in self._own.values())
        wanted = None
        if node.node not in self._slow_nodes and copies < max(1, int(self._asked.cap * view.slots(kind))):
            wanted = next((each for each in self._due[kind] if self._fits(view, node, each)), None)
        seen = f"{view.now_s}: {node.node} gets {answer}, {copies} copies, due {wanted and wanted.attempt}"
        hold((None if answer is None else answer.task) is (wanted and wanted.task), CHECK, seen)
        if wanted is not None:
            self._copied.add(wanted.task.task)
            self._own[wanted.task.task] = kind
            self._due[kind].remove(wanted)

    def _fits(self, view: Any, node: Any, attempt: Any) -> bool:
        task = attempt.task
        if attempt.state != "running" or len(task.attempts) != 1 or attempt.node is node:
            return False
        admission = self._late.admission
        stage = task.stage
        if not may_copy(task.job, stage.kind):
            return False
        if view.avoids(task.job, node, stage.kind):
            return False
        if type(admission) is Containers:
            return container_room(admission.reserved_cores, node, task.job, stage.kind)
        if type(admission) is not Slots:
            return has_room(view, node, task.job, stage.kind, admission)
        return slot_room(node, stage.kind)

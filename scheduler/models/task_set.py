"""A task set of Spark: the tasks of a job that wait, sorted by the nodes on which their data is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from schedbed.scheduler.models.locality_timer import ANY, NO_PREFERENCE, NODE, RACK, LocalityTimer
from schedbed.scheduler.view import JobView, NodeView, TaskView
from schedbed.tasks.specs import TaskKind


class TaskSet:
    """The maps of a job, and its reduces, which have no places (TaskSetManager of Spark 3.5.5).

    A map's places are those of its input when the map was added, as in Spark. `planned`: the maps that have been
    given a slot and start at the next heartbeat of its node; they count as running.
    """

    weight, min_share = 1.0, 0

    def __init__(self, job: JobView, stage: int, timer: LocalityTimer) -> None:
        self.job, self.stage, self.timer = job, stage, timer
        self.name = f"TaskSet_{stage}.0"
        self.planned: dict[str, None] = {}
        self.levels: tuple[int, ...] = (ANY,)
        self.add_all()

    def running(self, kind: TaskKind) -> int:
        return self.job.stage(kind).running + (len(self.planned) if kind is TaskKind.MAP else 0)

    def sets(self, kind: TaskKind) -> Iterator[TaskSet]:
        if self.waiting(kind):
            yield self

    def waiting(self, kind: TaskKind) -> int:
        """Return the number of tasks that may start and have no slot yet."""
        stage = self.job.stage(kind)
        return stage.unstarted - (len(self.planned) if kind is TaskKind.MAP else 0) if stage.ready else 0

    # Waiting maps. A map that has been given a slot stays in the other lists until a search meets it.

    def add_all(self) -> None:
        """Add all waiting maps, so that the first by index is found first (addPendingTasks)."""
        self._of_node: dict[str, list[TaskView]] = {}
        self._of_rack: dict[str, list[TaskView]] = {}
        self._without_place: list[TaskView] = []
        self._all: list[TaskView] = []
        self._left = 0  # The number of maps that wait.
        for task in reversed(self.job.maps.tasks):
            if self._waits(task):
                self._add(task)

    def _add(self, task: TaskView) -> None:
        for node in task.hosts:
            self._of_node.setdefault(node, []).append(task)
        for rack in dict.fromkeys(task.racks):
            self._of_rack.setdefault(rack, []).append(task)
        if not task.hosts:
            self._without_place.append(task)
        self._all.append(task)
        self._left += 1

    def has_more(self) -> bool:
        """Add the maps that must run again, if there are any. Return whether there are."""
        waiting = self.waiting(TaskKind.MAP)
        more = waiting > self._left
        if waiting != self._left:
            self.add_all()
        return more

    def find_levels(self, nodes: Mapping[str, NodeView], racks: Set[str]) -> None:
        """Find the levels that nodes that run maps, in these racks, can satisfy (computeValidLocalityLevels)."""
        found = {
            NODE: not self._of_node.keys().isdisjoint(nodes),
            NO_PREFERENCE: bool(self._without_place),
            RACK: not self._of_rack.keys().isdisjoint(racks),
            ANY: True,
        }
        self.levels = tuple(level for level, valid in found.items() if valid)

    def allowed(self, now_s: float) -> int:
        """Return the level that the timer allows now."""
        return self.timer.allowed(now_s, self.levels, self._has_tasks)

    def _has_tasks(self, level: int) -> bool:
        """Return whether a map with a place at the level waits (moreTasksToRunIn)."""
        if level == NO_PREFERENCE:
            return self._last(self._without_place) is not None
        lists = self._of_node if level == NODE else self._of_rack
        return any(self._last(tasks) is not None for tasks in lists.values())

    def take(self, node: NodeView, allowed: int) -> tuple[TaskView, int] | None:
        """Take the nearest waiting map within the level, with its level, for the node (dequeueTask)."""
        places: tuple[tuple[int, list[TaskView]], ...] = (
            (NODE, self._of_node.get(node.node, [])),
            (NO_PREFERENCE, self._without_place),
            (RACK, self._of_rack.get(node.rack, [])),
            (ANY, self._all),
        )
        for level, tasks in places:
            if level > allowed:
                break
            task = self._last(tasks)
            if task is not None:
                tasks.pop()
                self.planned[task.task] = None
                self._left -= 1
                # Spark launches a task without a place as if it were at the nearest level (PROCESS_LOCAL).
                return task, NODE if level == NO_PREFERENCE else level
        return None

    def give_back(self, task: TaskView) -> None:
        """Let a planned map wait again."""
        self.planned.pop(task.task, None)
        if self._waits(task):
            self._add(task)

    def _waits(self, task: TaskView) -> bool:
        return task.state == "unstarted" and task.task not in self.planned

    def _last(self, tasks: list[TaskView]) -> TaskView | None:
        while tasks and not self._waits(tasks[-1]):
            tasks.pop()
        return tasks[-1] if tasks else None

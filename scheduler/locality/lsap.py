"""LSAP: idle slots and unstarted maps are matched such that the total staging time is minimal.

The staging time of a map on a slot is the number of seconds to transfer the map's input to the slot's node.
The source is section 3.3.1 of xu2015 (lsap-sched by Guo, Fox and Zhou, 2012). scipy solves the linear sum
assignment problem, with the staging times as a matrix of slots x maps.

Deviations from the paper: maps assigned to other nodes are held until the next heartbeats of these nodes,
because a node receives launches only in the reply to its own heartbeat. The assignment is computed again when
a new slot or map appears, and after about two heartbeats of every node. Nodes that have been silent for
longer receive no maps. Candidates are the first unstarted maps that any idle slot may run, by order of jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, tee
from typing import Any

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Proposal, Quiet, hook
from schedbed.scheduler.models.staging_costs import FORBIDDEN, cost_matrix, solve, staging_s
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import AVOIDED, Admission, Locality, Order, place_of
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, number, positive
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP
SLOTS_AT_ONCE = 200
"""The maximum number of idle slots in one assignment, which bounds the cost on a large idle cluster."""
SLOTS_ASKED = 30
"""The maximum number of idle slots if the admission must be asked about each job on each node."""
GroupOf = Callable[[View, NodeView], str]


class OpenMaps:
    """The unstarted maps of a job, sorted by index.

    A map that has started is removed when a search finds it.
    """

    __slots__ = ("_maps", "unstarted")

    def __init__(self) -> None:
        self.unstarted = 0
        self._maps: deque[TaskView] = deque()

    def changed(self, job: JobView) -> bool:
        """Update the number of unstarted maps of the job. Return whether the number has grown."""
        more = job.maps.unstarted > self.unstarted
        self.unstarted = job.maps.unstarted
        if more:
            self._maps = deque(job.maps.tasks)
        return more

    def first(self, job: JobView, many: int) -> list[TaskView]:
        """Return the first unstarted maps. If too few are found, search all, because maps may run again."""
        found = self._scan(many)
        if len(found) < min(many, job.maps.unstarted):
            self._maps = deque(job.maps.tasks)
            found = self._scan(many)
        return found

    def _scan(self, many: int) -> list[TaskView]:
        found: list[TaskView] = []
        while self._maps and len(found) < many:
            task = self._maps.popleft()
            if task.state == "unstarted":
                found.append(task)
        self._maps.extendleft(reversed(found))
        return found


class Assigned:
    """An assignment of maps to idle slots.

    `maps` is a dictionary from node name to the node's assigned maps, and `free` from node name to the number
    of free slots when the assignment was made. `until_heartbeat` is the number of the last heartbeat for which the
    assignment is valid. `seconds` is the total staging time.
    """

    def __init__(self, until_heartbeat: int) -> None:
        self.until_heartbeat = until_heartbeat
        self.maps: dict[str, list[TaskView]] = {}
        self.free: dict[str, int] = {}
        self.slots = 0
        self.maps_in_all = 0
        self.seconds = 0.0

    def knows(self, node: NodeView, free: int, heartbeat: int) -> bool:
        """Return whether the assignment is valid: not too old, and the node's free slots as they were."""
        return heartbeat <= self.until_heartbeat and self.free.get(node.node) == free


class Lsap:
    """A locality axis that assigns maps to idle slots with the least sum of costs (linear sum assignment).

    `candidates`: number of maps to consider in one assignment, or the number of idle slots if that is larger.
    `off_rack`: factor by which a transfer from another rack takes longer.
    """

    quiet = Quiet(counts=True)  # It counts heartbeats, but does not read what they report.

    def __init__(self, *, candidates: int = 100, off_rack: float = 2.0) -> None:
        self._candidates = candidates
        self._off_rack = off_rack
        self._open: dict[str, OpenMaps] = {}
        self._heard: dict[str, int] = {}  # Number of the last heartbeat, by node.
        self._assigned: dict[str, Assigned] = {}  # By group of nodes that are offered the same jobs.

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`."""
        self._open[job.job] = OpenMaps()

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        self._open.pop(job.job, None)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: if the job has more unstarted maps now, discard all assignments."""
        known = self._open.get(job.job)
        if kind is MAP and known is not None and known.changed(job):
            self._assigned.clear()

    def beat(self, view: View, node: NodeView) -> None:
        """Implement `Hooks.beat`: record the heartbeat's number, counted over all nodes."""
        self._heard[node.node] = view.beats

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose the job's nearest unstarted map, without the assignment of `next_map`."""
        task = job.local_map(node.node) or job.rack_map(node.rack) or job.any_map()
        if task is None:
            return "no unstarted map"
        seconds = staging_s(task, node, self._off_rack)
        return Proposal(task, f"{place_of(node, task)}, staged in {seconds:.2f} s")

    # The assignment of all idle slots

    def next_map(
        self, view: View, node: NodeView, jobs: Iterable[JobView], admission: Admission, group_of: GroupOf
    ) -> Proposal | None:
        """Return the next map assigned to the node, or None, after a new assignment if necessary.

        Nodes with equal `group_of`, to which the same jobs are offered, share one. Jobs whose maps are held
        for other nodes are recorded as skipped.
        """
        group = group_of(view, node)
        assigned, free = self._assigned.get(group), _free(node, admission)
        for attempt in range(2):
            if assigned is None or not assigned.knows(node, free, view.beats):
                others = (each for each in view.nodes.values() if each is not node)
                if group_of is not _one_group:
                    others = (each for each in others if group_of(view, each) == group)
                assigned = self._assigned[group] = self._assign(view, node, others, jobs, admission)
                attempt = 1
            task = self._take(view, node, assigned, admission)
            if task is not None:
                assigned.free[node.node] = max(0, free - 1)
                return Proposal(task, self._reason(node, task, assigned))
            if attempt or not assigned.maps.pop(node.node, None):
                break
            assigned = None  # The assigned maps cannot start on this node: compute a new assignment.
        if view.records_skips and assigned is not None:
            self._tell_held(view, node, assigned)
        return None

    def _take(self, view: View, node: NodeView, assigned: Assigned, admission: Admission) -> TaskView | None:
        """Take the next map assigned to the node. If it may not start there, its job is skipped."""
        maps = assigned.maps.get(node.node, [])
        while maps:
            task = maps[0]
            if task.state != "unstarted" or not task.job.active:
                maps.pop(0)
                continue
            refusal = _refusal(view, node, task.job, admission)
            if refusal is not None:
                if refusal:
                    view.skip(node, task.job, MAP, refusal)
                return None
            maps.pop(0)
            return task
        return None

    def _reason(self, node: NodeView, task: TaskView, assigned: Assigned) -> str:
        seconds = staging_s(task, node, self._off_rack)
        return (
            f"{place_of(node, task)}, staged in {seconds:.2f} s; the least for {assigned.slots} idle slots and "
            f"{assigned.maps_in_all} maps: {assigned.seconds:.2f} s in all"
        )

    def _tell_held(self, view: View, node: NodeView, assigned: Assigned) -> None:
        told: dict[str, None] = {}
        for other, maps in assigned.maps.items():
            for task in maps:
                if task.job.job not in told and task.job.active and other != node.node:
                    told[task.job.job] = None
                    view.skip(node, task.job, MAP, f"its map is held for {other}, where staging is cheaper")

    def _assign(
        self,
        view: View,
        node: NodeView,
        others: Iterable[NodeView],
        jobs: Iterable[JobView],
        admission: Admission,
    ) -> Assigned:
        """Assign maps to the idle slots of `node` and `others`, at most SLOTS_AT_ONCE.

        The limit is SLOTS_ASKED if the admission can refuse, since it must be called for each pair.
        """
        silent_after = 2 * len(view.nodes) + 2
        made = Assigned(view.beats + silent_after)
        slots: list[NodeView] = []
        most = SLOTS_AT_ONCE if _says_yes(admission) else SLOTS_ASKED
        beats, typed = view.beats, admission.limits.slots
        for each in chain((node,), others):
            if len(slots) >= most:
                break
            if typed and not each.free_slots(MAP):  # This node is not offered before its slots change.
                continue
            heard = self._heard.setdefault(each.node, beats)
            if not each.alive or beats - heard > silent_after:
                continue
            made.free[each.node] = free = _free(each, admission)
            if free > 0 and admission.room(each, MAP):
                slots += [each] * free if typed else [each]
        slots = slots[:most]
        many, refused, told = max(self._candidates, len(slots)), set[str](), set[str]()
        jobs, again = tee(jobs)
        while slots and (tasks := self._gather((job for job in jobs if job.job not in refused), many)):
            staging = cost_matrix(slots, tasks, self._off_rack)
            hiding = self._forbid(view, slots, tasks, staging, admission, told)
            if not hiding or len(tasks) < many:
                break
            refused |= hiding  # Their maps hide those of later jobs.
            jobs, again = tee(again)
        else:
            admission.room(node, MAP)
            return made
        made.slots, made.maps_in_all = len(slots), len(tasks)
        costs = self._costs(view, tasks, staging)
        if staging.max() >= FORBIDDEN:
            costs[staging >= FORBIDDEN] = FORBIDDEN
        for row, column in solve(costs):
            seconds = staging.item(row, column)
            if seconds < FORBIDDEN:
                made.maps.setdefault(slots[row].node, []).append(tasks[column])
                made.seconds += seconds
        return made

    def _gather(self, jobs: Iterable[JobView], many: int) -> list[TaskView]:
        """Return the maps to consider: the first `many` unstarted maps, in the order of the jobs."""
        tasks: list[TaskView] = []
        for job in jobs:
            if len(tasks) >= many:
                break
            tasks += self._open[job.job].first(job, many - len(tasks))
        return tasks

    @staticmethod
    def _forbid(
        view: View,
        slots: Sequence[NodeView],
        tasks: Sequence[TaskView],
        staging: Any,
        admission: Admission,
        told: set[str],
    ) -> set[str]:
        """Set FORBIDDEN where a job avoids a node or is refused. Return the jobs without any slot.

        `told` are jobs already recorded as skipped.
        """
        columns: dict[str, list[int]] = {}
        asks = not _says_yes(admission)
        for column, task in enumerate(tasks):
            if asks or task.job.excluded:
                columns.setdefault(task.job.job, []).append(column)
        if not columns:
            return set()
        # The offered node comes last, because admissions store the last node.
        for row, node in reversed(list(enumerate(slots))):
            admission.room(node, MAP)
            for held in columns.values():
                job = tasks[held[0]].job
                refusal = _refusal(view, node, job, admission)
                if refusal is not None:
                    staging[row, held] = FORBIDDEN
                    if row == 0 and refusal and job.job not in told:
                        told.add(job.job)
                        view.skip(node, job, MAP, refusal)
        return {name for name, held in columns.items() if staging[:, held[0]].min() >= FORBIDDEN}

    def _costs(self, view: View, tasks: Sequence[TaskView], staging: Any) -> Any:
        """Return the matrix of costs (slots x maps): here the staging times in seconds."""
        return staging


class AssignedSlots(Explained):
    """A composed policy whose locality, an `Lsap`, assigns maps to all idle slots at once."""

    locality: Any

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        self._group_of: GroupOf = hook(order, "group_of") or _one_group

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide` by the assignment; the base class decides for reduces."""
        if kind is not MAP:
            return super().decide(view, node, kind)
        if not self._has_room(view, node, kind):
            return None
        if self._starves is not None:
            for job in self.order.jobs(view, node, kind):
                answer = self._offer(view, node, job, kind) if self._starves(view, job) else None
                if isinstance(answer, Proposal):
                    return self.noted(view, node, answer)
        jobs = self.order.jobs(view, node, kind)
        proposal = self.locality.next_map(view, node, jobs, self.admission, self._group_of)
        return None if proposal is None else self.noted(view, node, proposal)


def _one_group(view: View, node: NodeView) -> str:
    return ""


def _says_yes(admission: Admission) -> bool:
    return type(admission) is Slots


def _refusal(view: View, node: NodeView, job: JobView, admission: Admission) -> str | None:
    """Return why a map of the job cannot start on the node, or None."""
    if job.excluded and view.avoids(job, node, MAP):
        return AVOIDED
    return admission.refuses(node, job, MAP)


def _free(node: NodeView, admission: Admission) -> int:
    """Return the free map slots; where slots do not count, 1 if memory and vcores are free."""
    if admission.limits.slots:
        return node.free_slots(MAP)
    has_vcores = node.free_vcores > 0 or not admission.limits.vcores
    return 1 if node.free_memory_bytes > 0 and has_vcores else 0


PARAMETERS = (
    count(
        "candidates",
        "100",
        "number of waiting maps that are considered at a time, or the number of idle slots if that is larger",
        "maps",
        least=1,
    ),
    number(
        "off_rack",
        "2",
        "",
        "how many times as long a transfer from another rack takes as a transfer within the rack",
        positive,
    ),
)
AXIS = Axis(
    axis="locality",
    name="lsap",
    factory=Lsap,
    summary="matches all idle slots and the next maps such that transfers of input take the least time",
    paper="xu2015 3.3.1; Guo 2012 (lsap-sched)",
    parameters=PARAMETERS,
    compose=AssignedSlots,
    rank=30,
)
POLICY = AXIS.named(
    summary="Like fifo, but all idle slots and the next maps are matched such that transfers of "
    "input take the least time.",
    order="fifo",
    rank=32,
)

"""The order axis COSHH: groups similar jobs into classes, and prefers for each kind of hardware the classes
that run well on it.

Source: the thesis xu2015, section 3.1.3.3, after Rasooli and Down 2014. COSHH has three parts. Task
scheduling predicts the mean time of each job's tasks. Queuing divides all users' jobs into classes by k-means
(mean time, arrival rate, priority) and suggests classes for each kind of hardware by a linear program over
classes and resources (`scheduler.models.job_classes`). Routing picks a job for a free slot: jobs of users
below their min share come first, the user with the largest deficit first; then jobs of suggested classes,
sorted by the number of slots that their users hold.

Decisions where the thesis has no rule: a slot runs a task, so times and arrivals are those of tasks, for maps
and for reduces separately. The time of a task is the mean time of its workload (user and job name) on the
hardware. For a workload that has not run on the hardware, the time is the workload's mean on other hardware
scaled by the core speeds; for a new workload, the mean of all workloads. Nodes of equal hardware are one
resource, and the mean time on each resource is a feature. Classes are recomputed on the next tick after a job
was submitted or finished, or after a workload was measured for the first time; a job without a class is
treated as suggested. If no job of a suggested class is ready, the slot is offered to all other jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.models.same_workload import workload_of
from schedbed.scheduler.models.task_times import MeanTimes, took_s
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import at_least_one, by_name, count, positive
from schedbed.scheduler.view import AttemptView, JobView, NodeView, TallyView, View
from schedbed.tasks.specs import TaskKind

_SHORTEST_S = 1e-3


class Machinery(NamedTuple):
    """The hardware of a node: speed of its cores (1 is a core of the host), and disk and network rates in
    bytes/s."""

    core_speed: float
    disk_bps: float
    network_bps: float


class KnownWorkload:
    """Statistics of a workload, that is, of all jobs with the same user and job name.

    `jobs`: number of jobs submitted. `on`: a dictionary from kind of hardware to mean task times. `work`:
    mean task times in seconds, converted to a core of speed 1.
    """

    __slots__ = ("jobs", "on", "work")

    def __init__(self, everybody: MeanTimes) -> None:
        self.jobs = 0
        self.work = MeanTimes(everybody)  # seconds of a host's core
        self.on: dict[Machinery, MeanTimes] = {}

    def time_s(self, kind: TaskKind, hardware: Machinery) -> float:
        """Return the expected seconds of a task of that kind on the hardware; the result is always above 0."""
        measured = self.on.get(hardware)
        if measured is not None and measured.knows(kind):
            return max(_SHORTEST_S, measured.mean_s(kind))
        return max(_SHORTEST_S, self.work.mean_s(kind) / hardware.core_speed)

    def learn(self, kind: TaskKind, hardware: Machinery, seconds: float) -> bool:
        """Add the time `seconds` of an ended task. Return whether it is the first task of its kind on the hardware."""
        measured = self.on.get(hardware)
        if measured is None:
            measured = self.on[hardware] = MeanTimes()
        first = not measured.knows(kind)
        measured.add(kind, seconds)
        self.work.add(kind, seconds * hardware.core_speed)
        return first


class ReadyByClass:
    """A user's jobs that have ready tasks of one kind, grouped by class. Class None contains jobs without a
    class."""

    __slots__ = ("by_class", "class_of")

    def __init__(self) -> None:
        self.by_class: dict[int | None, SortedKeys[JobView]] = {}
        self.class_of: dict[JobView, int | None] = {}

    def put(self, job: JobView, label: int | None) -> None:
        """Add the job to the class `label`, and remove it from any other class."""
        if self.class_of.get(job, -1) != label:
            self.drop(job)
            self.class_of[job] = label
            self.by_class.setdefault(label, SortedKeys()).put(job, fifo_key(job))

    def drop(self, job: JobView) -> None:
        """Remove the job from its class. Do nothing if the job is in no class."""
        if job in self.class_of:
            label = self.class_of.pop(job)
            self.by_class[label].drop(job)
            if not self.by_class[label]:
                del self.by_class[label]

    def jobs(self, classes: set[int] | None, *, suggested: bool) -> Iterator[JobView]:
        """Yield jobs of the given classes (None: all) with those without a class, or else all others."""
        for label in sorted(self.by_class, key=lambda label: -1 if label is None else label):
            if (label is None or classes is None or label in classes) is suggested:
                yield from self.by_class[label]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A user's minimum number of slots of each kind, and weight."""

    weight: float = 1.0
    min_share: int = 0


_PLAIN = Promise()


class Coshh:
    """The order axis of a composed policy: classes of similar jobs, offered first to the hardware that suits
    them.

    `classes`: largest number of classes. `users`: a dictionary from user to min share (slots of each kind)
    and weight.
    """

    quiet = QUIET

    def __init__(self, *, classes: int = 4, users: Mapping[str, Promise] | None = None) -> None:
        self._most = classes
        self._settings = dict(users or {})
        self._everybody = MeanTimes()
        self._workloads: dict[str, KnownWorkload] = {}
        self._class_of: dict[str, int] = {}  # by job
        self._classes = 0
        self._suggested: dict[tuple[TaskKind, Machinery], set[int]] = {}
        self._waiting: dict[TaskKind, dict[str, ReadyByClass]] = {kind: {} for kind in TaskKind}
        self._tallies: dict[tuple[str, TaskKind], TallyView] = {}
        self._stale = False
        self._slots = (0, 0)
        _solvers()  # Import scipy here, not in the first tick.

    # Task scheduling: the times of tasks

    def _workload(self, job: JobView) -> KnownWorkload:
        name = f"{job.user}/{workload_of(job.spec)}"
        known = self._workloads.get(name)
        if known is None:
            known = self._workloads[name] = KnownWorkload(self._everybody)
        return known

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: count the job in its workload, for new classes at the next tick."""
        self._workload(job).jobs += 1
        self._stale = True
        for kind in TaskKind:
            self._tallies[job.user, kind] = job.stage(kind).user
            self._waiting[kind].setdefault(job.user, ReadyByClass())

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add the time of a successful task to its workload's statistics."""
        if attempt.state == "succeeded":
            task = attempt.task
            if self._workload(task.job).learn(task.kind, machinery(attempt.node), took_s(attempt)):
                self._stale = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: forget the job's class, for new classes at the next tick."""
        self._class_of.pop(job.job, None)
        self._stale = True

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to its user's ready jobs, or remove it if no task is ready."""
        waiting = self._waiting[kind][job.user]
        if job.stage(kind).ready:
            waiting.put(job, self._class_of.get(job.job))
        else:
            waiting.drop(job)

    # Queuing: classes, and the hardware suggested for them

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: recompute classes after changes of jobs, workloads or slots."""
        slots = (view.slots(TaskKind.MAP), view.slots(TaskKind.REDUCE))
        if (self._stale or slots != self._slots) and view.jobs:
            self._stale, self._slots = False, slots
            classify, suggest = _solvers()
            jobs, resources = list(view.jobs.values()), _resources(view)
            hardware = list(resources)
            labels = classify([self._features(job, hardware) for job in jobs], self._most)
            self._class_of = {job.job: label for job, label in zip(jobs, labels, strict=True)}
            self._classes = max(labels) + 1
            for kind in TaskKind:
                arrivals, times_s = self._demands(jobs, labels, kind, hardware)
                present = [label for label in range(self._classes) if arrivals[label] > 0]
                found = suggest(
                    [arrivals[label] for label in present],
                    [times_s[label] for label in present],
                    [counts[kind] for counts in resources.values()],
                )
                for each, places in zip(hardware, found, strict=True):
                    self._suggested[kind, each] = {present[place] for place in places}
                for job in jobs:
                    self.changed(view, job, kind)

    def _features(self, job: JobView, hardware: list[Machinery]) -> list[float]:
        """Return logarithms of task times by hardware and of the workload's jobs, and the priority."""
        workload, totals = self._workload(job), {kind: job.stage(kind).total for kind in TaskKind}
        tasks = max(1, sum(totals.values()))
        means_s = [
            sum(total * workload.time_s(kind, each) for kind, total in totals.items()) / tasks
            for each in hardware
        ]
        return [
            *(log(max(_SHORTEST_S, mean_s)) for mean_s in means_s),
            log(workload.jobs),
            float(job.priority),
        ]

    def _demands(
        self, jobs: list[JobView], labels: list[int], kind: TaskKind, hardware: list[Machinery]
    ) -> tuple[list[float], list[list[float]]]:
        """Return each class's number of tasks and its tasks' mean seconds by hardware."""
        tasks = [0.0] * self._classes
        times_s = [[0.0] * len(hardware) for _ in tasks]
        for job, label in zip(jobs, labels, strict=True):
            workload, total = self._workload(job), job.stage(kind).total
            tasks[label] += total
            for place, each in enumerate(hardware):
                times_s[label][place] += total * workload.time_s(kind, each)
        means_s = [
            [time_s / max(1.0, sum_) for time_s in row] for row, sum_ in zip(times_s, tasks, strict=True)
        ]
        return tasks, means_s

    # Routing: the order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterator[JobView]:
        """Implement `Order.jobs`: users below min share, then classes suggested for the node, then others."""
        classes = self._suggested.get((kind, machinery(node)))
        lacking: list[tuple[float, str]] = []
        others: list[tuple[float, str]] = []
        for user, waiting in self._waiting[kind].items():
            if waiting.class_of:
                lacks = self._lacks(user, kind)
                settings = self._settings.get(user, _PLAIN)
                key = self._tallies[user, kind].running / settings.weight
                (lacking if lacks else others).append((-lacks or key, user))
        lacking.sort()
        others.sort()
        for _, user in lacking:
            for suggested in (True, False):
                yield from self._waiting[kind][user].jobs(classes, suggested=suggested)
        for suggested in (True, False):
            for _, user in others:
                yield from self._waiting[kind][user].jobs(classes, suggested=suggested)

    def _lacks(self, user: str, kind: TaskKind) -> int:
        """Return how many slots for that kind of task the user still needs to reach the min share, at least 0."""
        settings = self._settings.get(user, _PLAIN)
        return max(0, settings.min_share - self._tallies[user, kind].running)

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the job's class and whether it is suggested here, for the reason of a launch."""
        lacks, label = self._lacks(job.user, kind), self._class_of.get(job.job)
        below = f"{job.user} is {lacks} below the min share, " if lacks else ""
        if label is None:
            return f"{below}no class yet"
        hardware = machinery(node)
        suits = label in self._suggested.get((kind, hardware), {label})
        time_s = self._workload(job).time_s(kind, hardware)
        return (
            f"{below}class {label + 1} of {self._classes}, {'' if suits else 'not '}suggested here, "
            f"{time_s:.3g} s a {kind.value}"
        )


def _solvers() -> tuple[Any, Any]:
    """Import `classify` and `suggest` only when needed, since scipy is slow to import."""
    from schedbed.scheduler.models.job_classes import classify, suggest

    return classify, suggest


def machinery(node: NodeView) -> Machinery:
    spec = node.spec
    return Machinery(spec.core_speed, spec.disk_bps, spec.network_bps)


def _resources(view: View) -> dict[Machinery, dict[TaskKind, int]]:
    """Return {hardware: map and reduce slots} of live nodes."""
    found: dict[Machinery, dict[TaskKind, int]] = {}
    specs = [node.spec for node in view.nodes.values() if node.alive]
    counts = Counter(
        (spec.core_speed, spec.disk_bps, spec.network_bps, spec.map_slots, spec.reduce_slots)
        for spec in specs
    )
    for (core_speed, disk_bps, network_bps, maps, reduces), nodes in counts.items():
        hardware = Machinery(core_speed, disk_bps, network_bps)
        slots = found.setdefault(hardware, dict.fromkeys(TaskKind, 0))
        slots[TaskKind.MAP] += nodes * maps
        slots[TaskKind.REDUCE] += nodes * reduces
    return found


AXIS = Axis(
    axis="order",
    name="coshh",
    factory=Coshh,
    summary="similar jobs form classes, which run on the hardware that suits them (k-means, linear "
    "program); users below their min share come first",
    paper="xu2015 3.1.3.3; Rasooli and Down 2014",
    parameters=(
        count("classes", "4", "largest number of classes into which similar jobs are grouped", least=1),
        by_name(
            "users",
            "user",
            "settings by user name: min_share (slots of each kind) and weight, such as {ana: {min_share: 2}}",
            "{ana: {min_share: 2}}",
            {"min_share": at_least_one, "weight": positive},
            Promise,
        ),
    ),
    rank=50,
)
POLICY = AXIS.named(
    summary="Similar jobs form classes, which run on the hardware that suits them; users below their "
    "min share come first.",
    rank=58,
)

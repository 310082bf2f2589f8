"""EASY backfilling of rigid jobs (Lifka 1995; Mu'alem and Feitelson 2001): all maps of a job start together.

Jobs start in FIFO order. The first job that does not fit is given a reservation at the time when, by the
requested run times, enough slots will be free; a later job may start before this job if that does not delay
the reservation. With `backfill` off, the first job that does not fit holds back all later jobs (plain FCFS).
A job holds a map slot for each of its maps from its start to the end of its last map. A job that has more
maps than the cluster has slots, for example while nodes are lost, waits and delays no other job. A waiting
job refuses all nodes, and gives the reason again only when the reason has changed. The requested run time is
the job's `requested_s`. Without it the job's end is unknown, and later jobs never delay a reservation that
depends on this end. Reduces start in the order of the jobs' starts.
"""

from __future__ import annotations

from math import inf

from schedbed.scheduler.models.gangs import StartsGangs
from schedbed.scheduler.models.promised_slots import Timeline
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import AVOIDED, Limits, Proposal
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import count_or_all, duration, number, switch
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Easy(StartsGangs):
    """The policy EASY, which is not composed of order, locality and admission: all maps of a job start
    together, in FIFO order with backfilling.

    `backfill`: start later jobs before the first job that does not fit. `reservations`: the number of waiting jobs
    that later jobs may not delay (1: EASY; infinity: conservative backfilling). `slack_s`: two times that differ by
    fewer seconds are treated as equal. Such a tolerance is necessary since launches wait for heartbeats and
    traces contain whole seconds, so ends that should be simultaneous differ slightly.
    """

    limits = Limits(slots=True)
    elidable = True  # Heartbeats without news do not change its answers.

    def __init__(self, *, backfill: bool = True, slack_s: float = 0.5, reservations: float = 1) -> None:
        super().__init__()
        self._backfill = backfill
        self._slack_s = slack_s
        self._reservations = reservations
        self._waiting: SortedKeys[JobView] = SortedKeys()
        self._ends_s: dict[str, float] = {}  # Requested ends of started jobs.
        self._why: dict[str, str] = {}
        self._said: dict[str, str] = {}  # Why each waiting job waits, as of its last row.
        self._unsaid: list[tuple[JobView, str]] = []  # Waiting jobs that wait for another reason now.
        self._dirty = False  # Whether anything has changed since the queue was last examined.
        self._slots = 0

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: queue the job."""
        self._waiting.put(job, fifo_key(job))
        self._dirty = True

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: release the slots of a job whose maps have ended."""
        if self._gangs.changed(job, kind):
            self._dirty = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job from the queue, and release any slots that it holds."""
        waited = job in self._waiting
        self._waiting.drop(job)
        self._ends_s.pop(job.job, None)
        self._why.pop(job.job, None)
        self._said.pop(job.job, None)
        if self._gangs.finished(job) or waited:
            self._dirty = True

    # Resting nodes

    def rests(self, view: View, node: NodeView) -> bool:
        """Implement `Resting.rests`: no started job has a task, and the queue is as last examined."""
        may_say = self._dirty or bool(self._unsaid) or view.slots(MAP) != self._slots
        return not may_say and not self._gangs.may_start

    # Offers

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: start all jobs that may start now, then return a task of a started job."""
        self._gangs.offered()
        if view.slots(MAP) != self._slots:
            self._slots, self._dirty = view.slots(MAP), True
        if self._dirty:
            self._dirty = False
            self._start_jobs(view)
            whys = ((job, self._why.get(job.job, "waits behind the first job")) for job in self._waiting)
            self._unsaid = [
                (job, why) for job, why in whys if job.maps.ready and self._said.get(job.job) != why
            ]
        if kind is not MAP:
            return self._reduce(view, node)
        for job in self._gangs.starting.values():
            if job.excluded and view.avoids(job, node, kind):
                view.skip(node, job, kind, AVOIDED)
                continue
            task = _nearest(job, node)
            if task is not None:
                return Proposal(task, self._why[job.job])
        for job, why in self._unsaid:
            view.skip(node, job, kind, why)
            self._said[job.job] = why
        self._unsaid = []
        return None

    def _reduce(self, view: View, node: NodeView) -> Proposal | None:
        for job in self._gangs.started.values():
            task = job.any_reduce()
            if task is None:
                continue
            if not (job.excluded and view.avoids(job, node, TaskKind.REDUCE)):
                return Proposal(task, "reduce")
            view.skip(node, job, TaskKind.REDUCE, AVOIDED)
        return None

    # Starts of jobs

    def _start_jobs(self, view: View) -> None:
        free, queue = self._gangs.free(self._slots), list[JobView]()
        for job in self._waiting:
            if job.maps.total <= self._slots:
                queue.append(job)
            else:
                self._why[job.job] = f"has {job.maps.total} maps, the cluster has {self._slots} map slots"
        plan, first_s, reserved = None, inf, 0
        for job in queue:
            size, lasts_s = job.maps.total, _requested_s(job)
            if size <= free and (plan is None or plan.fits(view.now_s, size, lasts_s)):
                free -= size
                if plan is not None:
                    plan.take(view.now_s, size, lasts_s)
                turn = "its turn" if plan is None else f"backfilled before the reservation {_at(first_s)}"
                self._start(view, job, turn)
            elif not self._backfill:
                self._why[job.job] = f"waits for {size} slots, {free} are free"
                return
            elif reserved < self._reservations:
                if plan is None:
                    ends = [(self._ends_s[each], held) for each, held in self._gangs.held.items()]
                    plan = Timeline(view.now_s, free, ends, self._slack_s)
                at_s = plan.earliest_s(size, lasts_s)
                reserved += 1
                first_s = min(first_s, at_s)
                self._why[job.job] = f"waits for {size} slots, {free} are free; reserved {_at(at_s)}"
                # What depends on an end that nobody promised might be possible at any time: all slots are kept.
                plan.take(view.now_s if at_s == inf else at_s, self._slots if at_s == inf else size, lasts_s)
            elif free <= 0:
                return
            else:
                which = "the first job" if self._reservations == 1 else "a job before it, the first"
                self._why[job.job] = f"{size} slots would delay {which}, reserved {_at(first_s)}"

    def _start(self, view: View, job: JobView, why: str) -> None:
        self._waiting.drop(job)
        self._gangs.start(job, job.maps.total)
        self._ends_s[job.job] = view.now_s + _requested_s(job)
        self._why[job.job] = f"{why}: {job.maps.total} slots at once"


def _requested_s(job: JobView) -> float:
    asked_s = job.spec.requested_s
    return inf if asked_s is None else asked_s


def _nearest(job: JobView, node: NodeView) -> TaskView | None:
    return job.local_map(node.node) or job.rack_map(node.rack) or job.any_map()


def _at(time_s: float) -> str:
    return f"at {time_s:.1f} s" if time_s < inf else "at a time that nobody can know"


POLICY = Whole(
    name="easy",
    factory=Easy,
    summary="All maps of a job start together, in FIFO order; later jobs may start earlier if they "
    "do not delay the first (EASY backfilling).",
    paper="Lifka 1995; Mu'alem and Feitelson 2001",
    rigid=True,
    parameters=(
        number(
            "backfill",
            "true",
            "",
            "whether later jobs may start before the first waiting job, if they do not delay it",
            switch,
        ),
        count_or_all(
            "reservations",
            "1",
            "number of waiting jobs that have a reservation, which later jobs may not delay: 1 is EASY, all is "
            "conservative backfilling",
        ),
        duration(
            "slack",
            "500ms",
            "largest difference between two times that still count as equal, since heartbeats delay starts",
        ),
    ),
)

"""EASY backfilling of rigid jobs (Lifka 1995; Mu'alem and Feitelson 2001): all maps of a job start together.

Jobs start in FIFO order. The first job that does not fit is given a reservation at the time when, by the
requested run times, enough slots will be free; a later job may start before this job if that does not delay
the reservation. With `backfill` off, the first job that does not fit holds back all later jobs (plain FCFS).
A job holds a map slot for each of its maps from its start to the end of its last map. A job that has more
maps than the cluster has slots, for example while nodes are lost, waits and delays no other job. A waiting
job refuses all nodes, and gives the reason again only when the reason has changed. The requested run time is
the job's `requested_s`. Without it the job's end is unknown, and later jobs never delay a reservation that
depends on this end. Reduces start in the order of the jobs' starts.

The papers' machine has equal slots (`models.rigid.promised_slots`). Slurm's reservations name whole nodes
(`reserve=nodes`, `models.rigid.promised_nodes`). Then a job that starts has named nodes, and its maps run on
these only. If a node of a started job is lost, or is avoided after failures, other nodes with free slots take its
place. A map that runs again after all maps have ended, since its output was lost, takes any slot. Slurm has two
schedulers: the main one starts jobs in order at each submission and end, and stops at the first job that does not
fit; the other one backfills, once an `interval`. Slurm also ends jobs that are over their time.
"""

from __future__ import annotations

from math import inf
from typing import Any

from schedbed.scheduler.hooks import Limits, Proposal, Quiet, TimeOut, drop
from schedbed.scheduler.models.rigid.gangs import StartsGangs
from schedbed.scheduler.models.rigid.named_places import NamedPlaces
from schedbed.scheduler.models.rigid.promised_nodes import NodePlan
from schedbed.scheduler.models.rigid.promised_slots import Places, SlotPlan, StartPlan
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import AVOIDED, next_reduce
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import choice, count_or_all, duration, number, switch
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Easy(StartsGangs):
    """The policy EASY, which is not composed of order, locality and admission: all maps of a job start
    together, in FIFO order with backfilling.

    `backfill`: start later jobs before the first job that does not fit. `reservations`: the number of waiting jobs
    that later jobs may not delay (1: EASY; infinity: conservative backfilling). `slack_s`: two times that differ by
    fewer seconds are treated as equal. Such a tolerance is necessary since launches wait for heartbeats and
    traces contain whole seconds, so ends that should be simultaneous differ slightly. With `reserve` nodes it counts
    only for jobs over their time. `depth`: the number of waiting jobs that are looked at. `epoch_s`,
    `resolution_s`, `end_window_s` and `kill_wait_s`: see `NodePlan`.
    """

    limits = Limits(slots=True)

    def __init__(
        self,
        *,
        backfill: bool = True,
        slack_s: float = 0.5,
        reservations: float = 1,
        reserve: str = "slots",
        depth: float = inf,
        epoch_s: float = 0.0,
        resolution_s: float = 0.0,
        end_window_s: float = 30.0,
        kill_wait_s: float = 30.0,
    ) -> None:
        super().__init__()
        self._backfill = backfill
        self._slack_s = slack_s
        self._reservations = reservations
        self._names_nodes = reserve == "nodes"
        self._node_settings = {
            "epoch_s": epoch_s,
            "resolution_s": resolution_s,
            "window_s": end_window_s,
            "kill_wait_s": kill_wait_s,
        }
        self._depth = depth
        self._waiting: SortedKeys[JobView] = SortedKeys()
        self._ends_s: dict[str, float] = {}  # Requested ends of started jobs.
        self._backfills_at_once = backfill
        self._places = NamedPlaces()  # Of none if nodes are not named.
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
            self._places.release(job)
            self._dirty = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job from the queue, and release any slots that it holds."""
        waited = job in self._waiting
        self._waiting.drop(job)
        self._ends_s.pop(job.job, None)
        self._places.release(job)
        self._why.pop(job.job, None)
        self._said.pop(job.job, None)
        if self._gangs.finished(job) or waited:
            self._dirty = True

    # Resting nodes

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return Quiet(rests=self.rests, turn=lambda: self._gangs.turn)

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether an offer has no effect: no started job has a task, and the queue is as last examined."""
        may_say = self._dirty or bool(self._unsaid) or view.slots(MAP) != self._slots
        return not may_say and not self._gangs.may_start

    # Offers

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: start all jobs that may start now, then return a task of a started job."""
        self._gangs.offered()
        if self._dirty or view.slots(MAP) != self._slots:
            self._examine(view, backfill=self._backfills_at_once)
        if kind is not MAP:
            return next_reduce(view, node, self._gangs.started.values())
        for job in self._gangs.starting.values():
            if not self._places.allows(job, node):
                continue
            if job.excluded and view.avoids(job, node, kind):
                self._dirty = self._dirty or job.job in self._places.by_job
                view.skip(node, job, kind, AVOIDED)
                continue
            task = _nearest(job, node)
            if task is not None:
                self._launching(view, job)
                return Proposal(task, self._why[job.job])
        for job, why in self._unsaid:
            view.skip(node, job, kind, why)
            self._said[job.job] = why
        self._unsaid = []
        return None

    def _launching(self, view: View, job: JobView) -> None:
        """Note that a map of the job is launched. A subclass counts the job's time."""

    # Starts of jobs

    def _examine(self, view: View, *, backfill: bool) -> None:
        """Start all jobs that may start now, and note why the others wait."""
        self._slots, self._dirty = view.slots(MAP), False
        self._places.move(view, self._gangs.starting.values())
        self._start_jobs(view, backfill=backfill)
        whys = ((job, self._why.get(job.job, "waits behind the first job")) for job in self._waiting)
        self._unsaid = [(job, why) for job, why in whys if job.maps.ready and self._said.get(job.job) != why]

    def _start_jobs(self, view: View, *, backfill: bool) -> None:
        queue = list[JobView]()
        for job in self._waiting:
            if job.maps.total <= self._slots:
                queue.append(job)
            else:
                self._why[job.job] = f"has {job.maps.total} maps, the cluster has {self._slots} map slots"
        if not queue:
            return
        plan, first_s, reserved = self._plan(view), inf, 0
        for tested, job in enumerate(queue):
            if reserved and tested >= self._depth:
                return
            size, lasts_s = job.maps.total, _requested_s(job)
            places = plan.start(size, lasts_s)
            if places is not None:
                turn = f"backfilled before the reservation {_at(first_s)}" if reserved else "its turn"
                self._start(view, job, places, turn)
            elif not backfill:
                if not self._backfill or job.job not in self._why:
                    self._why[job.job] = f"waits for {size} slots, {self._gangs.free(self._slots)} are free"
                return
            elif reserved < self._reservations:
                at_s = plan.reserve(size, lasts_s)
                reserved += 1
                first_s = min(first_s, at_s)
                free = self._gangs.free(self._slots)
                self._why[job.job] = f"waits for {size} slots, {free} are free; reserved {_at(at_s)}"
            elif plan.full:
                return
            else:
                which = "the first job" if self._reservations == 1 else "a job before it, the first"
                self._why[job.job] = f"{size} slots would delay {which}, reserved {_at(first_s)}"

    def _plan(self, view: View) -> StartPlan:
        ends_s, held = self._ends_s, self._gangs.held
        if self._names_nodes:
            slots = {name: node.spec.map_slots for name, node in view.nodes.items() if node.alive}
            jobs = [(ends_s[each], self._places.by_job[each]) for each in held]
            return NodePlan(view.now_s, slots, jobs, **self._node_settings)
        ends = [(ends_s[each], count) for each, count in held.items()]
        return SlotPlan(view.now_s, self._slots, self._gangs.free(self._slots), ends, self._slack_s)

    def _start(self, view: View, job: JobView, places: Places, why: str) -> None:
        self._waiting.drop(job)
        self._gangs.start(job, job.maps.total)
        if self._names_nodes:
            self._places.start(job, places)
        self._ends_s[job.job] = view.now_s + _requested_s(job)
        self._why[job.job] = f"{why}: {job.maps.total} slots at once"


class TimedEasy(Easy):
    """`Easy` with what happens by the clock, as in Slurm: backfilling in cycles, and the ends of jobs over their time.

    `interval_s`: time between two backfillings, 0 for one at each change. `limit_check_s`: time between two looks for
    jobs over their requested time, which end then, None for never. A job's time counts from the launch of its last map,
    since launches take time.
    """

    def __init__(
        self, *, interval_s: float = 0.0, limit_check_s: float | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self._interval_s, self._limit_check_s = interval_s, limit_check_s
        self._backfills_at_once = self._backfill and not interval_s
        self._cycle_s = self._checked_s = 0.0  # Of the last backfilling and the last look.
        self._has_news = False  # Whether any job was submitted or has ended since the last backfilling.
        self._unlaunched: dict[str, int] = {}  # Maps of started jobs that were not launched yet.
        # Requested ends of started jobs, by the launch of the last map.
        self._limits_s: dict[str, float] = {}
        if limit_check_s is None:
            drop(self, "preempt")

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`."""
        super().submitted(view, job)
        self._has_news = True
        self._unlaunched[job.job] = job.maps.total

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        super().finished(view, job)
        self._has_news = True
        self._unlaunched.pop(job.job, None)
        self._limits_s.pop(job.job, None)

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return Quiet(rests=self.rests, turn=lambda: self._gangs.turn)

    def _launching(self, view: View, job: JobView) -> None:
        if self._unlaunched[job.job] > 0:
            self._unlaunched[job.job] -= 1
            self._limits_s[job.job] = view.now_s + _requested_s(job)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: backfill if the interval is over, and there was something new (`_more_work`)."""
        is_due = self._interval_s > 0 and view.now_s >= self._cycle_s + self._interval_s
        if is_due and (self._has_news or self._waiting):
            self._cycle_s, self._has_news = view.now_s, False
            self._examine(view, backfill=self._backfill)
            if self._unsaid:
                self._gangs.stage_ready()

    def preempt(self, view: View) -> list[TimeOut]:
        """Implement `Hooks.preempt`: end the jobs that are over their requested time, at each look for them."""
        if self._limit_check_s is None or view.now_s < self._checked_s + self._limit_check_s:
            return []
        self._checked_s = view.now_s
        over = [
            view.jobs[job] for job, limit_s in self._limits_s.items() if limit_s + self._slack_s < view.now_s
        ]
        return [TimeOut(job, f"over its requested time of {_requested_s(job):.1f} s") for job in over]


def make_easy(*, interval_s: float = 0.0, limit_check_s: float | None = None, **settings: Any) -> Easy:
    """Return the policy, without hooks for the clock if nothing happens by it."""
    if not interval_s and limit_check_s is None:
        return Easy(**settings)
    return TimedEasy(interval_s=interval_s, limit_check_s=limit_check_s, **settings)


def _requested_s(job: JobView) -> float:
    asked_s = job.spec.requested_s
    return inf if asked_s is None else asked_s


def _nearest(job: JobView, node: NodeView) -> TaskView | None:
    return job.local_map(node.node) or job.rack_map(node.rack) or job.any_map()


def _at(time_s: float) -> str:
    return f"at {time_s:.1f} s" if time_s < inf else "at a time that nobody can know"


PARAMETERS = (
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
        "conservative backfilling (Slurm: bf_job_part_count_reserve, where 0 is all)",
    ),
    duration(
        "slack",
        "500ms",
        "largest difference between two times that still count as equal, since heartbeats delay starts; with slots",
    ),
    choice(
        "reserve",
        ("slots", "nodes"),
        "what a reservation promises: a number of slots, as in the papers, or whole nodes that it names, as in Slurm",
    ),
    duration(
        "interval",
        "0s",
        "time between two backfillings, each with a plan of its own; 0 backfills at each submission and end "
        "(Slurm: bf_interval)",
    ),
    count_or_all(
        "depth", "all", "number of waiting jobs that a backfilling looks at (Slurm: bf_max_job_test)"
    ),
    duration(
        "limit_check",
        "off",
        "time between two looks for jobs that run longer than requested, which are killed; `off` lets them run (Slurm: "
        "30 s, PERIODIC_TIMEOUT)",
    ),
    duration(
        "epoch",
        "0s",
        "with named nodes: time of Slurm's clock at the run's start; `resolution` and `end_window` count by this "
        "clock, so what Slurm decides depends on the second in which a run begins",
    ),
    duration(
        "resolution",
        "0s",
        "with named nodes: the times of reservations are rounded down to multiples of this, 0 for exact times (Slurm: "
        "bf_resolution, 60 s by default)",
    ),
    duration(
        "end_window",
        "30s",
        "with named nodes: running jobs that promise to end within this time, which doubles, are taken to end together "
        "when a reservation is placed, as in Slurm",
    ),
    duration(
        "kill_wait",
        "30s",
        "with named nodes: a job that is over its time is taken to end this long after it (Slurm: KillWait)",
    ),
)

POLICY = Whole(
    name="easy",
    factory=make_easy,
    summary="All maps of a job start together, in FIFO order; later jobs may start earlier if they "
    "do not delay the first (EASY backfilling).",
    paper="Lifka 1995; Mu'alem and Feitelson 2001",
    rigid=True,
    parameters=PARAMETERS,
)

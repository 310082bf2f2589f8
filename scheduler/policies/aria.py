"""The policy ARIA (paper verma2011): each job receives the numbers of slots with which it meets its deadline,
and jobs with earlier deadlines come first.

This is Algorithm 1 of the paper, with profiles and the model of `scheduler.models`. Decisions where the paper
is open:

- A job with a deadline and no profile asks for all slots until its first map has ended.
- While a job has fewer slots than it asks for, the number to ask for is recomputed on every tick.
- Slots that are left over go first to jobs with a deadline, earliest first, then to jobs without a deadline,
  by priority and submission.
- While a job with a deadline is active, a slot that is left over is not given to a reduce of a job with
  unstarted maps, since the reduce would hold the slot and wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from schedbed.scheduler.hooks import QUIET, Limits, Proposal
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.models.aria_bounds import (
    BOUNDS,
    WAVES,
    Bounds,
    SlotAllocation,
    allocate,
    allocate_waves,
    bounds,
    curve,
    waves_time_s,
)
from schedbed.scheduler.models.job_profile import JobProfile, Profiler
from schedbed.scheduler.models.same_workload import Run, workload_of
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import AVOIDED
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import choice, count, profiles
from schedbed.scheduler.view import AttemptView, JobView, NodeView, StageView, View
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
PROFILES = "aria"  # Kind of ARIA's profiles in the profile store.


def profile_name(spec: Run) -> str:
    """Return the name of a job's profile: user and job name, as in the paper."""
    return f"{spec.user}/{workload_of(spec)}"


class Contract:
    """The slots that one job asks for under ARIA: the largest number of running tasks of each kind (`asked`),
    and the reason as text (`why`).

    `profile`: the job's profile from earlier runs, or None. `profiler`: measures the job's profile in this
    run. `prediction`: bounds of the completion time, predicted when the job first asked for slots.
    """

    __slots__ = ("asked", "job", "name", "prediction", "profile", "profiler", "why")

    def __init__(self, job: JobView, name: str, profile: JobProfile | None, profiler: Profiler) -> None:
        self.job = job
        self.name = name  # Name of the profile.
        self.profile = profile  # From earlier runs, scaled to the size of this job's tasks.
        self.profiler = profiler
        self.asked: dict[TaskKind, float] = {MAP: inf, REDUCE: inf}
        self.why = ""
        self.prediction: dict[str, Any] | None = None


class Waiting:
    """The jobs with ready tasks of one kind, in three sorted lists.

    `lacking`: jobs with a deadline that have fewer slots than they ask for. `due`: all jobs with a deadline.
    `others`: jobs without a deadline.
    """

    __slots__ = ("due", "lacking", "others")

    def __init__(self) -> None:
        self.lacking: SortedKeys[JobView] = SortedKeys()
        self.due: SortedKeys[JobView] = SortedKeys()
        self.others: SortedKeys[JobView] = SortedKeys()


class Aria:
    """The policy ARIA, which is not composed of order, locality and admission: each job receives the slots
    with which it meets its deadline.

    `bound`: the estimate of a job's completion time that is compared with the deadline. The values avg, low
    and up select one of the model's bounds, waves the model with whole waves. `reduce_start`: when a job's
    reduces may start. With all_maps they start after all maps, as in the paper's simulator (7.2). With
    first_map they start when the scheduler core allows reduces, after a share of the maps (Algorithm 1, line
    15).

    `spare`: the jobs that may use slots when no job with a deadline lacks slots: all, deadline (jobs with a
    deadline), others (jobs without a deadline) or none. While there is no job with a deadline, the other jobs
    run in any case. `top`: number of a phase's longest tasks whose mean duration counts as the maximum.
    `profiles["aria"]`: a dictionary from profile name to the profile measured in earlier runs.
    """

    limits = Limits(slots=True)
    quiet = QUIET

    def __init__(
        self,
        *,
        bound: str = "avg",
        reduce_start: str = "first_map",
        spare: str = "all",
        top: int = 1,
        profiles: Mapping[str, Mapping[str, JobProfile]] | None = None,
    ) -> None:
        self._bound = bound
        self._after_maps = reduce_start == "all_maps"
        self._top = top
        self._spare_due = spare in ("all", "deadline")
        self._spare_others = spare in ("all", "others")
        self._profiles = dict((profiles or {}).get(PROFILES, {}))
        self._learnt: dict[str, JobProfile] = {}
        self._contracts: dict[str, Contract] = {}
        self._predictions: dict[str, dict[str, Any]] = {}
        self._waiting: dict[TaskKind, Waiting] = {kind: Waiting() for kind in TaskKind}
        self._due = 0  # jobs with a deadline that have not ended
        self._slots = (0, 0)
        self._nearest = Greedy()

    # Slots that jobs ask for

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: find the profile and the slots to ask for (Algorithm 1, lines 1 to 3)."""
        if (view.slots(MAP), view.slots(REDUCE)) != self._slots:
            self.tick(view)
        name = profile_name(job.spec)
        known = self._profiles.get(name)
        if known is not None and job.maps.total:
            size = job.spec.input_bytes / job.maps.total
            known = known.for_data(size, job.maps.total, job.reduces.total)
        contract = self._contracts[job.job] = Contract(job, name, known, Profiler(self._top))
        if job.deadline_s is not None:
            self._due += 1
            self._ask(view, contract)
            if contract.prediction is not None:
                self._predictions[job.job] = contract.prediction

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: measure, and recompute slots for a deadline (Algorithm 1, lines 22 to 24)."""
        contract = self._contracts.get(attempt.task.job.job)
        if contract is None:
            return
        if attempt.state == "succeeded":
            _measure(contract.profiler, attempt)
        if contract.job.deadline_s is not None:
            self._ask(view, contract)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: merge a successful job's profile into the stored one."""
        contract = self._contracts.pop(job.job)
        if job.deadline_s is not None:
            self._due -= 1
        measured = contract.profiler.profile() if job.state == "succeeded" else None
        if measured is not None:
            known = self._profiles.get(contract.name)
            merged = known.merged(measured) if known else measured
            self._profiles[contract.name] = self._learnt[contract.name] = merged
        for kind in TaskKind:
            self._place(job, kind)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: recompute for jobs that lack slots, or all deadlines if the cluster changed."""
        slots = (view.slots(MAP), view.slots(REDUCE))
        if slots != self._slots:
            self._slots = slots
            jobs = [
                contract.job for contract in self._contracts.values() if contract.job.deadline_s is not None
            ]
        else:
            jobs = [job for kind in TaskKind for job in self._waiting[kind].lacking]
        for name in dict.fromkeys(job.job for job in jobs):
            self._ask(view, self._contracts[name])

    def _ask(self, view: View, contract: Contract) -> None:
        """Compute the slots to meet the deadline; without a profile the job asks for all."""
        job, deadline_s = contract.job, contract.job.deadline_s
        assert deadline_s is not None
        profile = contract.profile or contract.profiler.profile()
        if profile is None:
            contract.why = "asks all slots: no profile yet"
            return
        left_s = deadline_s - view.now_s
        if self._bound == WAVES:
            slots, time_s = _in_waves(view, contract, profile, left_s)
        else:
            maps, reduces = _left(job.maps), _left(job.reduces)
            model = curve(profile, maps, reduces, self._bound)
            slots = allocate(model, left_s, min(view.slots(MAP), maps), min(view.slots(REDUCE), reduces))
            time_s = model.time_s(slots.maps, slots.reduces)
        asked = "all slots" if slots.capped else f"({slots.maps}, {slots.reduces}) slots"
        contract.why = f"asks {asked}: T_{self._bound} {time_s:.1f} s of {left_s:.1f} s left"
        contract.asked[MAP] = inf if slots.capped else slots.maps
        contract.asked[REDUCE] = inf if slots.capped else slots.reduces
        if contract.prediction is None:
            on_slots = max(1, slots.maps), max(1, slots.reduces)
            predicted = bounds(profile, _left(job.maps), _left(job.reduces), *on_slots)
            contract.prediction = _prediction(view.now_s, slots.maps, slots.reduces, predicted)
        for kind in TaskKind:
            self._place(job, kind)

    # Offers

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to the ready jobs of that kind, or remove it if no task is ready."""
        self._place(job, kind)
        if self._after_maps and kind is MAP:
            self._place(job, REDUCE)

    def _place(self, job: JobView, kind: TaskKind) -> None:
        waiting, stage = self._waiting[kind], job.stage(kind)
        ready = job.active and stage.ready
        if self._after_maps and kind is REDUCE:
            ready = ready and not _left(job.maps)
        if job.deadline_s is None:
            if ready:
                waiting.others.put(job, fifo_key(job))
            else:
                waiting.others.drop(job)
            return
        key = (job.deadline_s, job.submit_s, job.serial)
        if ready:
            waiting.due.put(job, key)
        else:
            waiting.due.drop(job)
        if ready and stage.running < self._contracts[job.job].asked[kind]:
            waiting.lacking.put(job, key)
        else:
            waiting.lacking.drop(job)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: jobs that lack slots come first (Algorithm 1, lines 4 to 21)."""
        waiting = self._waiting[kind]
        proposal = self._first(view, node, kind, waiting.lacking, spare=False)
        if proposal is None and self._spare_due:
            proposal = self._first(view, node, kind, waiting.due, spare=True)
        if proposal is None and (self._spare_others or not self._due):
            proposal = self._first(view, node, kind, waiting.others, spare=self._due > 0)
        if proposal is None and not self._spare_due and len(waiting.due):
            job = waiting.due.first()
            view.skip(node, job, kind, f"has what it asks for: {self._contracts[job.job].why}")
        return proposal

    def _first(
        self, view: View, node: NodeView, kind: TaskKind, jobs: SortedKeys[JobView], *, spare: bool
    ) -> Proposal | None:
        waits = False  # Only the first such job is recorded, since there may be many.
        for job in jobs:
            if job.excluded and view.avoids(job, node, kind):
                view.skip(node, job, kind, AVOIDED)
                continue
            if spare and kind is REDUCE and job.maps.unstarted:
                if not waits:
                    view.skip(node, job, kind, "no spare slot for a reduce before all maps have started")
                waits = True
                continue
            why = ("spare slot, " if spare else "") + (self._contracts[job.job].why or "no deadline")
            if kind is MAP:
                picked = self._nearest.pick(view, node, job)
                if isinstance(picked, Proposal):
                    return Proposal(picked.task, f"{picked.reason}; {why}")
            else:
                task = job.any_reduce()
                if task is not None:
                    return Proposal(task, f"reduce; {why}")
        return None

    def report(self) -> dict[str, Any]:
        """Return the profiles, for later runs, and the completion times predicted at submission."""
        learnt = {name: profile.to_json() for name, profile in sorted(self._learnt.items())}
        return {"profiles": {PROFILES: learnt}, "predictions": dict(self._predictions)}


def _measure(profiler: Profiler, attempt: AttemptView) -> None:
    counters, start_s = attempt.counters, attempt.assigned_s
    if attempt.task.kind is MAP:
        profiler.map_ended(start_s, attempt.end_s, attempt.task.split.length, counters.output_bytes)
        return
    sorted_s = counters.sort_end if counters.sort_end is not None else counters.shuffle_end
    profiler.reduce_ended(start_s, sorted_s, attempt.end_s, counters.shuffle_bytes, counters.output_bytes)


def _left(stage: StageView) -> int:
    return stage.total - stage.done


def _in_waves(
    view: View, contract: Contract, profile: JobProfile, left_s: float
) -> tuple[SlotAllocation, float]:
    """Return the slots that end the rest in whole waves of tasks within `left_s`, and the seconds it takes.

    Running maps are a wave in progress. After all maps, reduces keep their slots, since their progress is
    unknown.
    """
    job, kept = contract.job, contract.asked[REDUCE]
    running = [a for a in job.attempts.values() if a.task.kind is MAP and a.state != "killing"]
    under_way_s = max((profile.map.avg_s - (view.now_s - a.assigned_s) for a in running), default=0.0)
    left_s -= max(0.0, under_way_s)
    maps, reduces = job.maps.unstarted, _left(job.reduces)
    most = min(view.slots(MAP), maps), min(view.slots(REDUCE), reduces)
    slots = allocate_waves(profile, maps, reduces, left_s, *most)
    if not _left(job.maps) and kept < inf:
        slots = SlotAllocation(0, min(int(kept), most[1]))
    return slots, max(0.0, under_way_s) + waves_time_s(profile, maps, reduces, slots)


def _prediction(now_s: float, maps: int, reduces: int, predicted: Bounds) -> dict[str, Any]:
    """Return slots, and bounds of the end in seconds since the run's start, as JSON values."""
    return {
        "slots": [maps, reduces],
        "low_s": now_s + predicted.low_s,
        "avg_s": now_s + predicted.avg_s,
        "up_s": now_s + predicted.up_s,
    }


POLICY = Whole(
    name="aria",
    factory=Aria,
    summary="Each job gets as many slots as its deadline requires; the earliest deadline comes first.",
    paper="verma2011, Algorithm 1",
    parameters=(
        choice(
            "bound",
            (*BOUNDS, WAVES),
            "estimate of the completion time that must meet the deadline: average, lower or upper "
            "bound (avg, low, up), or by whole waves of tasks (waves)",
        ),
        choice(
            "reduce_start",
            ("first_map", "all_maps"),
            "when reduces may start: after the first maps (first_map) or after all maps of the job "
            "(all_maps)",
        ),
        choice(
            "spare",
            ("all", "deadline", "others", "none"),
            "jobs that may use slots that no deadline requires: all jobs, jobs with a deadline "
            "(deadline), jobs without (others), or none",
        ),
        count(
            "top",
            "1",
            "number of the longest tasks of a phase whose mean duration counts as the phase's maximum: more "
            "are robust against single slow tasks",
            least=1,
        ),
        profiles(PROFILES, parse=JobProfile.from_json),
    ),
    rank=80,
)

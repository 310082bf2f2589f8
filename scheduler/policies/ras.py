"""The policy RAS, the Resource-aware Adaptive Scheduler (polo2011): places tasks by the resources they use,
to raise the lowest utility of a job.

Slots have no type. Each control cycle plans how many tasks of each job a node should run, from the jobs'
resource profiles (`scheduler.models.ras_placement`). Between cycles a node starts planned tasks that do not
run yet, jobs with the lowest utility first, if the running tasks leave room (3.5). Room that is still free
may run other maps, but only of jobs whose current utility is below that of all jobs that wait for room on
this node (3.4, equation 5). Otherwise small maps would starve large maps.

Decisions where the paper is open: of a job's maps, the map with the nearest input starts; a cycle begins
immediately when a job arrives after a time without jobs. Reduces start only on their planned nodes, and maps
leave room for them. A job whose maps find no room next to reduces for a long time gives up a reduce (future
work in the paper), and its next reduce starts only after a map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.scheduler.admission.containers import Stalls
from schedbed.scheduler.hooks import Kill, Limits, Proposal, Quiet
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.models.ras_placement import PlacedJob, Placement
from schedbed.scheduler.models.resource_profiles import (
    FULL,
    NOTHING,
    RESOURCES,
    Amounts,
    ResourceProfile,
    read_profile,
)
from schedbed.scheduler.models.same_workload import find_profile
from schedbed.scheduler.models.task_times import took_s
from schedbed.scheduler.policies.node_loads import NodeLoads, demand_of
from schedbed.scheduler.policies.ras_jobs import (
    Cycle,
    KnownJob,
    MeanMap,
    barred_of,
    kind_of,
)
from schedbed.scheduler.policy import AVOIDED
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import count, duration, profiles
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import NodeId, TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
_FITS = FULL + 1e-6  # Sums of fractions can exceed 100 slightly.


class Ras:
    """The policy RAS, which is not composed of order, locality and admission: tasks are placed by the
    resources they use.

    `cycle_s`: seconds from the start of one control cycle to the next. `rounds`: largest number of rounds per
    cycle. `capacity`: percent of a node's CPU and disk available to tasks; reported percentages refer to it.
    `steps`: number of jobs or nodes that a cycle processes per tick, so that no heartbeat waits for long.
    `stall_timeout_s`: seconds until a job whose maps find no room gives up a reduce. `profiles["resources"]`:
    resource profiles by job name, workload or application. A job without a profile is assumed to use the
    vcores and memory that it declares, and no I/O, until `learn` of its maps have ended, 0 for ever: from the next
    cycle on, its maps are assumed to use the CPU and I/O that those used.
    """

    limits = Limits(slots=False)

    def __init__(
        self,
        *,
        cycle_s: float = 10.0,
        rounds: int = 10,
        capacity: float = FULL,
        steps: int = 100,
        stall_timeout_s: float = 10.0,
        learn: int = 0,
        profiles: Mapping[str, Mapping[str, ResourceProfile]] | None = None,
    ) -> None:
        self.cycle_s = cycle_s
        self.rounds = rounds
        self.capacity = capacity
        self.steps = steps
        self.learn = learn
        self._profiles = (profiles or {}).get(RESOURCES, {})
        self._stalls = Stalls(stall_timeout_s, patience=None)
        self._locality = Greedy()
        self._known: dict[str, KnownJob] = {}
        self._maps = MeanMap()
        self._cycle: Cycle | None = None
        self._next_s = 0.0
        self._loads = NodeLoads(self._known_or_new)
        self._here: dict[NodeId, list[KnownJob]] = {}  # jobs placed there, lowest utility first
        self._reducing: dict[NodeId, list[KnownJob]] = {}  # those of them with reduces placed there
        self._poorest: list[KnownJob] = []  # the jobs of the last cycle, lowest utility first
        self._mapping: KnownJob | None = None  # one of them, which had a map to start when last looked at
        self.rest_turn = 0  # grows when a node that rests may get a task again
        self._least: dict[tuple[float, ...], Amounts] = {}  # Smallest demand of their maps, by kind of node.

    # Events of jobs

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`."""
        self._known[job.job] = self._know(job)

    def _know(self, job: JobView) -> KnownJob:
        return KnownJob(job, find_profile(self._profiles, job.spec), self.capacity)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job from the current placement."""
        known = self._known.pop(job.job)
        if known in self._poorest:
            self._poorest.remove(known)
        if known is self._mapping:
            self._mapping = None
        self._loads.forget(job.job)
        for name in dict.fromkeys([*known.share.maps, *known.share.reduces]):
            for placed in (self._here, self._reducing):
                if known in placed.get(name, ()):
                    placed[name].remove(known)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add a successful map's time to the mean map times of its job and of all jobs."""
        known = self._known.get(attempt.task.job.job)
        if known is not None and attempt.task.kind is MAP and attempt.state == "succeeded":
            duration_s = took_s(attempt)
            known.maps.add(duration_s)
            self._maps.add(duration_s)
            if known.used is not None and known.used.maps < self.learn:
                known.used.add(attempt, duration_s)

    # Resting nodes

    def stage_ready(self, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.stage_ready`: resume offers to all nodes if the last cycle included the job."""
        known = self._known.get(job.job)
        if known is not None and known in self._poorest:
            self.rest_turn += 1

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return Quiet(rests=self.rests, turn=lambda: self.rest_turn)

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether an offer has no effect: no job can start a task here until the next cycle.

        Demands of reduces change as maps end, so each counts with its smallest.
        """
        name = node.node
        running = self._loads.counts(node)
        for known in self._reducing.get(name, ()):
            job = known.job
            if job.reduces.ready and running.get((job.job, REDUCE), 0) < known.share.reduces[name]:
                return False
        if not self._has_map():
            return True
        for known in self._here.get(name, ()):
            job = known.job
            if job.maps.ready and running.get((job.job, MAP), 0) < known.share.maps.get(name, 1):
                return False
        return not self._takes_least(node, self._loads.least(node))

    def _has_map(self) -> bool:
        """Return whether any job of the last cycle has a map that may start."""
        if self._mapping is None or not self._mapping.job.maps.ready:
            self._mapping = next((known for known in self._poorest if known.job.maps.ready), None)
        return self._mapping is not None

    def _known_or_new(self, job: JobView) -> KnownJob:
        return self._known.get(job.job) or self._know(job)

    # The placement control loop

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: start a control cycle if one is due, and run the cycle's next `steps` steps."""
        if not self._known:
            self._next_s = view.now_s
        if self._cycle is None and self._known and view.now_s >= self._next_s:
            self._next_s = view.now_s + self.cycle_s
            self._cycle = self._begin(view)
        if self._cycle is not None and self._cycle.advance(self.steps):
            self._adopt(self._cycle)
            self._cycle = None

    def _begin(self, view: View) -> Cycle:
        if sum(known.learns(self.learn) for known in self._known.values()):
            self._loads = NodeLoads(self._known_or_new)
            self._least.clear()
        nodes = [node for node in view.nodes.values() if node.alive]
        numbers = {node.node: number for number, node in enumerate(nodes)}
        kinds = {kind_of(node.spec): node.spec for node in nodes}
        places = {kind: place for place, kind in enumerate(kinds)}
        jobs = [
            known.enters(
                view.now_s,
                self.cycle_s,
                self._maps,
                numbers,
                tuple(known.demands(spec) for spec in kinds.values()),
                barred_of(view, known.job, numbers),
            )
            for known in self._known.values()
        ]
        placement = Placement(jobs, [places[kind_of(node.spec)] for node in nodes])
        return Cycle(view.now_s, [node.node for node in nodes], placement, self.rounds)

    def _adopt(self, cycle: Cycle) -> None:
        self._here, self._reducing, self._poorest, self._mapping = {}, {}, [], None
        self.rest_turn += 1
        for job in sorted(cycle.placement.jobs, key=PlacedJob.key):
            known = self._known.get(job.job)
            if known is not None:
                known.share = cycle.share_of(job)
                for node in dict.fromkeys([*known.share.maps, *known.share.reduces]):
                    self._here.setdefault(node, []).append(known)
                for node in known.share.reduces:
                    self._reducing.setdefault(node, []).append(known)
                self._poorest.append(known)
        self._least.clear()

    # The task scheduler

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: return a task placed on the node, else a map for free room, or None."""
        running = self._loads.counts(node)
        used: Amounts | None = None
        for known in (self._here if kind is MAP else self._reducing).get(node.node, ()):
            job = known.job
            if not job.stage(kind).ready:
                continue
            wanted, has = known.share.on(node.node, kind), running.get((job.job, kind), 0)
            waits = self._starved(job)  # Its reduces then wait as well.
            if kind is MAP and waits and job.reduces.running:
                wanted = max(wanted, 1)
            if has >= wanted:
                continue
            if kind is REDUCE and waits:
                view.skip(node, job, kind, "its maps need the room first")
                continue
            if job.excluded and view.avoids(job, node, kind):
                view.skip(node, job, kind, AVOIDED)
                continue
            used = self._taken(node, kind, running) if used is None else used
            lacks = self._lacks(view, node, known, kind, used)
            if lacks is not None:
                view.skip(node, job, kind, f"{lacks}; {known.share.why()}")
                continue
            answer = self._pick(view, node, job, kind)
            if answer is not None:
                why = f"{known.share.why()}, {wanted} here, {has} running"
                return Proposal(answer.task, f"{answer.reason}; {why}; {_percents(used)} used")
        return self._fill(view, node, running, used) if kind is MAP else None

    def _fill(
        self,
        view: View,
        node: NodeView,
        running: Mapping[tuple[str, TaskKind], int],
        used: Amounts | None,
    ) -> Proposal | None:
        """Return an unplanned map in free room, of a job poorer than all that wait for room here, or None."""
        used = self._taken(node, MAP, running) if used is None else used
        if not self._poorest or not self._takes_least(node, used):
            return None
        waiting = (
            known.utility() for known in self._here.get(node.node, ()) if _waits(view, node, known, running)
        )
        least = min(waiting, default=None)
        for known in self._poorest:
            job = known.job
            if not job.maps.ready or (least is not None and known.utility() >= least):
                continue
            if job.excluded and view.avoids(job, node, MAP):
                continue
            if self._lacks(view, node, known, MAP, used) is None:
                answer = self._pick(view, node, job, MAP)
                if answer is not None:
                    why = f"{known.share.why()}, beyond its placement here, in room that is free"
                    return Proposal(answer.task, f"{answer.reason}; {why}; {_percents(used)} used")
        return None

    def _takes_least(self, node: NodeView, used: Amounts) -> bool:
        """Return whether the node has room, besides `used`, for the least CPU, I/O and memory of any map."""
        kind = kind_of(node.spec)
        least = self._least.get(kind)
        if least is None:
            maps = (known.demands(node.spec).map for known in self._poorest)
            self._least[kind] = least = Amounts(*map(min, zip(*maps, strict=True)))
        return max(used.plus(least)) <= _FITS

    def _pick(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> Proposal | None:
        if kind is MAP:
            answer = self._locality.pick(view, node, job)
            return answer if isinstance(answer, Proposal) else None
        task = job.any_reduce()
        return Proposal(task, "reduce") if task is not None else None

    def _taken(self, node: NodeView, kind: TaskKind, running: Mapping[tuple[str, TaskKind], int]) -> Amounts:
        """Return what a new task cannot have: use by tasks and, for a map, by reduces placed but not started."""
        sums = self._loads.used(node)
        for known in self._reducing.get(node.node, ()) if kind is MAP else ():
            job = known.job
            more = known.share.on(node.node, REDUCE) - running.get((job.job, REDUCE), 0)
            if more > 0 and job.reduces.ready and not self._starved(job):
                amounts = demand_of(known, known.demands(node.spec), REDUCE)
                sums = sums.plus(amounts, more)
        return sums

    @staticmethod
    def _starved(job: JobView) -> bool:
        """Return whether reduces must wait: maps are unstarted, and none runs."""
        return job.maps.unstarted > 0 and not job.maps.running

    def _lacks(
        self, view: View, node: NodeView, known: KnownJob, kind: TaskKind, used: Amounts
    ) -> str | None:
        """Return why a task of the job does not fit on the node (equation 6), as text, or None if it fits."""
        wanted = demand_of(known, known.demands(node.spec), kind)
        if kind is MAP:
            fetching = self._more_fetching(known)
            if fetching and not self._takes(view, node, fetching):
                return "its reduces' nodes have no I/O or network left for one more map's output"
            wanted = wanted.plus(fetching.get(node.node, NOTHING))
        for name, has, more in zip(Amounts._fields, used, wanted, strict=True):
            if has + more > _FITS:
                return f"{name}: asks {more:.0f}%, {has:.0f}% of the node is used"
        return None

    def _more_fetching(self, known: KnownJob) -> dict[NodeId, Amounts]:
        """Return what the job's reduces need, on each node, to fetch one more map's output."""
        more: dict[NodeId, Amounts] = {}
        job = known.job
        if known.share.reducing or not job.reduces.running or job.maps.running >= known.copies:
            return more
        for attempt in job.attempts.values():
            if attempt.task.kind is REDUCE:
                fetch = known.demands(attempt.node.spec).shuffle.moving
                more[attempt.node.node] = more.get(attempt.node.node, NOTHING).plus(fetch)
        return more

    def _takes(
        self, view: View, node: NodeView, more: Mapping[NodeId, Amounts], kind: TaskKind | None = None
    ) -> bool:
        others = (view.nodes[name] for name, needs in more.items() if any(needs) and name != node.node)
        return all(max(self._loads.used(each, kind).moving.plus(more[each.node])) <= _FITS for each in others)

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: kill reduces whose jobs' maps found no room for too long."""
        return self._stalls.kills(view, lambda node, job: self._takes_map(view, node, job))

    def _takes_map(self, view: View, node: NodeView, job: JobView) -> bool:
        """Return whether a map of the job would fit on the node if the node's running maps had ended."""
        known = self._known[job.job]
        more = self._more_fetching(known)
        wanted = known.demands(node.spec).map
        wanted = wanted.plus(more.get(node.node, NOTHING))
        fits = max(self._loads.used(node, REDUCE).plus(wanted)) <= _FITS
        return node.alive and fits and self._takes(view, node, more, REDUCE)


def _waits(view: View, node: NodeView, known: KnownJob, running: Mapping[tuple[str, TaskKind], int]) -> bool:
    """Return whether the job has a ready map that was placed on the node and waits only for room there."""
    job = known.job
    return (
        job.maps.ready
        and running.get((job.job, MAP), 0) < known.share.on(node.node, MAP)
        and not (job.excluded and view.avoids(job, node, MAP))
    )


def _percents(used: Amounts) -> str:
    return "CPU {:.0f}%, I/O {:.0f}%, memory {:.0f}%, network {:.0f}%".format(*used)


POLICY = Whole(
    name="ras",
    factory=Ras,
    summary="Tasks are placed by the resources that they use, so that the job that is furthest "
    "behind its goal improves most.",
    paper="polo2011",
    parameters=(
        duration(
            "cycle",
            "10s",
            "time between two plans of the tasks that each node runs; the paper uses tens of seconds",
        ),
        count(
            "rounds", "10", "largest number of rounds in which a plan of tasks and nodes is improved", least=1
        ),
        count("capacity", "100", "part of a node's CPU, disk and network that tasks may use", "%", least=1),
        count(
            "steps",
            "100",
            "number of nodes or jobs that are planned at a time, so that no heartbeat waits long for a plan",
            least=1,
        ),
        profiles(RESOURCES, parse=read_profile),
        count(
            "learn",
            "0",
            "number of a job's first ended maps from which the CPU and disk use of its maps is learned if it has no "
            "profile. With 0, maps use what the job declares",
        ),
        duration(
            "stall_timeout",
            "10s",
            "time that a job's maps wait for room that reduces use, before one of the job's reduces "
            "is killed",
        ),
    ),
    rank=70,
)

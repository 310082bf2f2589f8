"""Random jobs of the workloads W1 (testbed) and W2 (Yahoo!), which are submitted when enough slots are free.

Table 2 has the jobs' numbers and durations of tasks. Section 7.2 describes the submission.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, mean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, lean_setup
from schedbed.deploy.papers.experiment import Values
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario, SimulateChoice
from schedbed.deploy.simulated.isolated import JobEnds
from schedbed.scheduler.core.rows import AttemptRow, JobRow
from schedbed.scheduler.models.aria_bounds import allocate, bounds, curve
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Cost
from schedbed.tasks.workloads.planned import PlannedJob

if TYPE_CHECKING:
    from random import Random

NODES, MAP_SLOTS, REDUCE_SLOTS = 64, 256, 256
"""The testbed (4.1): 64 workers with four map slots and four reduce slots each."""

W1_REDUCES = REDUCE_SLOTS
"""The paper does not give W1's number of reduces. Its jobs in 2.1 and 5.2 have as many as there are reduce slots."""

BOUND = "up"
"""The bound of the completion time from which slots are computed. The paper does not say which one Table 3 uses."""

W1_VARIATION = 0.15
"""Standard deviation of a W1 task's duration over its mean; Table 1's minima and maxima are of that order."""

APPS = ("bayes", "sort", "tfidf", "twitter", "wikitrends", "wordcount")
LEAST_S = 1.0  # the least duration of a task, since normal distributions also give less


@dataclass(frozen=True, slots=True, kw_only=True)
class DueJob:
    """A random job: the seconds for which each task holds a slot, and the deadline in s after the submission.

    `asks` are the least numbers of map slots and reduce slots with which the job meets its deadline,
    according to the policy ARIA's model.
    """

    name: str
    maps_s: tuple[float, ...]
    reduces_s: tuple[float, ...]
    deadline_s: float
    asks: tuple[int, int]  # least map and reduce slots for the deadline
    profile: JobProfile

    @property
    def load(self) -> float:
        """Return the load of the job: the sum of the shares of map and reduce slots that it needs.

        With the slots in `asks` the job just meets its deadline.
        """
        return load(*self.asks)


def load(maps: int, reduces: int) -> float:
    """Return the load: the share of map slots in use plus the share of reduce slots in use (section 7.2).

    The load of a full cluster is 2.
    """
    return maps / MAP_SLOTS + reduces / REDUCE_SLOTS


Draw = Callable[["Random", Values], tuple[str, list[float], list[float]]]


def testbed_job(coin: Random, said: Values) -> tuple[str, list[float], list[float]]:
    """Return a random job of W1: the application's name, and the durations of its maps and reduces in s.

    `coin` is the random generator, and `said` are the values of Table 2.
    """
    app = coin.choice(APPS)
    maps = coin.choice(said[f"{app}_maps"].numbers)
    map_s, reduce_s = said[f"{app}_map_s"].number, said[f"{app}_reduce_s"].number
    draw = [
        _durations(coin, count, middle_s, middle_s * W1_VARIATION)
        for count, middle_s in ((int(maps), map_s), (W1_REDUCES, reduce_s))
    ]
    return app, draw[0], draw[1]


def yahoo_job(coin: Random, said: Values) -> tuple[str, list[float], list[float]]:
    """Return a random job of W2: the name `yahoo`, and the durations of its maps and reduces in s.

    `coin` is the random generator, and `said` are the values of Table 2. The printed normal distributions
    often give numbers of tasks below 1, which are drawn again.
    """
    sizes = [_at_least_one(coin, *said[f"yahoo_{kind}"].numbers) for kind in ("maps", "reduces")]
    map_s, reduce_s = said["yahoo_map_s"].numbers, said["yahoo_reduce_s"].numbers
    return "yahoo", _durations(coin, sizes[0], *map_s), _durations(coin, sizes[1], *reduce_s)


WORKLOADS: dict[str, Draw] = {"W1": testbed_job, "W2": yahoo_job}


def seeds_of(bench: Bench, name: str) -> list[int]:
    """Return the seed for the random jobs of each repeat, in the experiment or table `name`."""
    return [chance(bench.seed, name, repeat).getrandbits(62) for repeat in range(bench.repeats)]


def table2() -> Values:
    """Return the paper's values of Table 2."""
    return paper_file.load("verma2011").experiments["table2"].values


def workload(name: str, jobs: int, threshold: float, seed: int, bound: str = BOUND) -> list[DueJob]:
    """Return random jobs of the workload `name`, each with a deadline uniform between T and 3 T.

    T is the job's time with all slots of the cluster. If the slots needed for a deadline exceed the load
    `threshold`, the deadline is drawn again, since the job could never be submitted. `bound` is the bound of
    the completion time from which the slots are computed.
    """
    drawn: list[DueJob] = []
    for number in range(jobs):
        coin = chance(seed, name, number)
        app, maps_s, reduces_s = WORKLOADS[name](coin, table2())
        drawn.append(_due(coin, f"{app}x{number}", maps_s, reduces_s, threshold, bound))
    return drawn


def _due(
    coin: Random, name: str, maps_s: list[float], reduces_s: list[float], threshold: float, bound: str
) -> DueJob:
    profile = _profile(maps_s, reduces_s)
    maps, reduces = len(maps_s), len(reduces_s)
    alone_s = bounds(profile, maps, reduces, min(MAP_SLOTS, maps), min(REDUCE_SLOTS, reduces)).avg_s
    model = curve(profile, maps, reduces, bound)
    while True:  # The loop ends: with three times the time alone, less than half of all slots is enough.
        deadline_s = alone_s * coin.uniform(1, 3)
        slots = allocate(model, deadline_s, min(MAP_SLOTS, maps), min(REDUCE_SLOTS, reduces))
        job = DueJob(
            name=name,
            maps_s=tuple(maps_s),
            reduces_s=tuple(reduces_s),
            deadline_s=deadline_s,
            asks=(slots.maps, slots.reduces),
            profile=profile,
        )
        if job.load <= threshold:
            return job


def with_profile(job: DueJob, profile: JobProfile) -> DueJob:
    """Return the job with another profile, and the slots that it needs by this profile."""
    maps, reduces = len(job.maps_s), len(job.reduces_s)
    model = curve(profile, maps, reduces, BOUND)
    slots = allocate(model, job.deadline_s, min(MAP_SLOTS, maps), min(REDUCE_SLOTS, reduces))
    return replace(job, profile=profile, asks=(slots.maps, slots.reduces))


def _profile(maps_s: list[float], reduces_s: list[float]) -> JobProfile:
    """Return the profile of a job with these task durations in s.

    The profile has no shuffle phase, since Table 2's durations of reduces include the shuffle.
    """
    return JobProfile(
        map=Times(mean(maps_s), max(maps_s)),
        map_min_s=min(maps_s),
        reduce=Times(mean(reduces_s), max(reduces_s)),
    )


def _durations(coin: Random, count: int, middle_s: float, spread_s: float) -> list[float]:
    return [max(LEAST_S, coin.gauss(middle_s, spread_s)) for _ in range(count)]


def _at_least_one(coin: Random, middle: float, spread: float) -> int:
    while (drawn := round(coin.gauss(middle, spread))) < 1:
        pass
    return drawn


# The simulation of jobs that are submitted when enough slots are free.

USER = "verma"
SLOTS = MAP_SLOTS + REDUCE_SLOTS
TESTBED: dict[str, Any] = {
    "nodes": NODES,
    "racks": 2,
    "heartbeat": "3s",
    "node": {"cores": 8, "core_speed": 1.0, "memory": "8GiB", "map_slots": 4, "reduce_slots": 4},
}
"""A core for each slot: Table 2's durations are what tasks took with four cores and eight slots."""

SLOTS_ALONE: dict[str, Any] = {
    "nodes": 4,
    "heartbeat": "3s",
    "node": {
        "cores": SLOTS // 4,
        "core_speed": 1.0,
        "memory": "128GiB",
        "map_slots": MAP_SLOTS // 4,
        "reduce_slots": REDUCE_SLOTS // 4,
    },
}
"""The slots of the testbed on few nodes: the paper's simulator has slots and no nodes (7.2). A slot that is free is
offered at once by the node's next report instead of one node's of 64, and a run takes half the time."""

ALL_MAPS = "all_maps"
"""When reduces start in the paper's simulator: once the maps of their job are done (7.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A simulation's jobs (submission, end, deadline), mean share of busy slots, and slots held by kind."""

    jobs: tuple[tuple[float, float, float], ...]
    load: float
    attempts: Mapping[str, list[tuple[float, float]]]  # by kind, start and end of each attempt's slot

    @property
    def late(self) -> int:
        """Return the number of late jobs."""
        return sum(finish > deadline for _, finish, deadline in self.jobs)

    @property
    def exceeded(self) -> float:
        """Return the sum over late jobs of (T - D) / D, completion time and deadline: the paper's utility."""
        return sum((f - d) / (d - s) for s, f, d in self.jobs if f > d)

    @property
    def reserve(self) -> float:
        """Return by what share of its deadline a job ended early, on average."""
        return fmean((d - f) / (d - s) for s, f, d in self.jobs)


def scenario(
    jobs: Sequence[DueJob], seed: int, reduce_start: str = ALL_MAPS, bound: str = BOUND
) -> ResolvedScenario:
    """Return a scenario of jobs under ARIA, which knows their profiles, on the testbed's slots.

    `simulate_jobs` sets submit times. `reduce_start` is `all_maps` or `first_map`; `bound` is that of the
    completion time for the slots.
    """
    return with_durations(under_aria(jobs, seed, SLOTS_ALONE, 1.0, reduce_start, bound), jobs)


def with_durations(bare: ResolvedScenario, jobs: Sequence[DueJob]) -> ResolvedScenario:
    """Return the scenario of `under_aria` with the jobs in place of its model, submitted at 0."""
    (model,) = bare.jobs
    planned = [
        replace(
            planned_job(model, number, job, 0.0),
            map_costs=tuple(Cost(duration_s=each) for each in job.maps_s),
            reduce_costs=tuple(Cost(duration_s=each) for each in job.reduces_s),
        )
        for number, job in enumerate(jobs, 1)
    ]
    return replace(bare, jobs=tuple(planned), simulate=SimulateChoice(costs="trace", contention=False))


def under_aria(
    jobs: Sequence[DueJob],
    seed: int,
    cluster: Mapping[str, Any],
    scale: float,
    reduce_start: str = "first_map",
    bound: str = BOUND,
    spare: str = "none",
) -> ResolvedScenario:
    """Return a scenario under ARIA, which knows the jobs' profiles, with a model for `planned_job`."""
    profiles = {f"{USER}/{job.name}": job.profile.to_json() for job in jobs}
    aria = {"spare": spare, "bound": bound, "reduce_start": reduce_start, "profiles": profiles}
    return resolve(
        {
            "name": "verma2011-slo",
            "seed": seed,
            "scale": scale,
            "cluster": cluster,
            "workload": {"jobs": [{"app": "synthetic", "user": USER}]},
            "policies": [{"aria": aria}],
            "profiles": {"store": "none"},
        }
    )


def planned_job(model: PlannedJob, number: int, job: DueJob, submit_s: float) -> PlannedJob:
    """Return the model with a job's name, tasks and deadline, as `job_0001` and so on."""
    return replace(
        model,
        job=f"job_{number:04d}",
        name=job.name,
        maps=len(job.maps_s),
        reduces=len(job.reduces_s),
        submit_s=submit_s,
        deadline_s=submit_s + job.deadline_s,
    )


def simulate_jobs(
    jobs: Sequence[DueJob], threshold: float, seed: int, reduce_start: str = ALL_MAPS, bound: str = BOUND
) -> Outcome:
    """Simulate the jobs in order, each submitted when its load with that of running jobs is within
    `threshold`.

    A load is the sum of the shares of map and reduce slots. See `scenario` for the other arguments. No tables
    are written, to save time.
    """
    resolved = scenario(jobs, seed, reduce_start, bound)
    rows = RowsKept()
    _ByLoad(lean_setup(resolved, resolved.policies[0]), rows, jobs, threshold).run()
    began_s, ended_s = min(job[0] for job in rows.jobs), max(job[1] for job in rows.jobs)
    busy_s = sum(end - began for each in rows.attempts.values() for began, end in each)
    load = busy_s / (SLOTS * (ended_s - began_s))
    return Outcome(jobs=tuple(rows.jobs), load=load, attempts=rows.attempts)


class _ByLoad(Simulation):
    """Submits the next job when enough slots for its deadline are free, checked once per heartbeat interval."""

    def __init__(self, setup: Setup, rows: RowsKept, jobs: Sequence[DueJob], threshold: float) -> None:
        self._due_jobs, self._threshold = deque(jobs), threshold
        super().__init__(setup, rows)

    def submit_due(self, now_s: float) -> None:
        """Submit waiting jobs while the load stays below the threshold, whatever their submit times."""
        running = self.master.ledger.jobs.values()
        now = load(sum(job.maps.running for job in running), sum(job.reduces.running for job in running))
        waiting = self.master.waiting
        while waiting and now + self._due_jobs[0].load <= self._threshold * (1 + 1e-9):
            wanted = self._due_jobs.popleft()
            now += wanted.load
            due_s = now_s + wanted.deadline_s
            self.master.do(now_s, "submit", replace(waiting[0], submit_s=now_s, deadline_s=due_s))
        self.due_s = now_s + self.interval_s if waiting else inf


class RowsKept(JobEnds):
    """Keeps only the times of jobs and attempts, for an `Outcome`."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[float, float, float]] = []
        self.attempts: dict[str, list[tuple[float, float]]] = {"map": [], "reduce": []}

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`: keep the job's times. Raises ValueError if the job did not succeed."""
        if row.state != "succeeded" or row.finish is None or row.deadline is None:
            raise ValueError(f"{row.job} {row.state}")
        self.jobs.append((row.submit, row.finish, row.deadline))

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink.attempt`: keep when the attempt held its slot."""
        self.attempts[row.kind].append((row.assigned, row.end))

"""Random jobs of the workloads W1 (testbed) and W2 (Yahoo!) in Table 2, with profiles and deadlines.

A profile contains the durations of a job's phases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Values
from schedbed.scheduler.models.aria_bounds import allocate, bounds, curve
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.tasks.chance import chance

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


def testbed_job(
    coin: Random, said: Values, reduces: int = W1_REDUCES
) -> tuple[str, list[float], list[float]]:
    """Return a random job of W1: the application's name, and the durations of its maps and reduces in s.

    `coin` is the random generator, and `said` are the values of Table 2. `reduces` is the number of reduces
    of each job.
    """
    app = coin.choice(APPS)
    maps = coin.choice(said[f"{app}_maps"].numbers)
    map_s, reduce_s = said[f"{app}_map_s"].number, said[f"{app}_reduce_s"].number
    draw = [
        _durations(coin, count, middle_s, middle_s * W1_VARIATION)
        for count, middle_s in ((int(maps), map_s), (reduces, reduce_s))
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


def workload(
    name: str, jobs: int, threshold: float, seed: int, bound: str = BOUND, draw: Draw | None = None
) -> list[DueJob]:
    """Return random jobs of the workload `name`, each with a deadline uniform between T and 3 T.

    T is the job's time with all slots of the cluster. If the slots needed for a deadline exceed the load
    `threshold`, the deadline is drawn again, since the job could never be submitted. `bound` is the bound of
    the completion time from which the slots are computed. `draw` replaces the generator of the workload's
    jobs.
    """
    drawn: list[DueJob] = []
    for number in range(jobs):
        coin = chance(seed, name, number)
        app, maps_s, reduces_s = (draw or WORKLOADS[name])(coin, table2())
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

"""Random jobs of the workloads W1 (testbed) and W2 (Yahoo!) in Table 2, with profiles and deadlines.

A profile contains the durations of a job's phases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean, mean, pstdev
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.verdict import Exact
from schedbed.scheduler.models.aria_bounds import allocate, bounds, curve
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.tasks.chance import chance

if TYPE_CHECKING:
    from random import Random

    from matplotlib.figure import Figure

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


def seed_of(seed: int, repeat: int) -> int:
    """Return the seed for the jobs of Table 3 in a repeat, if `seed` is the seed of all repeats."""
    return chance(seed, "table3", repeat).getrandbits(62)


def workload(
    name: str,
    said: Values,
    jobs: int,
    threshold: float,
    seed: int,
    bound: str = BOUND,
    draw: Draw | None = None,
) -> list[DueJob]:
    """Return random jobs of the workload `name`, each with a deadline uniform between T and 3 T.

    T is the job's time with all slots of the cluster. If the slots needed for a deadline exceed the load
    `threshold`, the deadline is drawn again, since the job could never be submitted. `said` are the values of
    Table 2. `bound` is the bound of the completion time from which the slots are computed. `draw` replaces
    the generator of the workload's jobs.
    """
    drawn: list[DueJob] = []
    for number in range(jobs):
        coin = chance(seed, name, number)
        app, maps_s, reduces_s = (draw or WORKLOADS[name])(coin, said)
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


# Table 2: the numbers and durations of tasks of the jobs that are drawn for the workloads W1 and W2.

JOBS = 400  # jobs of each workload in a repeat


def measure(bench: Bench) -> Measured:
    """Draw many jobs of both workloads, and measure their numbers of tasks and the durations of tasks."""
    said = paper_file.load("verma2011").experiments["table2"].values
    sizes: dict[str, set[int]] = defaultdict(set)
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        means: dict[str, list[float]] = defaultdict(list)
        for number in range(JOBS):
            app, maps_s, reduces_s = testbed_job(chance(bench.seed, "W1", repeat, number), said)
            sizes[app].add(len(maps_s))
            means[f"{app}_map_s"].append(fmean(maps_s))
            means[f"{app}_reduce_s"].append(fmean(reduces_s))
        for key, each in means.items():
            found[key].append(fmean(each))
    counts = {f"{app}_maps": Exact(value=_like(said, app, sizes[app])) for app in APPS}
    return Measured(
        values={**counts, **found, **_yahoo(bench, said)},
        notes=[
            "W2's numbers of tasks are normal distributions that are often negative; those are drawn again, so that "
            "means are larger and deviations smaller than printed."
        ],
    )


def _like(said: Values, app: str, drawn: set[int]) -> tuple[float, ...]:
    """Return the numbers in the set `drawn`, ordered such that the numbers that the paper prints come first.

    `drawn` has the different numbers of maps of the drawn jobs of the application `app`. `said` are the
    values of Table 2. The printed numbers are in the paper's order, and all others in ascending order.
    """
    order = said[f"{app}_maps"].numbers
    return (*(size for size in order if size in drawn), *sorted(drawn.difference(order)))


def _yahoo(bench: Bench, said: Values) -> dict[str, Exact]:
    """Return means and standard deviations of W2's numbers of tasks and durations of tasks, over all repeats.

    W2 is the workload with Yahoo!'s distributions.
    """
    jobs = [yahoo_job(chance(bench.seed, "W2", n), said) for n in range(JOBS * bench.repeats)]
    drawn: Mapping[str, list[float]] = {
        "yahoo_maps": [len(maps_s) for _, maps_s, _ in jobs],
        "yahoo_reduces": [len(reduces_s) for _, _, reduces_s in jobs],
        "yahoo_map_s": [each for _, maps_s, _ in jobs for each in maps_s],
        "yahoo_reduce_s": [each for _, _, reduces_s in jobs for each in reduces_s],
    }
    return {key: Exact(value=(fmean(each), pstdev(each))) for key, each in drawn.items()}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean durations of maps and reduces for each application of the workload W1."""
    axes = figure.subplots(1, 2)
    for ax, kind in zip(axes, ("map", "reduce"), strict=True):
        keys = [f"{app}_{kind}_s" for app in APPS]
        ours = [fmean(measured.samples(key)) for key in keys]
        printed = [said[key].number for key in keys]
        grouped_bars(ax, APPS, [("paper", PAPER, printed), ("ours", OURS, ours)])
        ax.set(ylabel=f"mean {kind} task [s]")
        ax.tick_params(axis="x", rotation=40)


EXPERIMENT = Experiment(
    name="table2", measure=measure, draw=draw, takes_s={"sim": 6, "process": 3}, repeats=5
)

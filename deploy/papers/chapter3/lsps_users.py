"""The policy LsPS, compared with FIFO and Fair for users with different job sizes and for a single user.

LsPS gives more slots to users with small jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3.runs import Job, gains, job, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.workloads.drawn import heavy_tailed

FIFO, FAIR, LSPS = "fifo", "fair", "lsps"
MAP_S = 10.0
SPAN_S = 400.0
MEAN = ("completion_s", "mean")


def two_users(coin: Coin, seed: int) -> list[Job]:
    """Return 24 small jobs of one user and 6 large jobs of another, submitted at random times."""
    small = [job("small", "many", coin.uniform(0, SPAN_S), (coin.randint(1, 8), MAP_S)) for _ in range(24)]
    large = [job("large", "few", coin.uniform(0, SPAN_S), (coin.randint(40, 100), MAP_S)) for _ in range(6)]
    return small + large


def alike(coin: Coin, seed: int) -> list[Job]:
    """Return 16 jobs of one user with 32 maps each, submitted at random times."""
    return [job("alike", "one", coin.uniform(0, SPAN_S), (32, MAP_S)) for _ in range(16)]


def uneven(coin: Coin, seed: int) -> list[Job]:
    """Return 40 jobs of one user. Their sizes follow a bounded Pareto law, so most of them are small."""
    sizes = heavy_tailed(40, 1.0, 4, 100, seed)
    return [job("uneven", "one", coin.uniform(0, SPAN_S), (round(size), MAP_S)) for size in sizes]


def scenario(seed: int, *, jobs: Callable[[Coin, int], list[Job]]) -> Mapping[str, Any]:
    """Return a scenario with eight nodes of two map slots each, under the policies LsPS, FIFO and Fair.

    The function `jobs` draws the jobs, which keep about 80% of the map slots busy.
    """
    drawn = jobs(chance(seed, "chapter3 lsps", jobs.__name__), seed)
    return {
        "cluster": nodes(8, 2, 1),
        "workload": {"jobs": sorted(drawn, key=lambda each: float(each["submit"][:-1]))},
        "policies": [FIFO, FAIR, LSPS],
    }


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy LsPS reduces the mean completion time against FIFO and Fair."""
    found: dict[str, list[float]] = {}
    for name, jobs in (("users", two_users), ("alike", alike), ("uneven", uneven)):
        runs = run_each(bench, f"lsps-{name}", partial(scenario, jobs=jobs))
        found[f"{name}_fifo"] = gains(runs, LSPS, FIFO, *MEAN)
        found[f"{name}_fair"] = gains(runs, LSPS, FAIR, *MEAN)
        if name == "users":
            found["small"] = gains(runs, LSPS, FAIR, "completion_s", "per_user", "many", "mean")
            found["large"] = gains(runs, LSPS, FAIR, "completion_s", "per_user", "few", "mean")
        else:
            found[f"{name}_fifo_fair"] = gains(runs, FIFO, FAIR, *MEAN)
    return Measured(values=found)


EXPERIMENT = Experiment(name="lsps", measure=measure, draw=draw_values, takes_s={"sim": 55}, repeats=10)

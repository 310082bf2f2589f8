"""The policy MIMP on dedicated nodes and on nodes shared with other work: task times and late jobs.

MIMP prefers jobs that may miss their deadlines, and runs other jobs where the other work slows them least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import EDF, Job, job, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.tasks.chance import chance

MIMP, FIFO, FAIR = "mimp", "fifo", "fair"
OTHERS = {"fifo": FIFO, "fair": FAIR, "edf": EDF}
"""The policies that MIMP is compared with, by the ends of the values' names."""

JOBS = 12
APART_S = {"": 90.0, "busy_": 60.0}  # mean gap between jobs
FACTORS = (1.5, 4.0)  # deadlines as multiples of a job's time alone on the cluster
SHARED = [
    {"at": "0s", "cpu": 0.7},
    {"at": "300s", "cpu": 0.4},
]  # the share of a shared node's CPU that foreground work takes


def jobs(seed: int, apart_s: float, factors: tuple[float, float] = FACTORS) -> list[Job]:
    """Return random CPU-bound and I/O-bound jobs with deadlines, submitted at random times.

    Gaps between submissions are exponentially distributed with the mean `apart_s` seconds. A deadline is the
    job's time alone on the cluster, multiplied by a random factor between the two numbers in `factors`.
    """
    coin, now_s, made = chance(seed, "chapter3 mimp"), 0.0, []
    for _ in range(JOBS):
        kind, maps = coin.choice(("compute", "read")), coin.randint(16, 64)
        map_s = 20.0 if kind == "compute" else 8.0
        due = f"{(maps / 12 * map_s + 10) * coin.uniform(*factors):.3f}s"
        each = job(kind, kind, now_s, (maps, 20.0 if kind == "compute" else 2.0), deadline=due)
        if kind == "read":
            each["map"] |= {"read": "128MB", "write": "64MB"}
        made.append(each)
        now_s += coin.expovariate(1 / apart_s)
    return made


def scenario(seed: int, *, apart_s: float, factors: tuple[float, float] = FACTORS) -> Mapping[str, Any]:
    """Return a scenario with six nodes of two map slots each. Three of the nodes also run other work.

    `apart_s` is the mean gap between submissions in s. A deadline is the time that a job takes alone on the
    cluster, multiplied by a random number between the two numbers in `factors`.
    """
    return {
        "cluster": {**nodes(1, 2, 1), "nodes": [{"count": 3}, {"count": 3, "foreground": SHARED}]},
        "workload": {"jobs": jobs(seed, apart_s, factors)},
        "policies": [FIFO, FAIR, EDF, MIMP],
    }


def task_time_s(finished: FinishedRun, policy: str) -> float:
    """Return the sum of the durations of all successful attempts under the policy, in s."""
    tasks = finished.of(policy).attempts
    tasks = tasks[tasks["state"] == "succeeded"]
    return float((tasks["end"] - tasks["assigned"]).sum())


def late(runs: Sequence[FinishedRun], policy: str, grace_s: float = 0.0) -> list[float]:
    """Return the number of jobs that ended more than `grace_s` s after their deadlines, for each repeat."""
    jobs = [finished.of(policy).jobs for finished in runs]
    return [float((each["finish"] > each["deadline"] + grace_s).sum()) for each in jobs]


def late_avoided(runs: Sequence[FinishedRun], grace_s: float = 0.0) -> dict[str, list[float]]:
    """Return the numbers of late jobs that MIMP avoids against FIFO, Fair and EDF, one number per repeat.

    The names begin with `late_`. A job is late if it ended more than `grace_s` s after its deadline.
    """
    mine = late(runs, MIMP, grace_s)
    return {
        f"late_{name}": [many - few for many, few in zip(late(runs, than, grace_s), mine, strict=True)]
        for name, than in OTHERS.items()
    }


def gains_of_mimp(runs: Sequence[FinishedRun]) -> dict[str, list[float]]:
    """Return the gains of the policy MIMP over FIFO, Fair and EDF (earliest deadline first).

    The result is a dictionary from name to one number per repeat. Values whose names start with `time_` are
    reductions of the total task time in percent. Values whose names start with `late_` are the numbers of
    late jobs that MIMP avoids.
    """
    times = {
        f"time_{name}": [
            100 * (1 - task_time_s(finished, MIMP) / task_time_s(finished, than)) for finished in runs
        ]
        for name, than in OTHERS.items()
    }
    return times | late_avoided(runs)


def run_at(bench: Bench, apart_s: float) -> list[FinishedRun]:
    """Run the jobs with a job every `apart_s` seconds on average, and return one run per repeat."""
    return run_each(bench, f"mimp-{apart_s:g}", partial(scenario, apart_s=apart_s))


def on_shared(finished: FinishedRun, policy: str) -> float:
    """Return the percentage of maps of CPU-bound jobs that ran on a node that also runs other work."""
    tables = finished.of(policy)
    names = tables.jobs.set_index("job")["name"]
    maps = tables.attempts[(tables.attempts["kind"] == "map") & (tables.attempts["state"] == "succeeded")]
    mine = maps[maps["job"].map(names).str.startswith("compute")]
    return 100 * float(mine["node"].isin(("n4", "n5", "n6")).mean())


def measure(bench: Bench) -> Measured:
    """Measure total task times and numbers of late jobs under MIMP and other policies.

    Both are measured for two loads, which differ in the gaps between submissions.
    """
    found: dict[str, list[float]] = {}
    for load, apart_s in APART_S.items():
        runs = run_at(bench, apart_s)
        found[f"{load}late"] = late(runs, MIMP)
        found |= {f"{load}{name}": gain for name, gain in gains_of_mimp(runs).items()}
        found[f"{load}shared"] = [on_shared(finished, MIMP) for finished in runs]
        found[f"{load}shared_fifo"] = [on_shared(finished, FIFO) for finished in runs]
    return Measured(values=found)


EXPERIMENT = Experiment(name="mimp", measure=measure, draw=draw_values, takes_s={"sim": 45}, repeats=10)

"""Policies for jobs with deadlines: PD, MRCP and MIMP, compared with earliest deadline first (EDF) and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import (
    EDF,
    FAIR,
    FIFO,
    Job,
    fewer,
    figures_of,
    job,
    nodes,
    on_nodes,
    reviewed,
    run_each,
)
from schedbed.deploy.papers.experiment import FEW_REPEATS, Measured, minus, percent_less
from schedbed.deploy.papers.verdict import Exact
from schedbed.scheduler.order.pd import slots_lacking
from schedbed.tasks.chance import chance

# The policy MRCP, compared with EDF on a stream of jobs with deadlines. MRCP computes a schedule of all known
# tasks so that few jobs are late.

MRCP = "mrcp"
STREAMED = 20  # jobs of a stream
LOADS = (0.7, 0.9)  # busy share of the map slots
NODES, MAP_SLOTS, REDUCE_SLOTS = 10, 20, 10
MAPS_S = (5.0, 10.0, 20.0, 30.0, 40.0)  # one per class of jobs
MAPS, REDUCES = (5, 60), (1, 10)
STREAM_S = 200.0  # start of the stream, after a small job of each class for its task times
ALONE = 50.0  # factor on the gaps, so that each job runs alone
LEEWAY = (1.0, 3.0)  # deadlines as multiples of a job's time alone


def stream_jobs(seed: int, load: float, apart: float = 1.0) -> list[Job]:
    """Return a random stream of jobs of five classes. One small job of each class is submitted first.

    A class consists of the jobs whose tasks have the same duration. The gaps between jobs are such that the
    jobs keep the share `load` of the map slots busy. `apart` multiplies the gaps.
    """
    coin, now_s, made = chance(seed, "chapter3 mrcp", load), STREAM_S, []
    mean_s = sum(MAPS_S) / len(MAPS_S) * sum(MAPS) / 2  # map slot seconds of a mean job
    for _ in range(STREAMED):
        map_s, maps, reduces = coin.choice(MAPS_S), coin.randint(*MAPS), coin.randint(*REDUCES)
        alone_s = ceil(maps / MAP_SLOTS) * map_s + ceil(reduces / REDUCE_SLOTS) * map_s + 3
        due = f"{alone_s * coin.uniform(*LEEWAY):.3f}s"
        made.append(job(_class(map_s), "user", now_s, (maps, map_s), (reduces, map_s), deadline=due))
        now_s += apart * coin.expovariate(load * MAP_SLOTS / mean_s)
    return [job(_class(map_s), "user", 0, (1, map_s), (1, map_s)) for map_s in MAPS_S] + made


def _class(map_s: float) -> str:
    return f"class{map_s:g}"


def stream(
    seed: int, *, load: float, apart: float = 1.0, policies: Sequence[str] = (FIFO, EDF, MRCP)
) -> Mapping[str, Any]:
    """Return a scenario with ten nodes of two map slots and one reduce slot each.

    The jobs keep the share `load` of the map slots busy, if `apart`, a factor on the gaps between jobs, is 1.
    """
    return {
        "cluster": nodes(NODES, 2, 1),
        "workload": {"jobs": stream_jobs(seed, load, apart)},
        "policies": list(policies),
    }


def late_of_all(runs: list[list[FinishedRun]], policy: str) -> list[float]:
    """Return the percentage of all jobs that were late under the policy, one number per repeat.

    `runs` has a list of runs (one per repeat) for each load.
    """
    counts = [figures_of(loads, policy, "deadlines", "late") for loads in runs]
    return [100 * sum(each) / (STREAMED * len(each)) for each in zip(*counts, strict=True)]


def mrcp(bench: Bench) -> Measured:
    """Measure the percentage of late jobs over all loads in each repeat.

    The policies are MRCP, EDF (earliest deadline first) and FIFO.
    """
    runs = [run_each(bench, f"mrcp-{load:g}", partial(stream, load=load)) for load in LOADS]
    lone = [
        run_each(bench, f"mrcp-{load:g}-apart", partial(stream, load=load, apart=ALONE, policies=[EDF]))
        for load in LOADS
    ]
    mine, edf, fifo = (late_of_all(runs, policy) for policy in (MRCP, EDF, FIFO))
    return Measured(
        values={
            "late": mine,
            "late_edf": edf,
            "late_fifo": fifo,
            "late_alone": late_of_all(lone, EDF),
            "fewer": list(map(fewer, mine, edf)),
        }
    )


# The policy PD on the same streams, which computes from a job's own ended tasks how many slots it lacks for its
# deadline (equation 6).

PD = "pd"
OTHERS = {"fifo": FIFO, "fair": FAIR, "edf": EDF}
"""The policies that PD and MIMP are compared with, by the ends of the values' names."""


def performance_driven(bench: Bench) -> Measured:
    """Measure how many more deadlines are met under PD than under others, and what equation 6 depends on."""
    policies = (PD, *OTHERS.values())
    runs = [run_each(bench, f"pd-{load:g}", partial(stream, load=load, policies=policies)) for load in LOADS]
    late_pd = late_of_all(runs, PD)
    more = {f"more_{name}": minus(late_of_all(runs, than), late_pd) for name, than in OTHERS.items()}
    return Measured(values={"met": [100 - each for each in late_pd], **more, **more_slots()})


def more_slots() -> dict[str, Exact]:
    """Return how many slots equation 6 adds in each of the thesis's three cases, for a job of 10 s a task.

    Four tasks run and have 5 s left each, 20 are unstarted, and the deadline is in 100 s.
    """
    cases = {
        "longer": (10.0, 4 * 8.0, 20, 4, 100.0),
        "unstarted": (10.0, 4 * 5.0, 30, 4, 100.0),
        "nearer": (10.0, 4 * 5.0, 20, 4, 50.0),
    }
    before = slots_lacking(10.0, 4 * 5.0, 20, 4, 100.0)
    return {name: Exact(value=slots_lacking(*case) - before) for name, case in cases.items()}


# The policy MIMP on dedicated nodes and on nodes shared with other work: task times and late jobs. MIMP prefers
# jobs that may miss their deadlines, and runs other jobs where the other work slows them least.

MIMP = "mimp"
JOBS = 12
APART_S = 90.0  # mean gap between jobs
FACTORS = (1.5, 4.0)  # deadlines as multiples of a job's time alone on the cluster
SHARED = [
    {"at": "0s", "cpu": 0.7},
    {"at": "300s", "cpu": 0.4},
]  # the share of a shared node's CPU that foreground work takes


def drawn_jobs(seed: int) -> list[Job]:
    """Return random CPU-bound and I/O-bound jobs with deadlines, submitted at random times.

    Gaps between submissions are exponentially distributed. A deadline is the job's time alone on the cluster,
    multiplied by a random factor.
    """
    coin, now_s, made = chance(seed, "chapter3 mimp"), 0.0, []
    for _ in range(JOBS):
        kind, maps = coin.choice(("compute", "read")), coin.randint(16, 64)
        map_s = 20.0 if kind == "compute" else 8.0
        due = f"{(maps / 12 * map_s + 10) * coin.uniform(*FACTORS):.3f}s"
        each = job(kind, kind, now_s, (maps, 20.0 if kind == "compute" else 2.0), deadline=due)
        if kind == "read":
            each["map"] |= {"read": "128MB", "write": "64MB"}
        made.append(each)
        now_s += coin.expovariate(1 / APART_S)
    return made


def shared_nodes(seed: int) -> Mapping[str, Any]:
    """Return a scenario with six nodes of two map slots each. Three of the nodes also run other work."""
    return {
        "cluster": {**nodes(1, 2, 1), "nodes": [{"count": 3}, {"count": 3, "foreground": SHARED}]},
        "workload": {"jobs": drawn_jobs(seed)},
        "policies": [FIFO, FAIR, EDF, MIMP],
    }


def task_time_s(finished: FinishedRun, policy: str) -> float:
    """Return the sum of the durations of all successful attempts under the policy, in s."""
    tasks = finished.of(policy).attempts
    tasks = tasks[tasks["state"] == "succeeded"]
    return float((tasks["end"] - tasks["assigned"]).sum())


def late(runs: Sequence[FinishedRun], policy: str) -> list[float]:
    """Return the number of jobs that ended after their deadlines, for each repeat."""
    jobs = [finished.of(policy).jobs for finished in runs]
    return [float((each["finish"] > each["deadline"]).sum()) for each in jobs]


def late_avoided(runs: Sequence[FinishedRun]) -> dict[str, list[float]]:
    """Return the numbers of late jobs that MIMP avoids against FIFO, Fair and EDF, one number per repeat."""
    mine = late(runs, MIMP)
    return {f"late_{name}": minus(late(runs, than), mine) for name, than in OTHERS.items()}


def gains_of_mimp(runs: Sequence[FinishedRun]) -> dict[str, list[float]]:
    """Return the gains of the policy MIMP over FIFO, Fair and EDF (earliest deadline first).

    The result is a dictionary from name to one number per repeat. Values whose names start with `time_` are
    reductions of the total task time in percent. Values whose names start with `late_` are the numbers of
    late jobs that MIMP avoids.
    """
    times = {
        f"time_{name}": [
            percent_less(task_time_s(finished, MIMP), task_time_s(finished, than)) for finished in runs
        ]
        for name, than in OTHERS.items()
    }
    return times | late_avoided(runs)


def _on_shared(runs: Sequence[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of the CPU-bound jobs' maps that ran on a node with other work, for each run."""
    return [on_nodes(finished, policy, "compute", ("n4", "n5", "n6")) for finished in runs]


def mimp(bench: Bench) -> Measured:
    """Measure total task times and numbers of late jobs under MIMP and other policies."""
    runs = run_each(bench, "mimp", shared_nodes)
    found = {"late": late(runs, MIMP), **gains_of_mimp(runs)}
    return Measured(values=found | {"shared": _on_shared(runs, MIMP), "shared_fifo": _on_shared(runs, FIFO)})


EXPERIMENTS = (
    reviewed("pd", performance_driven, 80, FEW_REPEATS),
    reviewed("mrcp", mrcp, 61, FEW_REPEATS),
    reviewed("mimp", mimp, 14, FEW_REPEATS),
)

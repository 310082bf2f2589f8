"""The policy COSHH, compared with FIFO and Fair on fast and slow nodes with CPU-bound and I/O-bound jobs.

COSHH prefers jobs that run well on a node's hardware. The CPU time of a synthetic task is the same on cores
of any speed. Slow nodes therefore lose CPU to a foreground load instead of having slower cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import Job, gains, job, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.tasks.chance import chance

JOBS, APART_S = 20, 25.0
USERS = 4
MAPS = (4, 24)  # range of the number of maps of a job
FEW_MAPS, MANY_MAPS = 4, 44  # maps of unequal jobs, with the same mean
OLD = {"foreground": 0.75, "disk": "40MB/s"}  # a quarter of the CPU and half of the disk rate of new nodes
FIFO, FAIR, FAIR_FIFO, COSHH = "fifo", "fair", "fair:inside=fifo", "coshh"
MEAN = ("completion_s", "mean")


def jobs(seed: int, *, unequal: bool = False) -> list[Job]:
    """Return random CPU-bound and I/O-bound jobs with exponentially distributed gaps between submissions.

    With `unequal`, about three of four jobs are small and the others large.
    """
    coin, now_s, made = chance(seed, "chapter3 coshh"), 0.0, []
    for _ in range(JOBS):
        user, maps = f"user{coin.randrange(USERS)}", coin.randint(*MAPS)
        if unequal:
            maps = coin.choice((FEW_MAPS, FEW_MAPS, FEW_MAPS, MANY_MAPS))
        made.append(coin.choice((computing, reading))(user, now_s, maps))
        now_s += coin.expovariate(1 / APART_S)
    return made


def computing(user: str, submit_s: float, maps: int) -> Job:
    """Return a CPU-bound job: each of its maps computes for 20 s on one core."""
    return job("compute", user, submit_s, (maps, 20.0), (1, 5.0))


def reading(user: str, submit_s: float, maps: int) -> Job:
    """Return an I/O-bound job: each of its maps reads 128 MB and computes for 2 s."""
    each = job("read", user, submit_s, (maps, 2.0), (1, 5.0))
    each["map"]["read"] = "128MB"
    return each


def scenario(seed: int, *, alone: bool = False, unequal: bool = False) -> Mapping[str, Any]:
    """Return a scenario with equally many fast and slow nodes, under the policies FIFO, Fair and COSHH.

    A node has two map slots. With `alone`, there are twice as many nodes with one map slot each, so that no
    two maps share a disk. With `unequal`, jobs differ in size.
    """
    count, slots = (6, 1) if alone else (3, 2)
    groups = [{"count": count}, {"count": count, **OLD}]
    return {
        "cluster": {**nodes(1, slots, 1), "nodes": groups},
        "workload": {"jobs": jobs(seed, unequal=unequal)},
        "policies": [FIFO, FAIR, FAIR_FIFO, COSHH],
    }


def on_fast(finished: FinishedRun, policy: str, kind: str) -> float:
    """Return the percentage of maps that ran on a fast node, for the jobs whose names start with `kind`."""
    tables = finished.of(policy)
    names = tables.jobs.set_index("job")["name"]
    fast = {f"n{number + 1}" for number in range(len(finished.run.scenario["cluster"]["nodes"]) // 2)}
    maps = tables.attempts[(tables.attempts["kind"] == "map") & (tables.attempts["state"] == "succeeded")]
    mine = maps[maps["job"].map(names).str.startswith(kind)]
    return 100 * float(mine["node"].isin(fast).mean())


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy COSHH reduces the mean completion time against FIFO and Fair."""
    runs = run_each(bench, "coshh", scenario)
    alone = run_each(bench, "coshh-alone", partial(scenario, alone=True))
    return Measured(
        values={
            "fifo": gains(runs, COSHH, FIFO, *MEAN),
            "fair": gains(runs, COSHH, FAIR, *MEAN),
            "fair_fifo": gains(runs, COSHH, FAIR_FIFO, *MEAN),
            "compute_on_fast": [on_fast(finished, COSHH, "compute") for finished in runs],
            "compute_on_fast_fair": [on_fast(finished, FAIR_FIFO, "compute") for finished in runs],
            "alone_fifo": gains(alone, COSHH, FIFO, *MEAN),
            "alone_fair": gains(alone, COSHH, FAIR, *MEAN),
            "alone_fair_fifo": gains(alone, COSHH, FAIR_FIFO, *MEAN),
        }
    )


EXPERIMENT = Experiment(name="coshh", measure=measure, draw=draw_values, takes_s={"sim": 60}, repeats=10)

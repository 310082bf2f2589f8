"""The policy MRCP, compared with earliest deadline first (EDF) on a stream of jobs with deadlines.

MRCP computes a schedule of all known tasks so that few jobs are late.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import EDF, Job, figure_of, job, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.tasks.chance import chance

MRCP, FIFO = "mrcp", "fifo"
JOBS = 20
LOADS = (0.7, 0.9)  # busy share of the map slots
NODES, MAP_SLOTS, REDUCE_SLOTS = 10, 20, 10
MAPS_S = (5.0, 10.0, 20.0, 30.0, 40.0)  # one per class of jobs
MAPS, REDUCES = (5, 60), (1, 10)
STREAM_S = 200.0  # start of the stream, after a small job of each class for its task times
ALONE = 50.0  # factor on the gaps, so that each job runs alone
FACTORS = (1.0, 3.0)  # deadlines as multiples of a job's time alone


def jobs(seed: int, load: float, apart: float = 1.0, due_s: tuple[float, float] | None = None) -> list[Job]:
    """Return a random stream of jobs of five classes. One small job of each class is submitted first.

    A class consists of the jobs whose tasks have the same duration. The gaps between jobs are such that the
    jobs keep the share `load` of the map slots busy. `apart` multiplies the gaps. With `due_s`, a job is due
    a random time between these two times in s after its submission, whatever its size.
    """
    coin, now_s, made = chance(seed, "chapter3 mrcp", load), STREAM_S, []
    mean_s = sum(MAPS_S) / len(MAPS_S) * sum(MAPS) / 2  # map slot seconds of a mean job
    for _ in range(JOBS):
        map_s, maps, reduces = coin.choice(MAPS_S), coin.randint(*MAPS), coin.randint(*REDUCES)
        alone_s = ceil(maps / MAP_SLOTS) * map_s + ceil(reduces / REDUCE_SLOTS) * map_s + 3
        due = f"{coin.uniform(*due_s) if due_s else alone_s * coin.uniform(*FACTORS):.3f}s"
        made.append(job(_class(map_s), "user", now_s, (maps, map_s), (reduces, map_s), deadline=due))
        now_s += apart * coin.expovariate(load * MAP_SLOTS / mean_s)
    return [job(_class(map_s), "user", 0, (1, map_s), (1, map_s)) for map_s in MAPS_S] + made


def _class(map_s: float) -> str:
    return f"class{map_s:g}"


def scenario(
    seed: int, *, load: float, apart: float = 1.0, due_s: tuple[float, float] | None = None
) -> Mapping[str, Any]:
    """Return a scenario with ten nodes of two map slots and one reduce slot each.

    The jobs keep the share `load` of the map slots busy, if `apart`, a factor on the gaps between jobs, is 1.
    With `due_s`, deadlines are random times between these two times in s, whatever the jobs' sizes.
    """
    return {
        "cluster": nodes(NODES, 2, 1),
        "workload": {"jobs": jobs(seed, load, apart, due_s)},
        "policies": [EDF] if apart > 1 else [FIFO, EDF, MRCP],
    }


def late(runs: list[list[FinishedRun]], policy: str) -> list[float]:
    """Return the percentage of all jobs that were late under the policy, one number per repeat.

    `runs` has a list of runs (one per repeat) for each load.
    """
    counts = [[figure_of(finished, policy, "deadlines", "late") for finished in loads] for loads in runs]
    return [100 * sum(each) / (JOBS * len(each)) for each in zip(*counts, strict=True)]


def measure(bench: Bench) -> Measured:
    """Measure the percentage of late jobs over all loads in each repeat.

    The policies are MRCP, EDF (earliest deadline first) and FIFO.
    """
    runs = [run_each(bench, f"mrcp-{load:g}", partial(scenario, load=load)) for load in LOADS]
    lone = [
        run_each(bench, f"mrcp-{load:g}-apart", partial(scenario, load=load, apart=ALONE)) for load in LOADS
    ]
    mine, edf, fifo = (late(runs, policy) for policy in (MRCP, EDF, FIFO))
    return Measured(
        values={
            "late": mine,
            "late_edf": edf,
            "late_fifo": fifo,
            "late_alone": late(lone, EDF),
            "fewer": [100 * (1 - few / many) if many else 0.0 for few, many in zip(mine, edf, strict=True)],
        }
    )


EXPERIMENT = Experiment(name="mrcp", measure=measure, draw=draw_values, takes_s={"sim": 65}, repeats=10)

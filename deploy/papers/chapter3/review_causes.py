"""Causes of the results for chapter 3: policies are compared again with one part of the setup changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from schedbed.deploy.papers.bench import Bench, JobTime
from schedbed.deploy.papers.chapter3.coshh_speeds import COSHH
from schedbed.deploy.papers.chapter3.coshh_speeds import scenario as two_speeds
from schedbed.deploy.papers.chapter3.lsap_idle import LOADS as IDLE_LOADS
from schedbed.deploy.papers.chapter3.lsap_idle import LSAP, local, moved
from schedbed.deploy.papers.chapter3.lsap_idle import scenario as idle_slots
from schedbed.deploy.papers.chapter3.mimp_shared import (
    APART_S,
    FAIR,
    FIFO,
    MIMP,
    gains_of_mimp,
    late,
    late_avoided,
    run_at,
)
from schedbed.deploy.papers.chapter3.mimp_shared import scenario as shared_nodes
from schedbed.deploy.papers.chapter3.mrcp_stream import LOADS, MRCP
from schedbed.deploy.papers.chapter3.mrcp_stream import scenario as stream
from schedbed.deploy.papers.chapter3.runs import EDF, Scenario, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values

Found = dict[str, list[float]]
Drawn = Callable[[int], Scenario]

BATCH = 0.001  # factor on the gaps between MRCP's jobs, which then arrive at the same time
FAR = (6.0, 16.0)  # MIMP's deadlines as multiples of a job's time alone, four times the usual ones
GRACE_S = 240.0  # time after MIMP's deadlines until a job counts as late, which no policy knows
DUE_S = (100.0, 700.0)  # deadlines of MRCP's jobs after their submission, if they do not depend on sizes
MORE_REPLICAS = 12  # replicas of LSAP's blocks, on twenty nodes


def measure(bench: Bench) -> Measured:
    """Measure the gains of the policies COSHH, MRCP, MIMP and LSAP again, each with a changed setup.

    Jobs have unequal sizes, arrive at once, have other deadlines, or read blocks with more replicas.
    """
    found = {**_orders(bench), **_batches(bench), **_deadlines(bench), **_replicas(bench)}
    return Measured(values=found)


def _orders(bench: Bench) -> Found:
    """Return by how many percent the policy COSHH reduces mean completion times against FIFO and Fair.

    The jobs have unequal sizes: about three of four are small and the others large.
    """
    unequal = partial(two_speeds, unequal=True)
    return {
        f"coshh_unequal_{key}": _gains(bench, f"coshh-unequal-{key}", unequal, COSHH, than)
        for key, than in (("fifo", FIFO), ("fair", FAIR))
    }


def _gains(bench: Bench, name: str, drawn: Drawn, mine: str, than: str) -> list[float]:
    """Return by how many percent the mean job completion time is shorter under `mine` than under `than`.

    `mine` and `than` are policies. `drawn` is the function that makes the scenario from a seed. Calls with
    the same `name` share the simulations. The result has one number per repeat.
    """
    found = []
    for seed in bench.seeds:
        mine_s, than_s = (
            fmean(job.took_s for job in _times(bench, name, drawn, policy, seed)) for policy in (mine, than)
        )
        found.append(100 * (1 - mine_s / than_s))
    return found


def _times(bench: Bench, name: str, drawn: Drawn, policy: str, seed: int) -> Sequence[JobTime]:
    asked = {"seed": seed, **drawn(seed), "policies": [policy]}
    return bench.times(f"{name}-{policy.replace(':', '-').replace('=', '-')}-{seed}", asked)


def late_jobs(jobs: Sequence[JobTime]) -> int:
    """Return the number of jobs that ended after their deadlines."""
    return sum(job.deadline_s is not None and job.finish_s > job.deadline_s for job in jobs)


def _batches(bench: Bench) -> Found:
    """Return by how many percent the number of late jobs is smaller under MRCP than under EDF.

    All jobs are submitted at the same time. Their deadlines are those of the stream, or random times that do
    not depend on the sizes of the jobs.
    """
    found: Found = {}
    for key, due_s in (("mrcp_batch", None), ("mrcp_batch_due", DUE_S)):
        drawn = {load: partial(stream, load=load, apart=BATCH, due_s=due_s) for load in LOADS}
        found[key] = []
        for seed in bench.seeds:
            few, many = (
                sum(late_jobs(_times(bench, f"{key}-{load}", drawn[load], policy, seed)) for load in LOADS)
                for policy in (MRCP, EDF)
            )
            found[key].append(100 * (1 - few / many) if many else 0.0)
    return found


def _deadlines(bench: Bench) -> Found:
    """Return gains of the policy MIMP with other deadlines: late jobs avoided, and task time saved in percent.

    The deadlines are later, or a job counts as late only some time after its deadline, which no policy knows.
    """
    gains = gains_of_mimp(run_each(bench, "mimp-far", _far))
    found = {f"mimp_far_{name}": gain for name, gain in gains.items()}
    for load, apart_s in APART_S.items():
        runs = run_at(bench, apart_s)
        found[f"mimp_{load}grace_late"] = late(runs, MIMP, GRACE_S)
        avoided = late_avoided(runs, GRACE_S)
        found |= {f"mimp_{load}grace_{name}": numbers for name, numbers in avoided.items()}
    return found


def _far(seed: int) -> Scenario:
    return shared_nodes(seed, apart_s=APART_S[""], factors=FAR)


def _replicas(bench: Bench) -> Found:
    """Return how much more often maps have local input under the policy LSAP than under FIFO, and the bytes saved.

    Each block has more replicas. `lsap_replicas_local` is the difference of two percentages of maps with local
    input, and `lsap_replicas_moved` by how many percent fewer bytes are read from other nodes. Two loads are
    simulated, and each value is the larger of both loads' values in a repeat.
    """
    gained, saved = [], []
    for name, load in IDLE_LOADS.items():
        drawn = partial(idle_slots, load=load, replicas=MORE_REPLICAS)
        runs = run_each(bench, f"lsap-{name}-replicas", drawn)
        gained.append([a - b for a, b in zip(local(runs, LSAP), local(runs, FIFO), strict=True)])
        pairs = zip(moved(runs, LSAP), moved(runs, FIFO), strict=True)
        saved.append([100 * (1 - a / b) if b else 0.0 for a, b in pairs])
    return {
        "lsap_replicas_local": [max(pair) for pair in zip(*gained, strict=True)],
        "lsap_replicas_moved": [max(pair) for pair in zip(*saved, strict=True)],
    }


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw_values, takes_s={"sim": 120}, repeats=10)

"""Causes of the results for chapter 3: policies are compared again with one part of the setup changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3.coshh_speeds import COSHH
from schedbed.deploy.papers.chapter3.coshh_speeds import scenario as two_speeds
from schedbed.deploy.papers.chapter3.lsap_idle import LOADS as IDLE_LOADS
from schedbed.deploy.papers.chapter3.lsap_idle import LSAP, local
from schedbed.deploy.papers.chapter3.lsap_idle import scenario as idle_slots
from schedbed.deploy.papers.chapter3.mimp_shared import APART_S, FAIR, FIFO, gains_of_mimp
from schedbed.deploy.papers.chapter3.mimp_shared import scenario as shared_nodes
from schedbed.deploy.papers.chapter3.mrcp_stream import LOADS, MRCP
from schedbed.deploy.papers.chapter3.mrcp_stream import scenario as stream
from schedbed.deploy.papers.chapter3.runs import EDF, Scenario, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.deploy.papers.job_times import JobTime

Found = dict[str, list[float]]
Drawn = Callable[[int], Scenario]

BATCH = 0.001  # factor on the gaps between MRCP's jobs, which then arrive at the same time
FAR = (6.0, 16.0)  # MIMP's deadlines as multiples of a job's time alone, four times the usual ones
MORE_REPLICAS = 10  # replicas of LSAP's blocks, on twenty nodes


def measure(bench: Bench) -> Measured:
    """Measure the gains of the policies COSHH, MRCP, MIMP and LSAP again, each with a changed setup.

    Jobs have unequal sizes, arrive at once, have later deadlines, or read blocks with more replicas.
    """
    return Measured(values={**_orders(bench), **_deadlines(bench), **_replicas(bench)})


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
    for seed in _seeds(bench):
        mine_s, than_s = (
            fmean(job.took_s for job in _times(bench, name, drawn, policy, seed)) for policy in (mine, than)
        )
        found.append(100 * (1 - mine_s / than_s))
    return found


def _seeds(bench: Bench) -> range:
    return range(bench.seed, bench.seed + bench.repeats)


def _times(bench: Bench, name: str, drawn: Drawn, policy: str, seed: int) -> Sequence[JobTime]:
    asked = {"seed": seed, **drawn(seed), "policies": [policy]}
    return bench.times(f"{name}-{policy.replace(':', '-').replace('=', '-')}-{seed}", asked)


def late_jobs(jobs: Sequence[JobTime]) -> int:
    """Return the number of jobs that ended after their deadlines."""
    return sum(job.deadline_s is not None and job.finish_s > job.deadline_s for job in jobs)


def _deadlines(bench: Bench) -> Found:
    """Return gains of the policy MRCP for jobs submitted at once, and of the policy MIMP for later deadlines.

    MRCP's gain is the percentage of late jobs avoided. MIMP's gains are numbers of late jobs avoided, and
    reductions of the total task time in percent.
    """
    found: Found = {"mrcp_batch": []}
    for seed in _seeds(bench):
        counts = {
            policy: sum(
                late_jobs(_times(bench, f"batch-{load}", partial(_batch, load=load), policy, seed))
                for load in LOADS
            )
            for policy in (MRCP, EDF)
        }
        few, many = counts[MRCP], counts[EDF]
        found["mrcp_batch"].append(100 * (1 - few / many) if many else 0.0)
    gains = gains_of_mimp(run_each(bench, "mimp-far", _far))
    return found | {f"mimp_far_{name}": gain for name, gain in gains.items()}


def _batch(seed: int, *, load: float) -> Scenario:
    return stream(seed, load=load, apart=BATCH)


def _far(seed: int) -> Scenario:
    return shared_nodes(seed, apart_s=APART_S[""], factors=FAR)


def _replicas(bench: Bench) -> Found:
    """Return how much more often maps have local input under the policy LSAP than under FIFO.

    The result is the difference of two percentages of maps with local input, if each block has ten replicas.
    Two loads are simulated, and in each repeat the larger of the two differences is returned.
    """
    both = []
    for name, load in IDLE_LOADS.items():
        drawn = partial(idle_slots, load=load, replicas=MORE_REPLICAS)
        runs = run_each(bench, f"lsap-{name}-replicas", drawn)
        mine, first = (local(runs, policy) for policy in (LSAP, FIFO))
        both.append([a - b for a, b in zip(mine, first, strict=True)])
    return {"lsap_replicas_local": [max(pair) for pair in zip(*both, strict=True)]}


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw_values, takes_s={"sim": 90}, repeats=10)

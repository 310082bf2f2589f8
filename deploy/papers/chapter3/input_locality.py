"""The locality of input: the policy LSAP, and the replication schemes Scarlett, DARE and CDRM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import (
    DELAY,
    FIFO,
    LOCAL,
    MEAN,
    Found,
    fewer,
    figures_of,
    gains,
    nodes,
    reviewed,
    run_each,
)
from schedbed.deploy.papers.experiment import FEW_REPEATS, Measured, by_repeat, minus, percent_less
from schedbed.scheduler.history import read_table

# The schemes run a workload in which jobs share files, some of which are popular. Scarlett adds replicas of
# popular files, and is compared with three replicas of every file. With DARE, a node that reads a block from
# another node for a map keeps the block as an additional replica. CDRM gives each file the fewest replicas with which
# it is available, where nodes are least likely to be busy.

ALL_LOCAL = "order=fifo,locality=delay"
NODES, POPULAR_JOBS = 20, 180
REPLICAS = 3
SCARLETT = {"scarlett": {"epoch": "60s", "delta": 1, "budget": 0.2}}
FEWEST, DOWN, AVAILABLE = 2, 0.05, 0.99
"""CDRM's first number of replicas, the probability that a node is down, and a file's wanted availability."""

CDRM = {"cdrm": {"epoch": "60s", "availability": AVAILABLE, "failure": DOWN}}
DARE = {"dare": {"p": 0.3, "budget": 0.2}}


def popular_files(
    seed: int, *, dynamic: Any = "none", machines: int = NODES, replicas: int = REPLICAS
) -> Mapping[str, Any]:
    """Return a scenario in which each job reads one of twelve files, whose popularity follows Zipf's law.

    `dynamic` is the replication scheme (`none`, DARE, Scarlett or CDRM), `machines` is the number of nodes, and
    `replicas` the number of replicas at the start.
    """
    generated = {
        "jobs": POPULAR_JOBS,
        "load": 0.7,
        "input": {"least": "64MiB", "most": "1GiB", "shape": 1},
        "shuffle": 0.1,
        "output": 1,
        "files": {"count": 12, "exponent": 1},
    }
    return {
        "cluster": nodes(machines, 2, 1),
        "blocks": {"size": "64MiB", "replication": replicas, "dynamic": dynamic},
        "workload": {"generate": generated},
        "policies": [FIFO, ALL_LOCAL, DELAY],
    }


def run_popular(bench: Bench, name: str, *, slowdowns: bool = True, **asked: Any) -> list[FinishedRun]:
    """Run the scenario of popular files with another seed in each repeat.

    `asked` are keyword arguments of `popular_files`. Experiments that pass the same `name` share the runs.
    With `slowdowns`, each job is also simulated alone.
    """
    return run_each(bench, f"popular-{name}", partial(popular_files, **asked), slowdowns=slowdowns)


def local(runs: list[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of maps under `policy` that ran on a node with their input, for each run."""
    return [100 * share for share in figures_of(runs, policy, *LOCAL)]


def scarlett(bench: Bench) -> Measured:
    """Measure by how many percent the scheme Scarlett reduces the mean job completion time, in each repeat.

    The value `most` is a reduction without Scarlett: FIFO waits for nodes with a map's input, so that more
    input is local, and is compared with FIFO that does not wait.
    """
    plain, mine = (
        run_popular(bench, "plain"),
        run_popular(bench, "scarlett", slowdowns=False, dynamic=SCARLETT),
    )
    return Measured(
        values={
            "fifo": gains(mine, FIFO, FIFO, *MEAN, than_runs=plain),
            "delay": gains(mine, DELAY, DELAY, *MEAN, than_runs=plain),
            "most": gains(plain, ALL_LOCAL, FIFO, *MEAN),
            "local": local(mine, FIFO),
            "local_most": local(plain, ALL_LOCAL),
            "local_plain": local(plain, FIFO),
        }
    )


def dare(bench: Bench) -> Measured:
    """Measure the share of maps with local input, completion times and slowdowns with and without DARE."""
    plain, mine = run_popular(bench, "plain"), run_popular(bench, "dare", dynamic=DARE)
    before, after = (figures_of(runs, FIFO, *LOCAL) for runs in (plain, mine))
    return Measured(
        values={
            "times": [more / less for more, less in zip(after, before, strict=True)],
            "most_times": [1 / share for share in before],
            "local_plain": local(plain, FIFO),
            "local": local(mine, FIFO),
            "local_delay_plain": local(plain, DELAY),
            "local_delay": local(mine, DELAY),
            **{
                f"{name}{ending}": gains(mine, policy, policy, figure, "mean", than_runs=plain)
                for name, figure in (("turnaround", "completion_s"), ("slowdown", "slowdown"))
                for ending, policy in (("", FIFO), ("_delay", DELAY))
            },
        }
    )


def cdrm(bench: Bench) -> Measured:
    """Measure replicas, availability, load balance and completion times with CDRM and with two replicas."""
    two = run_popular(bench, "two", slowdowns=False, replicas=FEWEST)
    mine = run_popular(bench, "cdrm", slowdowns=False, dynamic=CDRM, replicas=FEWEST)
    held = by_repeat(map(_replicas, mine))
    return Measured(
        values={
            **held,
            "fewer": [REPLICAS - each for each in held["replicas"]],
            "two": gains(mine, FIFO, FIFO, *MEAN, than_runs=two),
            "balance": list(map(percent_less, *(list(map(_imbalance, runs)) for runs in (mine, two)))),
            "local": local(mine, FIFO),
            "local_two": local(two, FIFO),
        }
    )


def _replicas(finished: FinishedRun) -> dict[str, float]:
    """Return the mean replicas of an input's block at the end, and how many inputs miss the availability."""
    blocks = read_table(finished.folders[0], "blocks")
    blocks = blocks[blocks["policy"] == FIFO]
    inputs = set(blocks[blocks["added"] == 0]["block"])
    kept = blocks[blocks["removed"].isna() & blocks["block"].isin(inputs)]
    by_file = kept.groupby(["file", "block"]).size().groupby("file")
    short = [(1 - DOWN ** each.to_numpy()).prod() < AVAILABLE for _, each in by_file]
    return {"replicas": len(kept) / len(inputs), "short": float(sum(short))}


def _imbalance(finished: FinishedRun) -> float:
    """Return the deviation of the bytes that nodes read from their own disks, over the mean."""
    run = finished.of(FIFO)
    read = run.attempts.groupby("node")["read_local_bytes"].sum()
    read = read.reindex([node["node"] for node in run.nodes], fill_value=0)
    return float(read.std(ddof=0) / read.mean())


# The policy LSAP, compared with FIFO and delay scheduling on a cluster with idle slots and on a busy one. LSAP
# assigns maps to all idle slots at the same time such that the total time to transfer input is minimal.

LSAP, LSAP_FAIR = "lsap", "lsap-fair"
LOADS = {"idle": 0.3, "full": 1.2}  # the share of the slots that the jobs keep busy


def idle_slots(seed: int, *, load: float) -> Mapping[str, Any]:
    """Return a scenario with twenty nodes of one map slot each, and random jobs that cause the given load.

    `load` is the share of the slots that the jobs keep busy. Heartbeats have Hadoop's
    interval of 3 s, so that several slots are idle at the same time.
    """
    generated = {
        "jobs": 40,
        "load": load,
        "input": {"least": "64MiB", "most": "2GiB", "shape": 1},
        "shuffle": 0,
        "output": 0,
    }
    return {
        "cluster": {**nodes(20, 1, 1), "heartbeat": "3s"},
        "blocks": {"size": "64MiB", "replication": REPLICAS},
        "workload": {"generate": generated},
        "policies": [FIFO, DELAY, LSAP, LSAP_FAIR],
    }


def moved(runs: list[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of input bytes that maps under `policy` read from other nodes, for each run."""
    return [100 * (1 - share) for share in figures_of(runs, policy, "locality", "bytes", "node")]


def lsap(bench: Bench) -> Measured:
    """Measure how the policy LSAP differs from FIFO and delay scheduling.

    The measures are the locality of maps and the completion times of jobs.
    """
    found: Found = {}
    for name, load in LOADS.items():
        runs = run_each(bench, f"lsap-{name}", partial(idle_slots, load=load))
        found[f"{name}_local"], found[f"{name}_moved"] = over_fifo(runs)
        found[f"{name}_delay"] = gains(runs, LSAP, DELAY, *MEAN)
        found[f"{name}_fair_delay"] = gains(runs, LSAP_FAIR, DELAY, *MEAN)
        found[f"{name}_delay_local"] = local(runs, DELAY)
        found[f"{name}_local_delay"] = minus(local(runs, LSAP), local(runs, DELAY))
    for key in ("local", "moved"):
        both = zip(*(found[f"{name}_{key}"] for name in LOADS), strict=True)
        found[f"most_{key}"] = [max(each) for each in both]
    return Measured(values=found | {"attenuated": minus(found["idle_delay"], found["full_delay"])})


def over_fifo(runs: list[FinishedRun]) -> tuple[list[float], list[float]]:
    """Return how many more maps are local under LSAP than under FIFO, and by how many percent fewer bytes move.

    The first is a difference of two percentages. Both have one number per run.
    """
    more = minus(local(runs, LSAP), local(runs, FIFO))
    return more, list(map(fewer, moved(runs, LSAP), moved(runs, FIFO)))


EXPERIMENTS = (
    reviewed("scarlett", scarlett, 34, FEW_REPEATS),
    reviewed("dare", dare, 20, FEW_REPEATS),
    reviewed("cdrm", cdrm, 60, FEW_REPEATS),
    reviewed("lsap", lsap, 22, FEW_REPEATS),
)

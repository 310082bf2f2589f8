"""The policy LSAP, compared with FIFO and delay scheduling on a cluster with idle slots and on a busy one.

LSAP assigns maps to all idle slots at the same time such that the total time to transfer input is minimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import figure_of, gains, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values

FIFO, DELAY, FAIR, LSAP, LSAP_FAIR = "fifo", "delay", "fair", "lsap", "lsap-fair"
LOADS = {"idle": 0.3, "full": 1.2}  # the share of the slots that the jobs keep busy
MEAN = ("completion_s", "mean")


def scenario(seed: int, *, load: float, replicas: int = 3) -> Mapping[str, Any]:
    """Return a scenario with twenty nodes of one map slot each, and random jobs that cause the given load.

    `load` is the share of the slots that the jobs keep busy, and `replicas` the number of replicas of each
    block. Heartbeats have Hadoop's interval of 3 s, so that several slots are idle at the same time.
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
        "blocks": {"size": "64MiB", "replication": replicas},
        "workload": {"generate": generated},
        "policies": [FIFO, DELAY, FAIR, LSAP, LSAP_FAIR],
    }


def local(runs: list[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of maps under `policy` that ran on a node with their input, for each run."""
    return [100 * figure_of(finished, policy, "locality", "tasks", "node") for finished in runs]


def moved(runs: list[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of input bytes that maps under `policy` read from other nodes, for each run."""
    return [100 * (1 - figure_of(finished, policy, "locality", "bytes", "node")) for finished in runs]


def measure(bench: Bench) -> Measured:
    """Measure how the policy LSAP differs from FIFO and delay scheduling.

    The measures are the locality of maps and the completion times of jobs. The policy Fair is delay
    scheduling without waits for local slots.
    """
    found: dict[str, list[float]] = {}
    for name, load in LOADS.items():
        runs = run_each(bench, f"lsap-{name}", partial(scenario, load=load))
        mine, first = local(runs, LSAP), local(runs, FIFO)
        found[f"{name}_local"] = [a - b for a, b in zip(mine, first, strict=True)]
        found[f"{name}_moved"] = [
            100 * (1 - a / b) if b else 0.0 for a, b in zip(moved(runs, LSAP), moved(runs, FIFO), strict=True)
        ]
        found[f"{name}_delay"] = gains(runs, LSAP, DELAY, *MEAN)
        found[f"{name}_no_wait"] = gains(runs, LSAP, FAIR, *MEAN)
        found[f"{name}_fair_delay"] = gains(runs, LSAP_FAIR, DELAY, *MEAN)
        found[f"{name}_delay_local"] = local(runs, DELAY)
        found[f"{name}_local_delay"] = [a - b for a, b in zip(mine, local(runs, DELAY), strict=True)]
    for key in ("local", "moved"):
        found[f"most_{key}"] = [
            max(pair) for pair in zip(*(found[f"{name}_{key}"] for name in LOADS), strict=True)
        ]
    for key, other in (("attenuated", "delay"), ("attenuated_no_wait", "no_wait")):
        found[key] = [a - b for a, b in zip(found[f"idle_{other}"], found[f"full_{other}"], strict=True)]
    return Measured(values=found)


EXPERIMENT = Experiment(name="lsap", measure=measure, draw=draw_values, takes_s={"sim": 50}, repeats=10)

"""The workload for the replication schemes Scarlett and DARE: jobs share files, some of which are popular."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import nodes, run_each

FIFO, DELAY = "fifo", "delay"
ALL_LOCAL = "order=fifo,locality=delay"
NODES, JOBS = 20, 180
REPLICAS = 3
SCARLETT = {"scarlett": {"epoch": "60s", "delta": 1, "budget": 0.2}}
DARE = {"dare": {"p": 0.3, "budget": 0.2}}


def scenario(seed: int, *, dynamic: Any = "none", machines: int = NODES) -> Mapping[str, Any]:
    """Return a scenario in which each job reads one of twelve files, whose popularity follows Zipf's law.

    `dynamic` is the replication scheme (`none`, DARE or Scarlett), and `machines` is the number of nodes.
    """
    generated = {
        "jobs": JOBS,
        "load": 0.7,
        "input": {"least": "64MiB", "most": "1GiB", "shape": 1},
        "shuffle": 0.1,
        "output": 1,
        "files": {"count": 12, "exponent": 1},
    }
    return {
        "cluster": nodes(machines, 2, 1),
        "blocks": {"size": "64MiB", "replication": REPLICAS, "dynamic": dynamic},
        "workload": {"generate": generated},
        "policies": [FIFO, ALL_LOCAL, DELAY],
    }


def run_popular(bench: Bench, name: str, **asked: Any) -> list[FinishedRun]:
    """Run the scenario of this module with another seed in each repeat, and measure the slowdowns of jobs.

    `asked` are keyword arguments of `scenario`. Experiments that pass the same `name` share the runs.
    """
    return run_each(bench, f"popular-{name}", partial(scenario, **asked), slowdowns=True)

"""Functions for chapter 3's experiments: they make jobs and nodes, run scenarios and compute gains.

Each setup follows the original paper as far as an abstract or the thesis describes it. What these do not say
was chosen for schedbed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun

Job = dict[str, Any]
Scenario = Mapping[str, Any]

EDF = "mrcp:jobs=1"
"""Earliest deadline first: MRCP with a plan of one job, the one due first; all others follow by deadline."""


def job(
    name: str,
    user: str,
    submit_s: float,
    maps: tuple[int, float],
    reduces: tuple[int, float] = (0, 0.0),
    **more: Any,
) -> Job:
    """Return a synthetic job, as in a scenario file, whose tasks only compute.

    `maps` and `reduces` are pairs: the number of tasks, and the CPU seconds of each. `more` are further keys
    of the job, such as `deadline`.
    """
    made: Job = {
        "name": name,
        "app": "synthetic",
        "user": user,
        "maps": maps[0],
        "map": {"cpu": f"{maps[1]:.3f}s"},
        "reduces": reduces[0],
        "submit": f"{submit_s:.3f}s",
    }
    if reduces[0]:
        made["reduce"] = {"cpu": f"{reduces[1]:.3f}s"}
    return {**made, **more}


def nodes(count: int, map_slots: int, reduce_slots: int, **more: Any) -> dict[str, Any]:
    """Return the value of a scenario's key `cluster`, with `count` equal nodes.

    Each node has one core per slot and a network rate of 100 Mbit/s, and sends a heartbeat every second.
    `more` are further keys of `cluster`, and override the default values.
    """
    node = {
        "cores": map_slots + reduce_slots,
        "core_speed": 1.0,
        "memory": "8GiB",
        "disk": "80MB/s",
        "network": "100Mbit/s",
        "map_slots": map_slots,
        "reduce_slots": reduce_slots,
    }
    return {"nodes": count, "heartbeat": "1s", "node": node, **more}


def run_each(
    bench: Bench, name: str, drawn: Callable[[int], Scenario], *, slowdowns: bool = False
) -> list[FinishedRun]:
    """Run the scenario `drawn(seed)` with another seed in each repeat, and return one run per repeat.

    The name of each run is `name` with the number of the repeat. With `slowdowns`, each job is also simulated
    alone.
    """
    found = []
    for number, seed in enumerate(bench.seeds, 1):
        asked = {"seed": seed, **drawn(seed)}
        found.append(bench.run(f"{name}-{number}", asked, repeats=1, slowdowns=slowdowns))
    return found


def figure_of(finished: FinishedRun, policy: str, *path: str) -> float:
    """Return a value of the policy from the summary.json of a run with one repeat.

    `path` are the keys that lead to the value.
    """
    return finished.figures(policy, *path)[0]


def gains(
    runs: Sequence[FinishedRun],
    policy: str,
    than: str,
    *path: str,
    than_runs: Sequence[FinishedRun] | None = None,
) -> list[float]:
    """Return by how many percent a value is smaller under `policy` than under the policy `than`.

    `path` are the keys that lead to the value in summary.json. The values of `than` are taken from the runs
    `than_runs`, if given. The result has one number per repeat.
    """
    pairs = zip(runs, than_runs or runs, strict=True)
    return [
        100 * (1 - figure_of(mine, policy, *path) / figure_of(theirs, than, *path)) for mine, theirs in pairs
    ]

"""Live runs of the arena's best policies, compared with simulations of the same clusters and jobs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from schedbed.deploy.arena.cells import Cell, kept_rows
from schedbed.deploy.arena.courses import Course
from schedbed.deploy.arena.ranking import agreement
from schedbed.deploy.failures import RunFailed
from schedbed.tasks.errors import BadInput

FOLDER, ROWS = "live", "live.jsonl"
REFERENCE = "fifo"
"""A simple policy that runs in addition to the best ones, to have a worse one in the order."""
NODES, CORES, JOBS, SCALE = 6, 2, 30, 0.05
HOST_SHARE = 0.5
"""Share of the host's cores that the live cluster declares: the testbed itself needs some."""
STRETCH = 2
"""Real seconds per emulated second. At 1, starting the short tasks alone kept two cores of the host busy."""
PLACEMENTS: Mapping[str, tuple[float, Any]] = {
    "live-load0.8-even": (0.8, "even"),
    "live-load0.95-skewed": (0.95, {"skewed": 0.5}),
}
Say = Callable[[str], None]
Pair = dict[str, float]
"""`live` and `simulated`: a policy's mean slowdown on one workload with one seed."""


def live_courses(host_cores: float) -> list[Course]:
    """Return generated jobs on six nodes, which declare at most half of the host's cores."""
    speed = min(1.0, round(HOST_SHARE * host_cores / (NODES * CORES), 3))
    node = {"cores": CORES, "core_speed": speed, "memory": "512MiB", "disk": "40MB/s"}
    node |= {"network": "100Mbit/s", "map_slots": 2, "reduce_slots": 1}
    jobs = {"jobs": JOBS, "input": {"least": "64MiB", "most": "2GiB", "shape": 1}, "users": 4}
    return [
        Course(
            name,
            "live",
            {
                "name": name,
                "scale": SCALE,
                "stretch": STRETCH,
                "cluster": {"nodes": NODES, "racks": 2, "node": node, "heartbeat": "500ms"},
                "blocks": {"size": "64MiB", "replication": 2, "placement": placement},
                "workload": {"generate": jobs | {"load": load}},
                "profiles": {"store": "none"},
            },
        )
        for name, (load, placement) in PLACEMENTS.items()
    ]


def chosen(leaders: Mapping[str, Sequence[str]], ranks: Mapping[str, float]) -> list[str]:
    """Return the policies for live runs by rank: the best of each kind of workload, and `fifo`."""
    led = {policy for names in leaders.values() for policy in names} | {REFERENCE}
    return [policy for policy in ranks if policy in led]


@dataclass(frozen=True, slots=True)
class LiveContest:
    """The parameters of the arena's live runs: all policies run on each workload with seeds 1 to `seeds`."""

    policies: tuple[str, ...]
    courses: tuple[Course, ...]
    seeds: int

    def runs(self) -> Iterator[tuple[str, Course, int]]:
        """Yield the cache key, workload and seed of each live run. One run covers all policies."""
        for seed in range(1, self.seeds + 1):
            for course in self.courses:
                yield Cell("\n".join(self.policies), course, seed).key, course, seed


def live_contest(leaders: Mapping[str, Sequence[str]], ranks: Mapping[str, float], seeds: int) -> LiveContest:
    """Return the live runs of `chosen` policies on this host."""
    return LiveContest(tuple(chosen(leaders, ranks)), tuple(live_courses(host_cores())), seeds)


def hold_live(contest: LiveContest, folder: Path, say: Say) -> dict[str, Any]:
    """Do the live runs without a result in `folder`, each with its simulation, and compare the orders.

    A run that failed, or whose host did not provide its resources, is listed with the reason in `left_out`.
    """
    kept = kept_rows(folder / ROWS)
    for number, (key, course, seed) in enumerate(contest.runs(), start=1):
        if key in kept:
            continue
        say(f"live {number}/{contest.seeds * len(contest.courses)}: {course.name}, seed {seed}")
        row = _row(contest.policies, course, seed, folder / FOLDER / f"{course.name}-{seed}-{key[:6]}")
        kept[key] = row
        if row["left_out"]:  # The same command tries this run again.
            say(f"left out: {row['left_out']}")
            continue
        with (folder / ROWS).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"key": key, "row": row}) + "\n")
    return judge(contest, [kept[key] for key, _, _ in contest.runs()])


def judge(contest: LiveContest, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean slowdowns, and the rank correlation of live and simulated ones, without runs left out."""
    good = [row for row in rows if not row["left_out"]]
    pairs: list[dict[str, Pair]] = [row["pairs"] for row in good]
    means = {
        policy: {side: fmean(each[policy][side] for each in pairs) for side in ("live", "simulated")}
        for policy in contest.policies
        if pairs
    }
    found = agreement([_sides(each, contest.policies) for each in pairs])
    return {
        "policies": means,
        "workloads": [course.name for course in contest.courses],
        "seeds": contest.seeds,
        "runs": len(good),
        "left_out": [row["left_out"] for row in rows if row["left_out"]],
        **found,
        "rho_of_means": agreement([_sides(means, contest.policies)])["rho"] if means else None,
    }


def _sides(pairs: Mapping[str, Pair], policies: Sequence[str]) -> tuple[list[float], list[float]]:
    return [pairs[each]["live"] for each in policies], [pairs[each]["simulated"] for each in policies]


def _row(policies: Sequence[str], course: Course, seed: int, folder: Path) -> dict[str, Any]:
    """Run a workload live, then simulated. Return the slowdowns, or why the run is left out."""
    shutil.rmtree(folder, ignore_errors=True)  # Left by an interrupted run.
    folder.mkdir(parents=True)
    try:
        with (folder / "output.txt").open("w") as log, redirect_stdout(log), redirect_stderr(log):
            sides = {
                "live": _slowdowns(policies, course, seed, folder, "process"),
                "simulated": _slowdowns(policies, course, seed, folder, "sim"),
            }
    except (RunFailed, BadInput) as error:
        return {"pairs": {}, "left_out": f"{course.name}, seed {seed}: {error}"}
    pairs = {policy: {side: found[policy] for side, found in sides.items()} for policy in policies}
    return {"pairs": pairs, "left_out": ""}


def _slowdowns(
    policies: Sequence[str], course: Course, seed: int, folder: Path, machines: str
) -> dict[str, float]:
    """Return {policy: mean slowdown of jobs} on one kind of machines. Raises RunFailed.

    That is also raised if the host did not provide a live run's declared resources.
    """
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.results.summary import load
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.whole_run import run_scenario

    scenario = resolve(course.seeded(seed), policies=list(policies), base=course.base)
    made = run_scenario(scenario, RunOptions(out=folder / machines, machines=machines, live=False))
    said = load(made)["policies"]
    doubts = {policy: each["fidelity"] for policy, each in said.items() if not each["fidelity"]["trusted"]}
    if doubts and machines != "sim":
        why = " ".join(next(iter(doubts.values()))["why"])
        raise RunFailed(f"not trusted: {', '.join(doubts)}: {why}")
    return {
        policy: float(each["slowdown"]["mean"]["mean"])
        for policy, each in zip(policies, said.values(), strict=True)
    }


def host_cores() -> float:
    return float(len(os.sched_getaffinity(0)))

"""Measure what the testbed adds to the start of a task, between two tasks, and to a whole job.

    python tests/bench/overhead.py [--repeats 5] [--limits cgroup docker]

Live runs on six nodes with two map slots each. The first job has many short tasks, which together ask for 0.6
host cores, as a host without a free core would measure its own queue. The launch is the time from `assigned`
to `start` in the attempts table. The time between tasks is that from the k-th end on a node to the start for
which its slot was freed. The second job has four waves of equal tasks of 5 s, at 0.1 of a core each. Its time
from submission to finish is compared with four times 5 s. Each run is accompanied by the time of a bare fork
and exit in the same minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed import Result, run
from tests.bench.control_plane import fork_ms
from tests.bench.figures import Figure, parser, publish, say

if TYPE_CHECKING:
    import pandas as pd

LIMITS = ("software", "cgroup", "docker")
NODES, SLOTS = 6, 2
NODE = {"cores": 2, "map_slots": SLOTS, "reduce_slots": 1}
SHORT_S, SHORT_SPEED, SHORT_TASKS = 1.0, 0.05, 300
LONG_S, LONG_SPEED, WAVES = 5.0, 0.1, 4


def scenario(task_s: float, core_speed: float, tasks: int, limits: str) -> dict[str, Any]:
    """Return a scenario with one job of equal maps that need `task_s` seconds of CPU and nothing else."""
    return {
        "name": "overhead",
        "seed": 1,
        "cluster": {"nodes": NODES, "racks": 2, "node": {**NODE, "core_speed": core_speed}, "limits": limits},
        "workload": {
            "jobs": [{"app": "synthetic", "maps": tasks, "map": {"cpu": f"{task_s}s"}, "user": "ana"}]
        },
    }


def launch_gaps(attempts: pd.DataFrame) -> np.ndarray:
    """Return the seconds from each attempt's assignment by the JobTracker to the first line of its code."""
    return (attempts["start"] - attempts["assigned"]).dropna().to_numpy(float)


def slot_gaps(attempts: pd.DataFrame, slots: int) -> np.ndarray:
    """Return the seconds for which freed slots stayed empty.

    On each node, that is the time from the k-th end to start number k + `slots`.
    """
    gaps: list[float] = []
    for _, rows in attempts.dropna(subset=["start", "end"]).groupby("node", sort=True):
        starts, ends = np.sort(rows["start"].to_numpy(float)), np.sort(rows["end"].to_numpy(float))
        gaps.extend(starts[slots:] - ends[: len(starts[slots:])])
    return np.array(gaps)


def stretch(jobs: pd.DataFrame, ideal_s: float) -> float:
    """Return the job's time from submission to finish, divided by `ideal_s`."""
    row = jobs.iloc[0]
    return float(row["finish"] - row["submit"]) / ideal_s


def fifo_run(task_s: float, core_speed: float, tasks: int, limits: str) -> Result:
    """Run a job of equal maps live under FIFO. The output is not checked, as that would use CPU."""
    kind = "docker" if limits == "docker" else "process"
    values = scenario(task_s, core_speed, tasks, "auto" if limits == "docker" else limits)
    return run(values, policies=["fifo"], machines=kind, check=False)


def measured(limits: str, tasks: int, repeats: int) -> list[Figure]:
    """Return the figures with limits of the kind `limits`."""
    p50s, p99s, gaps, ratios, saturated, forks = [], [], [], [], [], []
    for repeat in range(repeats):
        short = fifo_run(SHORT_S, SHORT_SPEED, tasks, limits)
        forks.append(fork_ms())
        saturated.append(100 * float(short.summary["fidelity"]["host_cpu_saturated"]))
        launches, between = launch_gaps(short.attempts) * 1e3, slot_gaps(short.attempts, SLOTS) * 1e3
        p50s.append(float(np.percentile(launches, 50)))
        p99s.append(float(np.percentile(launches, 99)))
        gaps.append(float(np.percentile(between, 50)))
        jobs = fifo_run(LONG_S, LONG_SPEED, WAVES * NODES * SLOTS, limits).jobs
        ratios.append(stretch(jobs, WAVES * LONG_S))
        say(
            f"{limits} {repeat + 1}: launch {p50s[-1]:.1f}/{p99s[-1]:.1f} ms, gap {gaps[-1]:.1f} ms, "
            f"waves {ratios[-1]:.3f} x, fork {forks[-1]:.2f} ms, saturated {saturated[-1]:.0f}%"
        )
    return [
        Figure(name=f"answer to first line of task code, p50, {limits}", values=p50s, unit="ms", high=6),
        Figure(name=f"answer to first line of task code, p99, {limits}", values=p99s, unit="ms", high=20),
        Figure(name=f"gap between two tasks on a slot, p50, {limits}", values=gaps, unit="ms", high=10),
        Figure(
            name=f"job of {WAVES} waves of {LONG_S:g} s / ideal, {limits}", values=ratios, unit="x", high=1.03
        ),
        Figure(name="- a bare fork and exit meanwhile", values=forks, unit="ms"),
        Figure(name="- meanwhile the host's CPU was saturated for", values=saturated, unit="%"),
    ]


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--limits", nargs="+", default=["cgroup", "docker"], choices=LIMITS)
    options.add_argument("--tasks", type=int, default=SHORT_TASKS, help=f"short ones (default {SHORT_TASKS})")
    asked = options.parse_args()
    figures = [figure for limits in asked.limits for figure in measured(limits, asked.tasks, asked.repeats)]
    title = f"Overhead of a task: {asked.tasks} tasks of {SHORT_S:g} s on {NODES} nodes"
    publish("overhead", title, figures, asked.out)


if __name__ == "__main__":
    main()

"""What the testbed adds to tasks: from a heartbeat's answer to task code, between two tasks, and to a whole job.

    python tests/bench/overhead.py [--repeats 5] [--limits auto]

Live runs on six nodes with two map slots each. The first job has many short tasks, which together ask for 0.6 host
cores (a host without a free core measures its own queue): `assigned` to `start` of the attempts table is the launch,
and the k-th end on a node is paired with the start that its slot was freed for. The second job, at 0.1 of a core each,
has four waves of equal tasks of 5 s: its time from submission to finish against four times 5 s.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed import Result, run
from tests.bench.figures import Figure, parser, publish, say

if TYPE_CHECKING:
    import pandas as pd

NODES, SLOTS = 6, 2
NODE = {"cores": 2, "map_slots": SLOTS, "reduce_slots": 1}
SHORT_S, SHORT_SPEED, SHORT_TASKS = 1.0, 0.05, 300
LONG_S, LONG_SPEED, WAVES = 5.0, 0.1, 4


def scenario(task_s: float, core_speed: float, tasks: int, limits: str) -> dict[str, Any]:
    """One synthetic job of equal tasks that only compute."""
    return {
        "name": "overhead",
        "seed": 1,
        "cluster": {"nodes": NODES, "racks": 2, "node": {**NODE, "core_speed": core_speed}, "limits": limits},
        "workload": {
            "jobs": [{"app": "synthetic", "maps": tasks, "map": {"cpu": f"{task_s}s"}, "user": "ana"}]
        },
    }


def launch_gaps(attempts: pd.DataFrame) -> np.ndarray:
    """Seconds from the answer that assigned an attempt to the first line of its code."""
    return (attempts["start"] - attempts["assigned"]).dropna().to_numpy(float)


def slot_gaps(attempts: pd.DataFrame, slots: int) -> np.ndarray:
    """Seconds that freed slots stood empty: on each node, from the k-th end to the start number k + `slots`."""
    gaps: list[float] = []
    for _, rows in attempts.dropna(subset=["start", "end"]).groupby("node", sort=True):
        starts, ends = np.sort(rows["start"].to_numpy(float)), np.sort(rows["end"].to_numpy(float))
        gaps.extend(starts[slots:] - ends[: len(starts[slots:])])
    return np.array(gaps)


def stretch(jobs: pd.DataFrame, ideal_s: float) -> float:
    """The job's time over the ideal."""
    row = jobs.iloc[0]
    return float(row["finish"] - row["submit"]) / ideal_s


def fifo_run(values: dict[str, Any]) -> Result:
    """Run a scenario live under FIFO, without checking outputs, which would take CPU."""
    return run(values, policies=["fifo"], check=False)


def main() -> None:
    """Measures and prints."""
    options = parser(__doc__)
    options.add_argument("--limits", default="auto", choices=["auto", "software", "cgroup"])
    options.add_argument("--tasks", type=int, default=SHORT_TASKS, help=f"short ones (default {SHORT_TASKS})")
    asked = options.parse_args()
    p50s, p99s, gaps, ratios, saturated = [], [], [], [], []
    for repeat in range(asked.repeats):
        short = fifo_run(scenario(SHORT_S, SHORT_SPEED, asked.tasks, asked.limits))
        attempts = short.attempts
        saturated.append(100 * float(short.summary["fidelity"]["host_cpu_saturated"]))
        launches, between = launch_gaps(attempts) * 1e3, slot_gaps(attempts, SLOTS) * 1e3
        p50s.append(float(np.percentile(launches, 50)))
        p99s.append(float(np.percentile(launches, 99)))
        gaps.append(float(np.percentile(between, 50)))
        jobs = fifo_run(scenario(LONG_S, LONG_SPEED, WAVES * NODES * SLOTS, asked.limits)).jobs
        ratios.append(stretch(jobs, WAVES * LONG_S))
        say(
            f"{repeat + 1}: launch {p50s[-1]:.1f}/{p99s[-1]:.1f} ms, gap {gaps[-1]:.1f} ms, job {ratios[-1]:.3f} x"
        )
    figures = [
        Figure(name="answer to first line of task code, p50", values=p50s, unit="ms", high=10),
        Figure(name="answer to first line of task code, p99", values=p99s, unit="ms", high=50),
        Figure(name=f"gap between two tasks on a slot, p50, {NODES} nodes", values=gaps, unit="ms", high=40),
        Figure(name="- meanwhile the host's CPU was saturated for", values=saturated, unit="%"),
        Figure(name=f"job of {WAVES} waves of {LONG_S:g} s / ideal", values=ratios, unit="x", high=1.05),
    ]
    publish(
        "overhead",
        f"Overhead: {asked.tasks} tasks of {SHORT_S:g} s on {NODES} nodes, limits {asked.limits}",
        figures,
        asked.out,
    )


if __name__ == "__main__":
    main()

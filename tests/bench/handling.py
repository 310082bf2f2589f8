"""Measure what moving data and starting attempts cost live.

    python tests/bench/handling.py [--repeats 3]

The results are the figures of `deploy.simulated.task_costs.MovingCosts`. Synthetic tasks that compute nothing
read, write, spill and fetch on four nodes of 0.1 of a core. Each figure is a difference between two medians
of the tasks' CPU time. Needs a host without other work.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.deploy.simulated.task_costs import HANDLING
from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED

MIB = 2**20
NODE = {
    "cores": 1,
    "core_speed": 0.1,
    "memory": "1GiB",
    "disk": "40MB/s",
    "network": "400Mbit/s",
    "map_slots": 2,
    "reduce_slots": 1,
}
IDLE, NOTHING = {"cpu": "300ms"}, {"cpu": "0s"}
JOBS = {
    "few": {"maps": 8, "map": IDLE, "reduces": 4, "reduce": NOTHING},
    "many": {"maps": 48, "map": IDLE, "reduces": 4, "reduce": NOTHING},
    "fetch": {"maps": 8, "map": {**IDLE, "write": "16MiB"}, "reduces": 4, "reduce": NOTHING},
    "write": {"maps": 8, "map": IDLE, "reduces": 4, "reduce": {**NOTHING, "write": "32MiB"}},
    "read": {"maps": 16, "map": {**NOTHING, "read": "32MiB"}},
    "spill": {"maps": 16, "map": {**NOTHING, "write": "16MiB"}, "reduces": 4, "reduce": NOTHING},
    "still": {"maps": 16, "map": NOTHING},
}
SCENARIO = {
    "name": "handling",
    "cluster": {"nodes": 4, "racks": 1, "node": NODE, "heartbeat": "250ms"},
    "blocks": {"size": "64MiB", "replication": 1},
    "workload": {"jobs": [{"name": name, "app": "synthetic", **job} for name, job in JOBS.items()]},
    "policies": ["fifo"],
}


def medians(folder: Path) -> dict[tuple[str, str], float]:
    """Run the workload once.

    Return the median CPU seconds of a task for each pair of job and kind of task.
    """
    scenario = folder / "handling.yaml"
    scenario.write_text(yaml.safe_dump(SCENARIO))
    options = ["--no-live", "--out", str(folder / "out")]
    subprocess.run([*SCHEDBED, "run", str(scenario), *options], check=True, capture_output=True)
    attempts = read_tables(folder / "out")["attempts"].query("state == 'succeeded'")
    names = {f"job_{number:04d}": name for number, name in enumerate(JOBS, 1)}
    found = attempts.groupby([attempts["job"].map(names), "kind"])["cpu_s"].median()
    return {(str(job), str(kind)): float(found[job, kind]) for job, kind in found.index}


def figures_of(cpu_s: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return the costs by their names in `MovingCosts`, in milliseconds, or in nanoseconds a byte."""
    few, still = cpu_s["few", "reduce"], cpu_s["still", "map"]
    return {
        "attempt, ms": still * 1e3,
        "read, ns/byte": (cpu_s["read", "map"] - still) / (32 * MIB) * 1e9,
        "written, ns/byte": (cpu_s["write", "reduce"] - few) / (32 * MIB) * 1e9,
        "spilled, ns/byte": (cpu_s["spill", "map"] - still) / (16 * MIB) * 1e9,
        "fetch of an output, ms": (cpu_s["many", "reduce"] - few) / 40 * 1e3,
        "fetched, ns/byte": (cpu_s["fetch", "reduce"] - few) / (32 * MIB) * 1e9,
    }


def main() -> None:
    """Run the benchmark, and print its figures beside the values that the simulator uses."""
    given = parser(__doc__).parse_args()
    found: dict[str, list[float]] = {}
    for repeat in range(given.repeats):
        say(f"repeat {repeat + 1} of {given.repeats}")
        with tempfile.TemporaryDirectory() as folder:
            for name, value in figures_of(medians(Path(folder))).items():
                found.setdefault(name, []).append(value)
    taken = (
        HANDLING.attempt_s * 1e3,
        HANDLING.read_byte_s * 1e9,
        HANDLING.written_byte_s * 1e9,
        HANDLING.spilled_byte_s * 1e9,
        HANDLING.fetch_s * 1e3,
        HANDLING.fetched_byte_s * 1e9,
    )
    figures = [
        Figure(name=f"{name}, taken {each:.2g}", values=values)
        for (name, values), each in zip(found.items(), taken, strict=True)
    ]
    publish("handling", "What moving data costs live, and what the simulator takes", figures, given.out)


if __name__ == "__main__":
    main()

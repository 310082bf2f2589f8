"""Measure how fast the simulator is under each policy, with the compiled loop and with Python objects.

    python -m tests.bench.policy_rates [--repeats 3] [--nodes 1000] [--tasks 30000] [--policy P]... [--out FOLDER]

The policies are those of the registry and two of a user: the README's, and examples/policies/earliest_deadline.py.
Jobs and nodes are those of `sim_speed`, without contention. For each policy, the table shows tasks per second of CPU
time in the loop of events, compiled where the policy allows that; the same with objects; the same with faults and
stragglers, for which there are only objects; and tasks per second of elapsed time of the whole command
`schedbed run`, from the command line to the written files. Each run has its own process. A bare heapq loop runs
before each policy as a yardstick.
"""

from __future__ import annotations

import gc
import multiprocessing
import re
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.cluster.faults import PlannedFault
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.scheduler.simulate.compiled.covers import why_not_policy
from schedbed.scheduler.simulate.compiled.run_compiled import run
from schedbed.scheduler.simulate.setup import Stragglers
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from tests.bench.figures import PIVOT, ROOT, Figure, parser, publish, say
from tests.bench.sim_day import take
from tests.bench.sim_speed import LOAD, MAP_SLOTS, MAPS, REDUCES, Columns, bare_loop, make_setup

EXAMPLE = ROOT / "examples" / "policies" / "earliest_deadline.py"
WANTED = 15_000
SLOW_POLICIES = {"ras": 10_000}
TASK_S = 28
COLUMNS = ("loop", "objects", "objects, with faults and stragglers", "whole command", "heapq loop")


def troubles(nodes: int) -> dict[str, Any]:
    """Return fields of a setup: one node of a hundred is lost for a minute, two are slow, and 5% of the
    attempts are stragglers."""
    luck = chance(1, "troubles")
    faults = []
    for number in luck.sample(range(nodes), max(1, nodes * 3 // 100)):
        at_s = luck.uniform(10.0, 150.0)
        kind = "slow" if len(faults) % 3 else "kill"
        faults.append(
            PlannedFault(at_s=at_s, kind=kind, nodes=(f"n{number:05d}",), until_s=at_s + 60.0, cpu=0.3)
        )
    faults.sort(key=lambda fault: fault.at_s)
    return {"faults": tuple(faults), "stragglers": Stragglers(share=0.05, factor=3.0)}


def loop_rate(policy: str, nodes: int, tasks: int, column: str) -> float:
    """Return the ended attempts per second of CPU time of one simulation in this process.

    `column` is one of the first three of the table.
    """
    more = troubles(nodes) if column == COLUMNS[2] else {}
    if column == COLUMNS[0]:
        run(begun("fifo", 1, 1))  # Load the compiled code.
        run(begun("hod", 1, 1))
    simulation = begun(policy, nodes, tasks, **more)
    gc.collect()
    gc.disable()  # as the command does
    began_s = time.process_time()
    if column != COLUMNS[0] or run(simulation) is not None:
        simulation.run()
    return simulation.statistics.ends / (time.process_time() - began_s)


def begun(policy: str, nodes: int, tasks: int, **more: Any) -> Simulation:
    """Return a simulation that has placed its inputs, and whose rows are dropped."""
    return Simulation(make_setup(policy, nodes, tasks, fluid=False, inputs=True, **more), Columns())


def alone(policy: str, nodes: int, tasks: int, column: str) -> float:
    """Return `loop_rate` as measured in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(loop_rate, policy, nodes, tasks, column).result()


def scenario(folder: Path, nodes: int, tasks: int) -> Path:
    """Write a scenario file with about the load of `sim_speed`, and return its path."""
    gap_s = MAPS * TASK_S / (nodes * MAP_SLOTS * LOAD)
    task = {"cpu": f"{TASK_S}s", "read": "64MiB"}
    burn = {
        "app": "synthetic",
        "maps": MAPS,
        "map": task,
        "reduces": REDUCES,
        "reduce": {"cpu": f"{TASK_S}s"},
    }
    jobs = [
        {"name": "bench", "user": f"u{number % 20}", "submit": f"{number * gap_s:.1f}s", **burn}
        for number in range(max(1, tasks // (MAPS + REDUCES)))
    ]
    node = {"cores": 8, "memory": "16GiB", "disk": "200MB/s", "network": "1Gbit/s"}
    node |= {"map_slots": MAP_SLOTS, "reduce_slots": 2, "core_speed": 1}
    content = {
        "name": "rates",
        "cluster": {"nodes": nodes, "racks": max(1, nodes // 20), "node": node, "heartbeat": "3s"},
        "workload": {"jobs": jobs},
        "simulate": {"contention": False},
        "policies": ["fifo"],
    }
    path = folder / "rates.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def readme_policy(folder: Path) -> str:
    """Write the policy of the README to a file, and return its name for `--policy`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = next(
        text for text in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "def decide" in text
    )
    path = folder / "my_policy.py"
    path.write_text(code, encoding="utf-8")
    [name] = re.findall(r"^class (\w+)", code, re.MULTILINE)
    return f"{path}:{name}"


def of_policy(label: str, policy: str, options: Any, folder: Path, path: Path) -> list[Figure]:
    """Measure one policy, and return a figure for each column of the table. `label` is the row's name."""
    values: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for _ in range(options.repeats):
        values["heapq loop"].append(bare_loop(options.nodes, 300_000))
        for column in COLUMNS[1:3]:
            values[column].append(alone(policy, options.nodes, options.tasks, column))
        compiled = why_not_policy(build_policy(policy), contention=False) is None
        values[COLUMNS[0]].append(
            alone(policy, options.nodes, options.tasks, COLUMNS[0]) if compiled else values[COLUMNS[1]][-1]
        )
        jobs = max(1, options.tasks // (MAPS + REDUCES))
        took = take(folder, str(path), "--policy", policy)
        values["whole command"].append(jobs * (MAPS + REDUCES) / took.wall_s)
    least = SLOW_POLICIES.get(policy, WANTED)
    figures = [
        Figure(
            name=f"{label}{PIVOT}{column}",
            values=values[column],
            unit="tasks/s",
            low=least if column == COLUMNS[0] else None,
        )
        for column in COLUMNS
    ]
    say(f"{label}: " + ", ".join(figure.measured for figure in figures))
    return figures


def main() -> None:
    """Measure all policies, or those that the options name, and publish the table."""
    made = parser(__doc__)
    made.set_defaults(repeats=3)
    made.add_argument("--nodes", type=int, default=1000)
    made.add_argument("--tasks", type=int, default=30_000)
    made.add_argument("--policy", action="append")
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = scenario(folder, options.nodes, options.tasks)
        policies = {policy: policy for policy in options.policy or POLICIES}
        if not options.policy:
            policies["the README's"] = readme_policy(folder)
            policies["earliest_deadline.py"] = f"{EXAMPLE}:EarliestDeadline"
        out = folder / "runs"
        out.mkdir()
        figures = [
            figure
            for label, policy in policies.items()
            for figure in of_policy(label, policy, options, out, path)
        ]
    title = f"Simulator: each policy, {options.tasks:,} tasks on {options.nodes:,} nodes"
    publish("policy_rates", title, figures, options.out)


if __name__ == "__main__":
    main()

"""Measure the largest simulation as a whole command: 100,000 nodes and 10,000,000 tasks, for two policies.

    python -m tests.bench.largest [--repeats 1] [--nodes N] [--tasks N] [--jobs N] [--policy P]... [--out FOLDER]

The command is `schedbed run --machines sim --no-report` on a scenario file with synthetic jobs of about 30 s a
task, whose maps read a block each. It is measured from the command line to the written tables, in its own
process on a host without other work. A bare heapq loop runs in the same minute as a yardstick.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from tests.bench.figures import Figure, parser, publish, say
from tests.bench.sim_day import noted, of_policies, take
from tests.bench.sim_speed import FAIR_DELAY, bare_loop

NODES, TASKS, JOBS = 100_000, 10_000_000, 1_000
USERS, RACK_NODES, MAP_SLOTS, LOAD = 20, 20, 4, 0.9
MINUTES_S = 15 * 60
MEMORY_GIB = 12


def scenario(nodes: int, tasks: int, jobs: int) -> str:
    """Return a scenario file: racks of 20 nodes, and equal jobs that arrive as fast as the nodes can run them.

    A hundredth of the tasks are reduces. The jobs differ in the CPU time of their maps, 20 to 40 s.
    """
    reduces = max(1, tasks // jobs // 100)
    maps = tasks // jobs - reduces
    gap_s = maps * 30.0 / (nodes * MAP_SLOTS * LOAD)
    lines = [
        "name: largest",
        "seed: 1",
        "scale: 1",
        "cluster:",
        f"  nodes: {nodes}",
        f"  racks: {max(1, nodes // RACK_NODES)}",
        "  heartbeat: 3s",
        f"  node: {{cores: 8, core_speed: 1, memory: 16GiB, map_slots: {MAP_SLOTS}, reduce_slots: 2}}",
        "simulate: {contention: false}",
        "policies: [fifo]",
        "workload:",
        "  jobs:",
        *(
            f"    - {{name: j{number}, app: synthetic, user: u{number % USERS}, submit: {number * gap_s:.3f}s, "
            f"maps: {maps}, map: {{cpu: {20 + number % 21}s, read: 64MiB, write: 8MiB}}, "
            f"reduces: {reduces}, reduce: {{cpu: 20s, write: 16MiB}}}}"
            for number in range(jobs)
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the command once or more for each policy, and publish a result file for each."""
    made = parser(__doc__)
    made.set_defaults(repeats=1)
    made.add_argument("--nodes", type=int, default=NODES)
    made.add_argument("--tasks", type=int, default=TASKS)
    made.add_argument("--jobs", type=int, default=JOBS)
    made.add_argument("--policy", action="append")
    options = made.parse_args()
    size = f"{options.tasks:,} tasks in {options.jobs:,} jobs on {options.nodes:,} nodes"
    for policy in options.policy or ("fifo", FAIR_DELAY):
        heap = [bare_loop(1000, 1_000_000) / 1e6 for _ in range(3)]
        took = []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "largest.yaml"
                path.write_text(scenario(options.nodes, options.tasks, options.jobs), encoding="utf-8")
                took.append(take(Path(folder), str(path), "--no-report", *of_policies([policy])))
                shutil.rmtree(folder, ignore_errors=True)
                Path(folder).mkdir()
            say(f"{policy}: {noted(took)}")
        figures = [
            Figure(
                name=size, values=[each.wall_s for each in took], unit="s", high=MINUTES_S, note=noted(took)
            ),
            Figure(
                name="the same: memory",
                values=[each.peak_gib for each in took],
                unit="GiB",
                high=MEMORY_GIB,
            ),
            Figure(name="bare heapq loop before it", values=heap, unit="M/s"),
        ]
        title = f"Simulator: the largest run as a whole command, {policy}"
        publish(f"largest_{re.sub(r'[^a-z]+', '_', policy)}", title, figures, options.out)


if __name__ == "__main__":
    main()

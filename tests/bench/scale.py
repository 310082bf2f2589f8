"""Measure how many nodes one host can run: the time until all send heartbeats, then a workload.

    python tests/bench/scale.py [--repeats 5] [--machines process|docker] [--nodes 24, containers: 50]

Time counts from the command's start to the first heartbeat of the last node. Memory is read every 3 s. For
process nodes it is the largest proportional set size of all processes of the command together, in which
shared memory counts once. For containers it is the largest decrease of the host's available memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED, TreeWatch, adopt_orphans, reap

LOOK_S = 3.0
NODES = {"process": 24, "docker": 50}
UP_S = {"process": 60, "docker": 90}


def scenario(nodes: int) -> dict[str, Any]:
    """Return a scenario with two jobs, whose maps together fill the map slots of all nodes three times.

    The nodes together are declared with 60% of the host's cores.
    """
    speed = round(0.6 * (os.cpu_count() or 1) / nodes, 3)
    node = {"cores": 1, "core_speed": speed, "memory": "512MiB", "map_slots": 1, "reduce_slots": 1}
    map_cost = {"cpu": "4s", "read": "8MiB", "write": "8MiB"}
    job = {
        "app": "synthetic",
        "maps": nodes * 3 // 2,
        "map": map_cost,
        "reduces": 4,
        "reduce": {"cpu": "2s", "write": "8MiB"},
    }
    return {
        "name": "scale",
        "cluster": {"nodes": nodes, "racks": 4, "node": node},
        "blocks": {"size": "8MiB", "replication": 2},
        "workload": {"jobs": [{**job, "user": "ana"}, {**job, "user": "bo"}]},
        "policies": ["fair"],
    }


def available_bytes() -> int:
    """Return the memory of the host that is available to new processes."""
    return psutil.virtual_memory().available


def run_once(machines: str, nodes: int, folder: Path) -> dict[str, float]:
    """Run the workload once.

    Return the seconds until all nodes are up, the seconds of the workload, the memory in GiB, the share of
    jobs that succeeded, and whether the run is trusted (1 or 0).
    """
    (folder / "scale.yaml").write_text(yaml.safe_dump(scenario(nodes)))
    out, memory = folder / "out", 0
    options = ["--out", str(out), "--no-live", "--machines", machines]
    command = [*SCHEDBED, "run", str(folder / "scale.yaml"), *options]
    watch, began_s, free = TreeWatch(), time.time(), available_bytes()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            time.sleep(LOOK_S)
            watch.look()
            used = watch.memory_bytes() if machines == "process" else free - available_bytes()
            memory = max(memory, used)
    reap()
    if process.returncode:
        raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])
    tables = read_tables(out)
    epoch_s = json.loads((out / "run.json").read_text())["runs"][0]["epoch_s"]
    first = tables["heartbeats"].groupby("node")["t"].min()
    assert len(first) == nodes, f"{len(first)} of {nodes} nodes ever sent a heartbeat"
    jobs = tables["jobs"]
    fidelity = json.loads((out / "summary.json").read_text())["fidelity"]
    for why in fidelity["why"]:
        say(why)
    return {
        "up_s": epoch_s + float(first.max()) - began_s,
        "work_s": float(jobs["finish"].max() - jobs["submit"].min()),
        "memory_gib": memory / 2**30,
        "succeeded": float((jobs["state"] == "succeeded").mean()),
        "trusted": float(fidelity["trusted"]),
    }


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--machines", choices=list(NODES), default="process", help="what nodes are made of")
    options.add_argument("--nodes", type=int, help="how many (default 24 of processes, 50 containers)")
    asked = options.parse_args()
    count = asked.nodes or NODES[asked.machines]
    adopt_orphans()
    found: dict[str, list[float]] = {}
    for repeat in range(asked.repeats):
        with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
            once = run_once(asked.machines, count, Path(name))
        say(f"repeat {repeat + 1}: " + ", ".join(f"{key} {value:.3g}" for key, value in once.items()))
        for key, value in once.items():
            found.setdefault(key, []).append(value)
    nodes = f"{count} nodes ({asked.machines})"
    figures = [
        Figure(
            name=f"{nodes}: command's start to the last node's first heartbeat",
            values=found["up_s"],
            unit="s",
            high=UP_S[asked.machines],
        ),
        Figure(name=f"{nodes}: share of jobs that succeeded", values=found["succeeded"], low=1),
        Figure(
            name=f"{nodes}: the workload, first submission to last finish", values=found["work_s"], unit="s"
        ),
        Figure(name=f"{nodes}: memory of everything", values=found["memory_gib"], unit="GiB"),
        Figure(name=f"{nodes}: called itself trusted (1 = yes)", values=found["trusted"]),
    ]
    publish(f"scale_{asked.machines}", "Scale", figures, asked.out)


if __name__ == "__main__":
    main()

"""Measure what the control plane costs: at rest with six and more nodes, and for each heartbeat.

    python tests/bench/control_plane.py [--repeats 5] [--seconds 20] [--nodes 6,24]

At rest: `schedbed run` waits for a job that is submitted in an hour. Measured are the CPU use of every
process of the command, in percent of one core, and the time from the command to the last node's first
heartbeat. Ray's floor is the same for a Ray with as many actors that do nothing. A heartbeat: the additional
CPU time of masters and TaskTrackers when heartbeats are five times as frequent, so that their constant costs
cancel out. A loop of bare forks in the same minute serves as a yardstick. `core_heartbeat.py` measures the
core alone.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.workspace import scratch
from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED, adopt_orphans, reap, started

SIZES = "6,24"
IDLE = {6: 3.0, 24: 7.0, 200: 40.0}  # percent of a core
UP_S = {6: 4.0, 24: 8.0, 100: 30.0}
MEMORY_GIB = {200: 4.0}
HEARTBEAT_S, OFTEN = 0.5, 5
FORKS = 300
ACTORS = 3
SETTLE_S = 8.0
GROUPS: tuple[str, ...] = ("Ray's own processes", "masters", "TaskTrackers", "agents", "command")
BOTH_ENDS = ("masters", "TaskTrackers")


def group_of(command_line: str) -> str:
    """Return which part of the control plane a process with this command line belongs to."""
    if "schedbed.cluster.agent.warm.template" in command_line:
        return "agents"
    if command_line.startswith("ray::TaskTrackerActor"):
        return "TaskTrackers"
    if command_line.startswith(("ray::JobTrackerActor", "ray::NameNodeActor")):
        return "masters"
    if "-m schedbed run" in command_line:
        return "command"
    return "Ray's own processes"


def cpu_by_group(root: psutil.Process) -> dict[str, float]:
    """Return the CPU seconds that `root` and its descendants have used, a dictionary from the groups of
    `GROUPS`.
    """
    used: dict[str, float] = dict.fromkeys(GROUPS, 0.0)
    for process in (root, *root.children(recursive=True)):
        try:
            times, line = process.cpu_times(), " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        used["command" if process == root else group_of(line)] += times.user + times.system
    return used


def memory_bytes(root: psutil.Process) -> int:
    """Return the memory of `root` and its descendants.

    Shared memory counts once (proportional set size, PSS).
    """
    held = 0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            held += process.memory_full_info().pss
    return held


def rest(root: psutil.Process, seconds: float) -> dict[str, float]:
    """Measure the CPU use of `root` and its descendants for `seconds`.

    Return that of each group in percent of one core.
    """
    before, began_s = cpu_by_group(root), time.monotonic()
    time.sleep(seconds)
    after, took_s = cpu_by_group(root), time.monotonic() - began_s
    return {group: (after[group] - before[group]) / took_s * 100 for group in GROUPS}


@dataclass(frozen=True, slots=True)
class AtRest:
    """Measurements of an idle cluster.

    `parts` has the CPU use of each group of processes in percent of one core, `up_s` the seconds from the
    command to the last node's first heartbeat, and `memory_bytes` the memory of all processes (PSS).
    """

    parts: Mapping[str, float]
    up_s: float
    memory_bytes: int


def idle_command(
    folder: Path, nodes: int, heartbeat_s: float = HEARTBEAT_S
) -> tuple[list[str], Callable[[], bool]]:
    """Return a command that runs a cluster of `nodes` idle nodes, and a function that tells whether it has
    sent heartbeats.
    """
    job = {"app": "synthetic", "maps": 1, "map": {"cpu": "1s"}, "submit": "1h"}
    cluster = {"nodes": nodes, "racks": 2, "heartbeat": f"{heartbeat_s}s"}
    (folder / "idle.yaml").write_text(
        yaml.safe_dump(
            {"name": "idle", "cluster": cluster, "workload": {"jobs": [job]}, "policies": ["fifo"]}
        )
    )
    out = folder / "out"
    command = [*SCHEDBED, "run", str(folder / "idle.yaml"), "--out", str(out), "--no-live"]
    return command, lambda: any((out / "parts" / "heartbeats").glob("*.parquet"))


def last_first_heartbeat_s(folder: Path) -> float:
    """Return when the last node of the run in `folder` sent its first heartbeat, in seconds since 1970."""
    epoch_s = json.loads((folder / "out" / "run.json").read_text())["runs"][0]["epoch_s"]
    first_s = read_tables(folder / "out")["heartbeats"].groupby("node")["t"].min()
    return epoch_s + float(first_s.max())


def idle_cluster(folder: Path, seconds: float, nodes: int, heartbeat_s: float = HEARTBEAT_S) -> AtRest:
    """Start the cluster of `idle_command`, let it settle, and measure it for `seconds`."""
    command, ready = idle_command(folder, nodes, heartbeat_s)
    began_s = time.time()
    with started(command, folder / "log", ready, within_s=300) as process:
        time.sleep(SETTLE_S)
        parts = rest(psutil.Process(process.pid), seconds)
        held_bytes = memory_bytes(psutil.Process(process.pid))
    return AtRest(parts, last_first_heartbeat_s(folder) - began_s, held_bytes)


def fork_ms() -> float:
    """Return the milliseconds from a fork until the parent has waited for the child, which ends at once."""
    began_s = time.perf_counter()
    for _ in range(FORKS):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return (time.perf_counter() - began_s) / FORKS * 1e3


class Nothing:
    """An asynchronous actor without any work, which stands for one of schedbed's actors."""

    async def ready(self) -> bool:
        """Return True once the actor is up."""
        return True


class EmptyRay(RayCluster):
    """The Ray cluster of a run, in which idle actors replace the two masters and a host's TaskTrackers."""

    def _start_actors(self) -> None:
        import ray

        options: Mapping[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 100}
        actor: Any = ray.remote(Nothing)
        self.actors = [actor.options(**options).remote() for _ in range(ACTORS)]
        self.wait([actor.ready.remote() for actor in self.actors])


def ray_floor(seconds: float) -> float:
    """Return the CPU use of Ray with idle actors, in percent of one core."""
    with scratch() as base, EmptyRay((), base):
        time.sleep(SETTLE_S)
        found = rest(psutil.Process(), seconds)
    reap()
    return sum(found.values())


def at_rest(repeats: int, seconds: float, sizes: Sequence[int]) -> list[Figure]:
    """Return figures of idle clusters of each of `sizes`, of Ray with idle actors, and of a heartbeat."""
    found: dict[str, list[float]] = {}

    def keep(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for repeat in range(repeats):
        for nodes in sizes:
            with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
                seen = idle_cluster(Path(name), seconds, nodes)
            keep(f"{nodes} total", sum(seen.parts.values()))
            keep(f"{nodes} up", seen.up_s)
            keep(f"{nodes} memory", seen.memory_bytes / 2**30)
            if nodes == sizes[0]:
                with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
                    often = idle_cluster(Path(name), seconds, nodes, HEARTBEAT_S / OFTEN)
                for group in GROUPS:
                    keep(group, seen.parts[group])
                more = sum(often.parts[group] - seen.parts[group] for group in BOTH_ENDS) / 100
                keep("beat", more / (nodes * (OFTEN - 1) / HEARTBEAT_S) * 1e3)
        keep("floor", ray_floor(seconds))
        keep("fork", fork_ms())
        said = ", ".join(f"{name} {values[-1]:.2f}" for name, values in found.items())
        say(f"repeat {repeat + 1}: {said}")
    return [
        Figure(name="a heartbeat, CPU of both ends", values=found["beat"], unit="ms", high=0.3),
        *(
            Figure(
                name=f"{nodes} idle nodes, all processes",
                values=found[f"{nodes} total"],
                unit="%",
                high=IDLE.get(nodes),
            )
            for nodes in sizes
        ),
        *(Figure(name=f"- of {sizes[0]} nodes' {group}", values=found[group], unit="%") for group in GROUPS),
        Figure(name=f"Ray alone with {ACTORS} idle actors", values=found["floor"], unit="%"),
        *(
            Figure(
                name=f"start to the last of {nodes} nodes' first heartbeat",
                values=found[f"{nodes} up"],
                unit="s",
                high=UP_S.get(nodes),
            )
            for nodes in sizes
        ),
        *(
            Figure(
                name=f"memory of {nodes} idle nodes, all processes",
                values=found[f"{nodes} memory"],
                unit="GiB",
                high=MEMORY_GIB.get(nodes),
            )
            for nodes in sizes
        ),
        Figure(name="a bare fork and exit meanwhile", values=found["fork"], unit="ms"),
    ]


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=20.0, help="of rest (default 20)")
    options.add_argument("--nodes", default=SIZES, help=f"at rest, the first in detail (default {SIZES})")
    asked = options.parse_args()
    adopt_orphans()
    figures = at_rest(asked.repeats, asked.seconds, [int(size) for size in asked.nodes.split(",")])
    publish("control_plane", "Control plane", figures, asked.out)


if __name__ == "__main__":
    main()

"""What the control plane costs: at rest with six nodes, and the core alone for each heartbeat.

    python tests/bench/control_plane.py [--repeats 5] [--seconds 20]

At rest: `schedbed run` with one job that is submitted in an hour; CPU of every process of the command, in percent of
one core. Ray's floor is the same Ray with as many actors that do nothing. The core: `core_heartbeat.py`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.workspace import scratch
from schedbed.scheduler.registry.registry import POLICIES
from tests.bench import core_heartbeat
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED, adopt_orphans, reap, started

NODES = 6
SETTLE_S = 8.0
CASES = {"66 nodes, 500 jobs": (66, 500, 40), "1,000 nodes, 500 jobs": (1000, 500, 200)}
FLAT = 1.5
GROUPS: tuple[str, ...] = ("Ray's own processes", "masters", "TaskTrackers", "agents", "command")


def group_of(command_line: str) -> str:
    """Which part of the control plane a process is."""
    if "schedbed.cluster.agent.agent" in command_line:
        return "agents"
    if command_line.startswith("ray::TaskTrackerActor"):
        return "TaskTrackers"
    if command_line.startswith(("ray::JobTrackerActor", "ray::NameNodeActor")):
        return "masters"
    if "schedbed.deploy.cli.main" in command_line:
        return "command"
    return "Ray's own processes"


def cpu_by_group(root: psutil.Process) -> dict[str, float]:
    """CPU seconds so far of a process and all below it."""
    used: dict[str, float] = dict.fromkeys(GROUPS, 0.0)
    for process in (root, *root.children(recursive=True)):
        try:
            times, line = process.cpu_times(), " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        used["command" if process == root else group_of(line)] += times.user + times.system
    return used


def rest(root: psutil.Process, seconds: float) -> dict[str, float]:
    """Percent of one core that each group takes over that time."""
    before, began_s = cpu_by_group(root), time.monotonic()
    time.sleep(seconds)
    after, took_s = cpu_by_group(root), time.monotonic() - began_s
    return {group: (after[group] - before[group]) / took_s * 100 for group in GROUPS}


def idle_cluster(folder: Path, seconds: float) -> dict[str, float]:
    """Six nodes with nothing to do yet, under the command as a user starts it."""
    job = {"app": "synthetic", "maps": 1, "map": {"cpu": "1s"}, "submit": "1h"}
    cluster = {"nodes": NODES, "racks": 2}
    (folder / "idle.yaml").write_text(
        yaml.safe_dump(
            {"name": "idle", "cluster": cluster, "workload": {"jobs": [job]}, "policies": ["fifo"]}
        )
    )
    command = [*SCHEDBED, "run", str(folder / "idle.yaml"), "--out", str(folder / "out"), "--no-live"]

    def ready() -> bool:
        return any((folder / "out" / "parts" / "heartbeats").glob("*.parquet"))

    with started(command, folder / "log", ready, within_s=120) as process:
        time.sleep(SETTLE_S)
        return rest(psutil.Process(process.pid), seconds)


class Nothing:
    """An actor that does nothing, asynchronous as ours are."""

    async def ready(self) -> bool:
        """Answers once it is up."""
        return True


class EmptyRay(RayCluster):
    """The Ray of a run with actors that do nothing: two masters and six TaskTrackers."""

    def _start_actors(self) -> None:
        import ray

        options: Mapping[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 100}
        actor: Any = ray.remote(Nothing)
        self.actors = [actor.options(**options).remote() for _ in range(NODES + 2)]
        self.wait([actor.ready.remote() for actor in self.actors])


def ray_floor(seconds: float) -> float:
    """Percent of one core that Ray and its idle actors take."""
    with scratch() as base, EmptyRay((), base):
        time.sleep(SETTLE_S)
        found = rest(psutil.Process(), seconds)
    reap()
    return sum(found.values())


def at_rest(repeats: int, seconds: float) -> list[Figure]:
    """The cluster, its parts, and what is ours of it."""
    totals: dict[str, list[float]] = {}
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
            parts = idle_cluster(Path(name), seconds)
            floor = ray_floor(seconds)
        total = sum(parts.values())
        for group, share in {**parts, "total": total, "floor": floor, "ours": total - floor}.items():
            totals.setdefault(group, []).append(share)
        say(f"repeat {repeat + 1}: {total:.1f}% of a core, Ray with idle actors alone {floor:.1f}%")
    return [
        Figure(name=f"{NODES} idle nodes, all processes", values=totals["total"], unit="%", high=5),
        *(Figure(name=f"- of it {group}", values=totals[group], unit="%") for group in GROUPS),
        Figure(name=f"Ray alone with {NODES + 2} idle actors", values=totals["floor"], unit="%"),
        Figure(name="what ours adds to Ray", values=totals["ours"], unit="%"),
    ]


def core_alone(repeats: int, beats: int) -> list[Figure]:
    """Median time of a heartbeat in each run, for every policy and a composition."""
    figures = []
    for policy in (*POLICIES, *core_heartbeat.COMPOSED):
        medians: dict[str, list[float]] = {}
        for case, (nodes, jobs, maps) in CASES.items():
            runs = [core_heartbeat.run(policy, nodes, jobs, maps, beats) for _ in range(repeats)]
            medians[case] = [statistics.median(times) * 1e6 for times in runs]
            high = 200 if nodes == 66 else None
            figures.append(
                Figure(name=f"heartbeat, {policy}, {case}", values=medians[case], unit="us", high=high)
            )
        small, large = medians.values()
        growth = [b / a for a, b in zip(small, large, strict=True)]
        figures.append(
            Figure(name=f"heartbeat, {policy}, 1,000 / 66 nodes", values=growth, unit="x", high=FLAT)
        )
        say(f"{policy}: {statistics.median(small):.0f} us, {statistics.median(large):.0f} us")
    return figures


def main() -> None:
    """Measures and prints."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=20.0, help="of rest (default 20)")
    options.add_argument("--beats", type=int, default=4000, help="heartbeats timed in a run (default 4000)")
    options.add_argument("--only", choices=["rest", "core"], help="one of the two halves")
    asked = options.parse_args()
    adopt_orphans()
    figures = [] if asked.only == "core" else at_rest(asked.repeats, asked.seconds)
    figures += [] if asked.only == "rest" else core_alone(asked.repeats, asked.beats)
    publish("control_plane", "Control plane", figures, asked.out)


if __name__ == "__main__":
    main()

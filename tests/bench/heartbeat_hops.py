"""Measure where the CPU time of a heartbeat goes, in the processes of JobTracker and TaskTrackers.

    python tests/bench/heartbeat_hops.py [--repeats 3] [--nodes 200] [--seconds 20]

The nodes are idle, as in control_plane.py. In both processes, the functions named in `POINTS` measure their
CPU time without that of other such functions that they call. The rest of a process's CPU time belongs to the
event loop with its system calls, to the agents' websockets, and to work that does not depend on heartbeats.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.control_plane import HEARTBEAT_S, SETTLE_S, fork_ms, idle_command
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.pass_watch import PassWatch
from tests.bench.proctree import adopt_orphans, started

ENDS = {"ray::JobTrackerActor": "JobTracker", "ray::TaskTrackerActor": "TaskTrackers"}
POINTS = """
import json

used_s, nested, wrote = {}, [], [0.0]


def timed(owner, name, label):
    called = getattr(owner, name)

    def replacement(*given, **named):
        began_s = time.thread_time()
        nested.append(0.0)
        try:
            return called(*given, **named)
        finally:
            whole_s = time.thread_time() - began_s
            used_s[label] = used_s.get(label, 0.0) + whole_s - nested.pop()
            if nested:
                nested[-1] += whole_s
            elif time.monotonic() - wrote[0] > 1.0:
                wrote[0] = time.monotonic()
                passed("used", json.dumps(used_s))

    setattr(owner, name, replacement)


def patch_frames(module):
    timed(module.Frames, "data_received", "frames: JSON and sockets")
    timed(module.Frames, "send", "frames: JSON and sockets")
    timed(module, "frame", "frames: JSON and sockets")


def patch_codec(module):
    timed(module.CallCodec, "take", "frames: checks of types")
    timed(module.CallCodec, "pack", "frames: checks of types")


def patch_core(module):
    timed(module.Core, "heartbeat", "core and policy")


def patch_driver(module):
    timed(module.Driver, "do", "driver and rows")


def patch_journal(module):
    timed(module.Journal, "append", "journal")


def patch_tasktracker(module):
    timed(module.TaskTracker, "_on_heartbeat", "the agent's word")
    timed(module.TaskTracker, "_measured", "the kernel's counters")


def patch_tracker(module):
    timed(module.Tracker, "heartbeat", "the tracker's state")
    timed(module.Tracker, "on_reply", "the tracker's state")


PATCHES = {
    "schedbed.cluster.wire.framing": patch_frames,
    "schedbed.cluster.wire.door_codec": patch_codec,
    "schedbed.scheduler.core.core": patch_core,
    "schedbed.scheduler.driver": patch_driver,
    "schedbed.scheduler.journal": patch_journal,
    "schedbed.cluster.tasktracker": patch_tasktracker,
    "schedbed.cluster.tracker": patch_tracker,
}
"""
REST = "the event loop with its system calls, websockets, and the rest"


def shares(nodes: int, seconds: float) -> dict[str, float]:
    """Run idle nodes once.

    Return milliseconds of CPU a heartbeat, for each part of the JobTracker and of the TaskTrackers.
    """
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        base = Path(name)
        watch = PassWatch.begin(base, POINTS)
        command, ready = idle_command(base, nodes)
        with started(command, base / "log", ready, within_s=300, environment=watch.environment) as process:
            time.sleep(SETTLE_S)
            found = {
                end: each
                for each in psutil.Process(process.pid).children(recursive=True)
                for title, end in ENDS.items()
                if " ".join(each.cmdline()).startswith(title)
            }
            before = {end: (_cpu_s(each), _counted(watch, each.pid)) for end, each in found.items()}
            time.sleep(seconds)
            after = {end: (_cpu_s(each), _counted(watch, each.pid)) for end, each in found.items()}
    heartbeats = nodes * seconds / HEARTBEAT_S
    made: dict[str, float] = {}
    for end in ENDS.values():
        (began_s, counted), (ended_s, counts) = before[end], after[end]
        all_s = ended_s - began_s
        parts = {label: used_s - counted.get(label, 0.0) for label, used_s in counts.items()}
        made[f"{end}, all"] = all_s / heartbeats * 1e3
        for label, used_s in sorted(parts.items(), key=lambda part: -part[1]):
            made[f"- {end}: {label}"] = used_s / heartbeats * 1e3
        made[f"- {end}: {REST}"] = (all_s - sum(parts.values())) / heartbeats * 1e3
    return made


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _counted(watch: PassWatch, pid: int) -> dict[str, float]:
    """Return the CPU seconds of each part of the process `pid` so far."""
    return json.loads([what for point, what, _ in watch.passes(pid) if point == "used"][-1])


def main() -> None:
    """Measure and publish the milliseconds of CPU that each part of a heartbeat takes."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--seconds", type=float, default=20.0, help="of rest (default 20)")
    asked = options.parse_args()
    adopt_orphans()
    runs, forks = [], []
    for repeat in range(asked.repeats):
        runs.append(shares(asked.nodes, asked.seconds))
        forks.append(fork_ms())
        said = ", ".join(f"{label} {value:.3f}" for label, value in runs[-1].items())
        say(f"{repeat + 1} of {asked.repeats}: {said} ms")
    labels = list(dict.fromkeys(label for run in runs for label in run))
    figures = [
        Figure(name=label, values=[run.get(label, 0.0) for run in runs], unit="ms") for label in labels
    ]
    figures.append(Figure(name="- a bare fork and exit meanwhile", values=forks, unit="ms"))
    publish(
        "heartbeat_hops", f"Where a heartbeat's CPU time is: {asked.nodes} idle nodes", figures, asked.out
    )


if __name__ == "__main__":
    main()

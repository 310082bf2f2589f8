"""Where the CPU time of a heartbeat is, in the JobTracker's process and in that of a host's TaskTrackers.

    python tests/bench/heartbeat_hops.py [--repeats 3] [--nodes 200] [--seconds 20]

Idle nodes, as in control_plane.py. A thread in each of the two processes looks every 5 ms at what the thread of its
event loop does, and counts by the innermost module that the stack has of the parts below. The counts share out the
process's CPU time, less what the looking thread takes, among the heartbeats of the same seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.control_plane import BEAT_S, SETTLE_S, fork_ms, idle_command
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.pass_watch import PassWatch
from tests.bench.proctree import adopt_orphans, started

ENDS = {"ray::JobTrackerActor": "JobTracker", "ray::TaskTrackerActor": "TaskTrackers"}
PARTS = {
    "schedbed/scheduler/journal": "journal",
    "schedbed/scheduler/": "core, policy and rows",
    "schedbed/cluster/wire/": "frames: JSON, checks, reconnects",
    "schedbed/cluster/node_usage": "usage by the kernel's counters",
    "schedbed/cluster/machines/": "usage by the kernel's counters",
    "schedbed/": "TaskTrackers' and masters' own steps",
    "json/": "frames: JSON, checks, reconnects",
    "asyncio/": "asyncio",
    "/ray/": "Ray's calls",
}
OTHER = "other"
POINTS = f"""
def sample():
    import collections, json, threading, time

    parts, counts = {PARTS!r}, collections.Counter()

    def part_of(frame):
        while frame is not None:
            name = frame.f_code.co_filename
            if name.endswith("selectors.py"):
                return None
            for part, label in parts.items():
                if part in name:
                    return label
            frame = frame.f_back
        return "{OTHER}"

    def look():
        wrote_s = time.monotonic()
        sys.setswitchinterval(1e-4)  # or it would look only where the loop waits for the kernel
        while True:
            time.sleep(0.005)
            for thread, frame in sys._current_frames().items():
                name = names.get(thread)
                if name is None:
                    names.update((each.ident, each.name) for each in threading.enumerate())
                    name = names.setdefault(thread, "?")
                if name.startswith("AsyncIO") and (label := part_of(frame)) is not None:
                    counts[label] += 1
            if time.monotonic() - wrote_s > 1.0:
                wrote_s = time.monotonic()
                said = dict(counts=counts, own_s=time.thread_time())
                passed("counts", json.dumps(said))

    names = {{}}
    threading.Thread(target=look, daemon=True).start()


PATCHES = {{
    "schedbed.deploy.live.actors.jobtracker_actor": lambda module: begin_in("JobTracker"),
    "schedbed.deploy.live.actors.tasktracker_actor": lambda module: begin_in("TaskTracker"),
}}


def begin_in(which):
    if sys.argv and "default_worker" in sys.argv[0]:
        sample()
"""


def shares(nodes: int, seconds: float) -> dict[str, float]:
    """Run idle nodes once; return milliseconds of CPU a heartbeat by end and part."""
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
            before = {end: (_cpu_s(each), *_counted(watch, each.pid)) for end, each in found.items()}
            time.sleep(seconds)
            after = {end: (_cpu_s(each), *_counted(watch, each.pid)) for end, each in found.items()}
    beats = nodes * seconds / BEAT_S
    made: dict[str, float] = {}
    for end in ENDS.values():
        used_s = after[end][0] - before[end][0] - (after[end][2] - before[end][2])
        counts = after[end][1] - before[end][1]
        made[f"{end}, all"] = used_s / beats * 1e3
        for part, count in counts.most_common():
            made[f"- {end}: {part}"] = used_s / beats * 1e3 * count / max(1, counts.total())
    return made


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _counted(watch: PassWatch, pid: int) -> tuple[Counter[str], float]:
    """Return what a process has counted so far, and the CPU time of the thread that counts."""
    said = [what for point, what, _ in watch.passes(pid) if point == "counts"]
    last = json.loads(said[-1])
    return Counter(last["counts"]), last["own_s"]


def main() -> None:
    """Measure and publish milliseconds a heartbeat."""
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

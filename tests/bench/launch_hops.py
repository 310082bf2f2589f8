"""Measure the hops of a launch: from the JobTracker's answer to task code, and back after its end.

    python tests/bench/launch_hops.py [--repeats 3] [--limits cgroup] [--tasks 300]

The run is that of overhead.py: tasks of 1 s on six process nodes. Each process of the run writes a line when
an attempt passes it (see pass_watch.py). `assigned`, `start` and `end` are those of the attempts table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from tests.bench.control_plane import fork_ms
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.overhead import SHORT_S, SHORT_SPEED, SHORT_TASKS, scenario
from tests.bench.pass_watch import PassWatch
from tests.bench.proctree import SCHEDBED

POINTS = """
def patch_tracker(module):
    before(module.TaskTracker, "_act", "heard", lambda self, answer: answer.specs)
    before(module.TaskTracker, "_on_ended", "tracker knows", lambda self, raw: [raw["attempt"]])


def note_cpu(self, spare, message):
    if message["type"] == "begin":
        passed("cpu " + str(message["setup_cpu_s"]), spare.attempt)
    return []


def patch_agent(module):
    before(module.Attempts, "_on_said", "", note_cpu)
    before(module.Attempts, "launch", "agent", lambda self, raw: [raw["attempt"]])
    before(module.Attempts, "_finish", "agent knows", lambda self, attempt, *_: [attempt])


def patch_spares(module):
    before(module.Spare, "order", "ordered", lambda self, attempt, *_: [attempt])


mine = []  # the attempt that this fork has become


def becomes(setup, spec, *_):
    mine.append(spec["attempt"])
    return mine


def patch_fork(module):
    before(module, "_run", "woke", becomes)
    before(module, "apply_quota", "set up", lambda quota: mine)
    before(module, "_go_first", "limited", lambda: mine)
    before(module, "_say", "begins", lambda line, message: mine if message["type"] == "begin" else [])


PATCHES = {
    "schedbed.cluster.tasktracker": patch_tracker,
    "schedbed.cluster.agent.attempts": patch_agent,
    "schedbed.cluster.agent.warm.spares": patch_spares,
    "schedbed.cluster.agent.warm.fork": patch_fork,
}
"""
LAUNCH = (
    ("assigned", "heard", "JobTracker's answer to the TaskTracker"),
    ("heard", "agent", "TaskTracker to the agent"),
    ("agent", "ordered", "the agent: files, quota, a spare"),
    ("ordered", "woke", "the spare wakes"),
    ("woke", "set up", "the spare: log, rlimit, spec, client"),
    ("set up", "limited", "the spare writes its quota"),
    ("limited", "begins", "the spare says that it begins"),
    ("begins", "start", "to the first line of task code, within its quota"),
)
END = (
    ("end", "agent knows", "last line to the agent"),
    ("agent knows", "tracker knows", "agent to the TaskTracker"),
)
CPU = "- CPU time of the spare, of all it does before its own code"
NEXT = "TaskTracker's heartbeat to the next assignment"


def hops(limits: str, tasks: int) -> dict[str, np.ndarray]:
    """Run the workload once.

    Return a dictionary from hops to their milliseconds, one value for each attempt.
    """
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        base = Path(name)
        watch = PassWatch.begin(base, POINTS)
        (base / "scenario.yaml").write_text(yaml.safe_dump(scenario(SHORT_S, SHORT_SPEED, tasks, limits)))
        command = [*SCHEDBED, "run", "scenario.yaml", "--policy", "fifo", "--no-check", "--out", "out"]
        done = subprocess.run(command, cwd=base, capture_output=True, text=True, env=watch.environment)
        if done.returncode:
            sys.exit(f"the run failed: {done.stderr.strip()}")
        epoch_s = json.loads((base / "out" / "run.json").read_text())["runs"][0]["epoch_s"]
        rows = read_tables(base / "out")["attempts"]
        times: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows.to_dict("records"):
            times[row["attempt"]] |= {key: epoch_s + row[key] for key in ("assigned", "start", "end")}
        used_s: list[float] = []
        for hop, attempt, at_s in watch.passes():
            if hop.startswith("cpu "):
                used_s.append(float(hop.removeprefix("cpu ")))
            else:
                times[attempt].setdefault(hop, at_s)
    found = {label: _between(times, begin, end) for begin, end, label in (*LAUNCH, *END)}
    nodes = dict(zip(rows["attempt"], rows["node"], strict=True))
    found[NEXT] = _to_next(times, nodes)
    found[CPU] = 1e3 * np.array(used_s)
    return found


def _between(times: dict[str, dict[str, float]], begin: str, end: str) -> np.ndarray:
    seen = [each[end] - each[begin] for each in times.values() if begin in each and end in each]
    return 1e3 * np.array(seen)


def _to_next(times: dict[str, dict[str, float]], nodes: dict[str, str]) -> np.ndarray:
    """Return, for each attempt that ended, the milliseconds until the next attempt was assigned to its node.

    `times` has the times at which each attempt passed each point, `nodes` the node of each attempt.
    """
    gaps: list[float] = []
    for node in sorted(set(nodes.values())):
        mine = [each for attempt, each in times.items() if nodes.get(attempt) == node]
        assigned = np.sort([each["assigned"] for each in mine])
        for each in mine:
            if "tracker knows" in each:
                place = int(np.searchsorted(assigned, each["tracker knows"]))
                if place < len(assigned):
                    gaps.append(assigned[place] - each["tracker knows"])
    return 1e3 * np.array(gaps)


def main() -> None:
    """Measure and publish the median and the 99th percentile of each hop."""
    options = parser(__doc__)
    options.add_argument("--limits", default="cgroup", choices=("software", "cgroup"))
    options.add_argument("--tasks", type=int, default=SHORT_TASKS, help=f"short ones (default {SHORT_TASKS})")
    asked = options.parse_args()
    runs, forks = [], []
    for repeat in range(asked.repeats):
        runs.append(hops(asked.limits, asked.tasks))
        forks.append(fork_ms())
        say(
            f"{repeat + 1} of {asked.repeats}: {', '.join(f'{np.median(v):.1f}' for v in runs[-1].values())} ms"
        )
    figures = [
        Figure(
            name=f"{label}, {word}", values=[float(np.percentile(run[label], q)) for run in runs], unit="ms"
        )
        for label in runs[0]
        for word, q in (("p50", 50), ("p99", 99))
    ]
    figures.append(Figure(name="- a bare fork and exit meanwhile", values=forks, unit="ms"))
    publish("launch_hops", "Where a launch's milliseconds are", figures, asked.out)


if __name__ == "__main__":
    main()

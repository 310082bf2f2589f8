"""Measure the stages of a start: from the command to the last node's first heartbeat.

    python tests/bench/start_hops.py [--repeats 5] [--nodes 6]

The run has one job that is submitted in an hour. The command records when it reaches each stage (see
pass_watch.py).
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.control_plane import fork_ms, idle_command, last_first_heartbeat_s
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.pass_watch import PassWatch
from tests.bench.proctree import adopt_orphans, started

POINTS = """
def at(owner, name, point):
    before(owner, name, point, lambda *_: ["command"])


def patch_cluster(module):
    at(module.RayCluster, "_start_ray", "Ray")
    at(module.RayCluster, "_start_actors", "actors")
    at(module.RayCluster, "begin_nodes", "nodes")
    at(module.RayCluster, "introduce", "input")


def patch_session(module):
    at(module.Session, "_begin_clock", "clock")


PATCHES = {
    "schedbed.deploy.cli.main": lambda module: passed("command", "command"),
    "schedbed.deploy.scenario.resolve": lambda module: passed("scenario", "command"),
    "schedbed.deploy.live.live_runs": lambda module: passed("live", "command"),
    "schedbed.deploy.live.ray_cluster": patch_cluster,
    "schedbed.deploy.live.live_session": patch_session,
}
"""
STAGES = (
    ("begin", "the interpreter and the command line's modules"),
    ("command", "the modules that read a scenario"),
    ("scenario", "the scenario is read; Ray's and the masters' modules"),
    ("live", "the scenario is settled, the folder made"),
    ("Ray", "Ray's processes"),
    ("actors", "the actors: two masters, one of the TaskTrackers"),
    ("nodes", "the nodes' agents and warm processes"),
    ("input", "listeners looked at, input loaded"),
    ("clock", "the run's clock to the last first heartbeat"),
    ("heard", ""),
)


def stages(nodes: int) -> dict[str, float]:
    """Start a run once. Return the seconds of each stage."""
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        base = Path(name)
        watch = PassWatch.begin(base, POINTS)
        command, ready = idle_command(base, nodes)
        begun_s = time.time()
        with started(command, base / "log", ready, within_s=300, environment=watch.environment):
            pass
        times = {"begin": begun_s, "heard": last_first_heartbeat_s(base)}
        for point, _, at_s in watch.passes():
            times.setdefault(point, at_s)
    return {label: times[after] - times[point] for (point, label), (after, _) in pairwise(STAGES)} | {
        "in all": times["heard"] - begun_s
    }


def main() -> None:
    """Measure and publish the seconds of each stage."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=6)
    asked = options.parse_args()
    adopt_orphans()
    runs, forks = [], []
    for repeat in range(asked.repeats):
        runs.append(stages(asked.nodes))
        forks.append(fork_ms())
        say(f"{repeat + 1} of {asked.repeats}: {', '.join(f'{value:.2f}' for value in runs[-1].values())} s")
    figures = [Figure(name=label, values=[run[label] for run in runs], unit="s") for label in runs[0]]
    figures.append(Figure(name="- a bare fork and exit meanwhile", values=forks, unit="ms"))
    publish(
        "start_hops", f"Where the seconds of a start are: {asked.nodes} process nodes", figures, asked.out
    )


if __name__ == "__main__":
    main()

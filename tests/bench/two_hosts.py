"""Two hosts that differ: how far a wrong clock and slower cores still show in the tables of a run.

    python tests/bench/two_hosts.py [--repeats 5] [--slower 2] [--ahead -0.08]

Both hosts are namespaces of this machine (root is needed). On the second host, the clock of every Python
process is wrong, and the work of the core trial takes more CPU time. Each host runs one node, and equal maps
of that work run on both nodes. CPU is limited in software: such hosts share the kernel's control groups, and
each would remove those of the other as leftovers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.harness.lan import Lan, LanHost
from tests.harness.strange_host import strange
from tests.live.test_hosts import CLI, ENVIRONMENT, OUR_CODE, finish, start_raylet

HIDDEN = {"head": [], "left": OUR_CODE}
LAUNCH = "least launch latency, any host"
CLOCK = "error of the offset / its stated bound, worst reading"
BOUND = "stated bound, widest"
SPEED = "core speed of the head, measured"
ALIKE_MAX = 0.03
NODE = {"cores": 1, "core_speed": 0.2, "memory": "512MiB", "map_slots": 1, "reduce_slots": 1}
SCENARIO = {
    "name": "two-hosts",
    "cluster": {
        "heartbeat": "250ms",
        "node": NODE,
        "nodes": [{"host": "head", "rack": "a"}, {"host": "left", "rack": "b"}],
    },
    "blocks": {"size": "16MiB", "replication": 2},
    "workload": {
        "jobs": [{"name": "fixed", "app": "fixed_work.py:FixedWork", "maps": 6, "reduces": 1}],
    },
    "policies": ["fifo"],
}
FIXED_WORK = """
from schedbed.cluster.core_trial import CoreTrial


class FixedWork:
    input = "none"

    def map(self, number):
        trial = CoreTrial()
        for _ in range(120):  # what is no such work, and so is not slowed, is 1% of it
            trial.run()
        yield "maps", 1

    def reduce(self, key, values):
        yield key, sum(values)
"""


def measure(head: LanHost, name: str) -> tuple[dict[str, object], pd.DataFrame]:
    """Start a run from the head host. Return its run.json and the attempts that succeeded."""
    (head.folder / "fixed_work.py").write_text(FIXED_WORK)
    (head.folder / "two.yaml").write_text(yaml.safe_dump(SCENARIO))
    command = [*CLI, "run", "/tmp/two.yaml", "--address", "auto", "--no-live"]
    out = head.folder / name
    finish(head.start(out.with_suffix(".log"), *command, "--out", f"/tmp/{name}", **ENVIRONMENT), out)
    attempts = read_tables(out)["attempts"].query("state == 'succeeded'")
    return json.loads((out / "run.json").read_text()), attempts


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--slower", type=float, default=2.0)
    options.add_argument("--ahead", type=float, default=-0.08)
    given = options.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, Lan(Path(folder), HIDDEN) as lan:
        head, left = lan.hosts.values()
        odd = strange(left, ahead_s=given.ahead, slower=given.slower)
        start_raylet(head, "--head", "--port=6379", "--include-dashboard=false")
        start_raylet(left, f"--address={head.address}:6379", **odd)
        for repeat in range(given.repeats):
            say(f"repeat {repeat + 1} of {given.repeats}")
            run, attempts = measure(head, f"run{repeat}")
            for key, value in figures_of(run, attempts, given.ahead).items():
                found.setdefault(key, []).append(value)
    targets = {
        LAUNCH: {"low": 0.0, "unit": "ms"},
        CLOCK: {"high": 1.0, "unit": "x"},
        BOUND: {"unit": "ms"},
        SPEED: {"unit": "x"},
    }
    alike = {"low": 1 - ALIKE_MAX, "high": 1 + ALIKE_MAX}
    figures = [Figure(name=name, values=values, **targets.get(name, alike)) for name, values in found.items()]
    title = f"Two hosts: clock {given.ahead * 1e3:+g} ms, cores {given.slower:g} times slower"
    publish("two_hosts", title, figures, given.out)


def figures_of(run: dict, attempts: pd.DataFrame, ahead_s: float) -> dict[str, float]:
    """Return the figures of one run by name. The second host's clock is ahead by `ahead_s` seconds."""
    readings = [reading for record in run["runs"] for reading in record["hosts"]["left"]["clock"]]
    maps = attempts[attempts["kind"] == "map"].assign(took=lambda rows: rows["end"] - rows["start"])
    found = {
        LAUNCH: float((attempts["start"] - attempts["assigned"]).min() * 1e3),
        CLOCK: max(abs(offset_s - ahead_s) / bound_s for _, offset_s, bound_s in readings),
        BOUND: max(bound_s for *_, bound_s in readings) * 1e3,
        SPEED: run["hosts"]["head"]["core_speed_ratio"],
    }
    names = {job["job"]: job["name"] for job in read_jobs(run)}
    for job, rows in maps.groupby("job"):
        took = rows.groupby("node")["took"].median()
        found[f"time of a map on left / on head, {names.get(str(job), job)}"] = float(took["n2"] / took["n1"])
    return found


def read_jobs(run: dict) -> list[dict]:
    """Return the jobs of the scenario in run.json."""
    return run["scenario"]["jobs"]


if __name__ == "__main__":
    main()

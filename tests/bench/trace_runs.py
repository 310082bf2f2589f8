"""Run recorded traces: python -m tests.bench.trace_runs [--traces DIR] [--limit-tasks N] [--jobs N]

The script simulates each trace of a folder under fifo, fair and delay, on the cluster that schedbed proposes
for it. It prints a line for each: how the jobs ended, or the one line with which the trace was refused. Then
it runs `trace convert` on a generated workload of 187,520 jobs, and prints CPU seconds and memory. The folder
is ../shared/traces by default. Of a trace with more tasks than the limit, only the first jobs run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.simulate.simulation import Simulation, Stuck
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.convert import trace_demands
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.fit_cluster import fit_cluster
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.workloads.from_trace import Assume, synthetic_jobs

POLICIES = ("fifo", "fair", "delay")
MADE_JOBS = 187_520


class _Ends(NoSink):
    """A sink that counts the states in which jobs end."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()

    def job(self, row: Any) -> None:
        self.states[row.state] += 1

    def attempt(self, row: Any) -> None: ...
    def heartbeat(self, row: Any) -> None: ...
    def block(self, row: Any) -> None: ...
    def fault(self, row: Any) -> None: ...


def main() -> int:
    """Return 0 if every trace ran to its end or was refused in one line, and 1 otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--traces", type=Path, default=Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces"))
    )
    parser.add_argument(
        "--limit-tasks", type=int, default=200_000, help="tasks of a trace that are simulated"
    )
    parser.add_argument("--jobs", type=int, default=MADE_JOBS, help="jobs of the trace to convert")
    options = parser.parse_args()
    good = True
    for path in sorted(options.traces.glob("*/*")):
        for line, fine in _outcomes(path, options.limit_tasks):
            print(f"{path.parent.name}/{path.name}: {line}", flush=True)
            good = good and fine
    print(_conversion(options.jobs))
    return 0 if good else 1


def _outcomes(path: Path, limit: int) -> Iterator[tuple[str, bool]]:
    """Yield for each policy a line with the outcome of the trace, and whether the outcome is acceptable."""
    try:
        trace = read_trace(path)
    except BadInput as error:
        yield f"refused: {error}", "\n" not in str(error)
        return
    if trace.topology is not None:
        yield f"a topology of {len(trace.topology.hosts)} hosts", True
        return
    jobs = _jobs_within(trace, limit)
    for policy in POLICIES:
        began_s = time.monotonic()
        try:
            states = _simulate(path, trace, jobs, policy)
        except (BadInput, Stuck) as error:
            yield f"{policy}: {error}", isinstance(error, BadInput) and "\n" not in str(error)
            continue
        took_s = time.monotonic() - began_s
        whole = "" if jobs == len(trace.jobs) else f" of {len(trace.jobs)}"
        yield f"{policy}: {dict(states)}{whole} in {took_s:.1f} s", states == {"succeeded": jobs}


def _jobs_within(trace: Trace, limit: int) -> int:
    tasks = 0
    for number, job in enumerate(synthetic_jobs(trace.jobs, Assume())):
        tasks += len(job.maps) + len(job.reduces)
        if tasks > limit:
            return max(1, number)
    return len(trace.jobs)


def _simulate(path: Path, trace: Trace, jobs: int, policy: str) -> Counter[str]:
    fit = fit_cluster(trace, trace_demands(trace))
    values = {
        "cluster": fit.values(),
        "blocks": {"size": "64MiB", "replication": min(3, fit.nodes)},
        "workload": {"trace": str(path.resolve()), "select": {"jobs": jobs}},
        "policies": [policy],
        "simulate": {"contention": False},
    }
    scenario = resolve(values)
    ends = _Ends()
    Simulation(setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), Latencies()), ends).run()
    return ends.states


def _conversion(jobs: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "made.swf", Path(folder) / "made.yaml"
        with source.open("w") as file:
            file.write("; MaxNodes: 1000\n; MaxProcs: 2000\n")
            file.writelines(_lines(jobs))
        command = [
            sys.executable,
            "-m",
            "schedbed",
            "trace",
            "convert",
            str(source),
            str(out),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    memory = used.ru_maxrss / 1024
    return f"trace convert of {jobs} jobs: {cpu_s:.1f} s of CPU (15 wanted), {memory:.0f} MiB (300 wanted)"


def _lines(jobs: int) -> Iterator[str]:
    coin, at_s = chance(1, "trace runs"), 0
    for number in range(1, jobs + 1):
        at_s += coin.randrange(120)
        run_s, size = int(coin.lognormvariate(6, 1.5)) + 1, coin.choice((1, 1, 2, 4, 8, 16, 32, 64))
        user, wait_s = coin.randrange(50), coin.randrange(100)
        yield f"{number} {at_s} {wait_s} {run_s} {size} {run_s} -1 {size} {2 * run_s} -1 1 {user} 1 -1 0 1 -1 -1\n"


if __name__ == "__main__":
    sys.exit(main())

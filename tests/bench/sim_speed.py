"""Measure how fast the simulator is: all its figures, or one run.

    python tests/bench/sim_speed.py [--repeats 5] [--out FILE]
    python -m tests.bench.sim_speed --nodes N [--tasks N] [--policy P]... [--mode exact|fluid]
        [--engine auto|objects]

The second form prints for each policy tasks/s and events/s (counted as by the simulator SimMR) by elapsed and
by CPU time, the numbers of processed and skipped heartbeats, and the peak memory. It also times a bare heapq
loop over as many tasks in the same process as a yardstick. The first form runs each simulation in its own
process. It reports elapsed time, except for the cost of a task on few and on many nodes, which is CPU time.
Rates exclude the placing of inputs.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.simulate.compiled.run_compiled import run
from schedbed.scheduler.simulate.simulation import Simulation
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.sim_load import LOAD, MAP_SLOTS, Columns, make_setup

MILLION = 1_000_000
FAIR_DELAY = "order=fair,locality=delay"
TARGETS = {
    "exact": {"fifo": 60_000, "fair": 40_000, "delay": 40_000},
    "fluid": {"fifo": 15_000, "fair": 10_000, "delay": 10_000},
}
NAMES = {"exact": "no contention", "fluid": "fluid model with transfers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """Measurements of one simulation.

    `start_s` is the time to place the inputs, `wall_s` and `cpu_s` that of the loop.
    """

    tasks: int
    events: int
    heartbeats: int
    heartbeats_spared: int
    start_s: float
    wall_s: float
    cpu_s: float
    virtual_s: float
    peak_mib: float
    note: str


def bare_loop(nodes: int, tasks: int) -> float:
    """Return the tasks per second of a heap alone, in which each step ends one task and starts the slot's
    next.
    """
    began_s = time.perf_counter()
    heap = [(float(slot), slot) for slot in range(nodes * MAP_SLOTS)]
    for _ in range(tasks):
        at_s, slot = heappop(heap)
        heappush(heap, (at_s + 30.0 + slot % 7, slot))
    return tasks / (time.perf_counter() - began_s)


def compile_loop() -> None:
    """Run a tiny simulation, so that later measurements do not include compilation."""
    run(Simulation(make_setup("fifo", 3, 1, fluid=False, inputs=False), Columns()))


def simulate(
    policy: str,
    nodes: int,
    tasks: int,
    mode: str,
    *,
    engine: str = "auto",
    load: float = LOAD,
    inputs: bool = True,
    skips: bool = True,
) -> MeasuredRun:
    """Simulate the workload of `make_setup` in this process. Return the measurements.

    `mode` is "exact" or "fluid", `engine` is "auto" or "objects" (no compiled loop). With `skips` the
    decisions table has rows of jobs that did not take a node.
    """
    setup = make_setup(policy, nodes, tasks, fluid=mode == "fluid", inputs=inputs, load=load, skip_rows=skips)
    if engine == "auto":
        compile_loop()
    gc.collect()
    gc.disable()  # as the command does
    began_s = time.perf_counter()
    simulation = Simulation(setup, Columns())
    start_s = time.perf_counter() - began_s
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    why = "as asked for" if engine == "objects" else run(simulation)
    if why is not None:
        simulation.run()
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    gc.enable()
    known = simulation.statistics
    return MeasuredRun(
        tasks=known.ends,
        events=known.events,
        heartbeats=known.heartbeats,
        heartbeats_spared=known.heartbeats_elided,
        start_s=start_s,
        wall_s=wall_s,
        cpu_s=cpu_s,
        virtual_s=simulation.now_s,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        note=f"played with objects: {why}" if why is not None else "",
    )


def show(policy: str, run: MeasuredRun) -> None:
    """Print a line with the measurements of a run."""
    if run.note:
        print(f"{policy}: {run.note}")
    print(
        f"{policy:8} {run.tasks:>8} tasks in {run.wall_s:7.1f} s (start {run.start_s:5.1f} s): "
        f"{run.tasks / run.wall_s:8,.0f} tasks/s ({run.tasks / run.cpu_s:8,.0f} by CPU), "
        f"{run.events / run.wall_s:8,.0f} events/s, beats {run.heartbeats} played {run.heartbeats_spared} spared, "
        f"virtual {run.virtual_s:,.0f} s, peak {run.peak_mib:,.0f} MiB",
        flush=True,
    )


def alone(policy: str, nodes: int, tasks: int, mode: str) -> MeasuredRun:
    """Simulate in a new process, so that the measured memory is that of this run only."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        finished = pool.submit(simulate, policy, nodes, tasks, mode).result()
    say(f"{mode} {policy} on {nodes} nodes: {finished.tasks / finished.wall_s:,.0f} tasks/s")
    return finished


def rates(repeats: int) -> list[Figure]:
    """Return tasks per second on 1,000 nodes for each mode and policy."""
    return [
        Figure(
            name=f"{MILLION:,} tasks on 1,000 nodes, {NAMES[mode]}: {policy}",
            values=[run.tasks / run.wall_s for run in runs],
            unit="tasks/s",
            low=low,
            note=f"{runs[0].events / runs[0].wall_s:,.0f} events/s, {runs[0].peak_mib:,.0f} MiB",
        )
        for mode, targets in TARGETS.items()
        for policy, low in targets.items()
        for runs in [[alone(policy, 1000, MILLION, mode) for _ in range(repeats)]]
    ]


def long_run(repeats: int) -> list[Figure]:
    """Return the seconds of a simulation of 1,000,000 tasks on 10,000 nodes."""
    runs = [alone(FAIR_DELAY, 10_000, MILLION, "exact") for _ in range(repeats)]
    return [
        Figure(
            name=f"{MILLION:,} tasks on 10,000 nodes, fair x delay, placing of inputs included",
            values=[run.wall_s + run.start_s for run in runs],
            unit="s",
            high=180,
        ),
        Figure(name="the same: memory", values=[run.peak_mib / 1024 for run in runs], unit="GiB", high=4),
    ]


def growth(repeats: int) -> list[Figure]:
    """Return the CPU time of a task on 100, 1,000 and 10,000 nodes at the same load a node.

    Under delay scheduling, a table's rows of jobs that decline a node become more with the number of running
    jobs, and thus with the number of nodes.
    """
    figures: list[Figure] = []
    for policy in ("fair", FAIR_DELAY):
        costs_us: dict[int, list[float]] = {nodes: [] for nodes in (100, 1000, 10_000)}
        for _ in range(repeats):
            for nodes, costs in costs_us.items():
                run = alone(policy, nodes, MILLION // 4, "exact")
                costs.append(1e6 * run.cpu_s / run.tasks)
        for nodes, costs in costs_us.items():
            figures.append(Figure(name=f"CPU a task on {nodes:,} nodes: {policy}", values=costs, unit="us"))
        ratios = [much / few for few, much in zip(costs_us[100], costs_us[10_000], strict=True)]
        name = f"CPU a task, 10,000 nodes / 100: {policy}"
        figures.append(Figure(name=name, values=ratios, unit="x", high=1.5))
    return figures


def main() -> None:
    """Publish all figures, or print a line for each policy if the options describe one run."""
    made = parser(__doc__)
    made.add_argument("--nodes", type=int)
    made.add_argument("--tasks", type=int)
    made.add_argument("--policy", action="append")
    made.add_argument("--mode", choices=("exact", "fluid"))
    made.add_argument("--no-inputs", action="store_true", help="maps that read nothing: no NameNode")
    made.add_argument("--no-skips", action="store_true", help="no rows of jobs that did not take a node")
    made.add_argument("--load", type=float, default=LOAD)
    made.add_argument("--engine", choices=("auto", "objects"), default="auto")
    options = made.parse_args()
    if options.nodes or options.tasks or options.policy or options.mode:
        _lines(options)
    else:
        compile_loop()
        repeats = options.repeats
        publish("sim_speed", "Simulator", rates(repeats) + long_run(repeats) + growth(repeats), options.out)


def _lines(options: argparse.Namespace) -> None:
    nodes, tasks = options.nodes or 1000, options.tasks or MILLION
    print(f"bare heapq loop: {bare_loop(nodes, tasks):,.0f} tasks/s")
    for policy in options.policy or ("fifo", "fair", "delay"):
        finished = simulate(
            policy,
            nodes,
            tasks,
            options.mode or "exact",
            engine=options.engine,
            load=options.load,
            inputs=not options.no_inputs,
            skips=not options.no_skips,
        )
        show(policy, finished)


if __name__ == "__main__":
    main()

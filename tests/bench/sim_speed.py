"""Measure how fast the simulator is: all its figures, or one run.

    python tests/bench/sim_speed.py [--repeats 5] [--out FILE]
    python -m tests.bench.sim_speed --nodes N [--tasks N] [--policy P]... [--mode exact|fluid]
        [--engine auto|objects]

The second form prints for each policy tasks/s and events/s (counted as by the simulator SimMR) by elapsed and
by CPU time, the numbers of processed and skipped heartbeats, and the peak memory. It also times a bare heapq
loop over as many tasks in the same process as a yardstick. The first form runs each simulation in its own
process. It reports elapsed time, except for the cost of a task on few and on many nodes, which is CPU time.
Rates exclude the placing of inputs. Jobs of 500 maps and 10 reduces keep the slots busy; the inputs of their maps
have three replicas.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.compiled.run_compiled import run
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, JobSpec
from schedbed.tasks.workloads.planned import InputFile, PlannedJob
from tests.bench.figures import Figure, parser, publish, say

MAPS, REDUCES = 500, 10
MAP_SLOTS, REDUCE_SLOTS = 4, 2
MIB = 2**20
LOAD = 0.95
"""Work that arrives for each second of a map slot. Near 1 and beyond the backlog, and with it the cost under delay,
grows with the length of the run."""
MILLION = 1_000_000
FAIR_DELAY = "order=fair,locality=delay"
TARGETS = {
    "exact": {"fifo": 60_000, "fair": 40_000, "delay": 40_000},
    "fluid": {"fifo": 15_000, "fair": 10_000, "delay": 10_000},
}
NAMES = {"exact": "no contention", "fluid": "fluid model with transfers"}


class Columns:
    """A sink that keeps rows in batches, as the writer of a table does, then discards and counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Any] = []
        self.decision = self.attempt = self.job = self.heartbeat = self.block = self.fault = self._take

    def columns(self, table: str, data: Any) -> None:
        """Count rows that the compiled loop delivers as whole columns. `table` is their table's name."""
        self.count += len(data)

    def _take(self, row: Any) -> None:
        rows = self._rows
        rows.append(row)
        if len(rows) >= 50_000:
            self.count += len(rows)
            rows.clear()


class Costs:
    """The costs of tasks, of about 30 s each, drawn once.

    With `fluid` they are CPU seconds, and bytes to read, shuffle and write. Otherwise they are fixed
    durations.
    """

    def __init__(self, *, fluid: bool) -> None:
        luck = chance(1, "bench")
        seconds = [luck.lognormvariate(3.2, 0.5) for _ in range(997)]
        self._maps = [self._cost(each, fluid=fluid) for each in seconds]
        self._reduces = [self._cost(each, fluid=fluid, output_bytes=16 * MIB) for each in seconds]
        self.mean_s = sum(seconds) / len(seconds)

    @staticmethod
    def _cost(seconds: float, *, fluid: bool, output_bytes: int = 0) -> TaskCost:
        if not fluid:
            return TaskCost(duration_s=seconds, cpu_s=seconds, read_bytes=MIB)
        return TaskCost(cpu_s=seconds, read_bytes=64 * MIB, output_bytes=output_bytes or 8 * MIB)

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        return self._maps[(len(job.job) * 31 + int(job.job[4:]) * 131 + index) % 997]

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        return self._reduces[(int(job.job[4:]) * 17 + index) % 997]


def make_setup(
    policy: str, nodes: int, tasks: int, *, fluid: bool, inputs: bool, load: float = LOAD, **changes: Any
) -> Setup:
    """Return the setup of a simulation: a cluster with racks of 20 nodes, and jobs that arrive as fast as it
    can run them.

    `load` is the work that arrives for each second of a map slot. With `inputs` the maps read blocks;
    `changes` are other fields of the setup.
    """
    costs = Costs(fluid=fluid)
    specs = tuple(
        NodeSpec(
            node=f"n{number:05d}",
            rack=f"r{number // 20:03d}",
            cores=8,
            core_speed=1.0,
            memory_bytes=16 * 2**30,
            disk_bps=200e6,
            network_bps=125e6,
            map_slots=MAP_SLOTS,
            reduce_slots=REDUCE_SLOTS,
        )
        for number in range(nodes)
    )
    cluster = ClusterSpec(
        nodes=specs, heartbeat_s=3.0, blocks=BlockSettings(replication=3 if nodes > 2 else 1)
    )
    gap_s = MAPS * costs.mean_s / (nodes * MAP_SLOTS * load)
    demand = Demand(memory_bytes=2**30)
    jobs, files = [], []
    for number in range(max(1, tasks // (MAPS + REDUCES))):
        path = f"/in/{number}" if inputs else None
        if path is not None:
            files.append(InputFile(path=path, source="filler", blocks=(64 * MIB,) * MAPS))
        jobs.append(
            PlannedJob(
                job=f"job_{number:06d}",
                name="bench",
                app="synthetic",
                user=f"u{number % 20}",
                submit_s=number * gap_s,
                input=path,
                maps=MAPS,
                reduces=REDUCES,
                map_demand=demand,
                reduce_demand=demand,
            )
        )
    return Setup(
        cluster=cluster,
        jobs=jobs,
        files=files,
        costs=costs,
        policy=lambda: build_policy(policy),
        contention=fluid,
        **changes,
    )


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

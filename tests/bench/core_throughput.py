"""Tasks a second of the whole scheduling loop in virtual time: python -m tests.bench.core_throughput [--nodes
N]

A lean event loop simulates nodes whose tasks last a given time. It covers trackers, heartbeats, replies,
policy, core and rows. The end of a task causes a heartbeat; besides, a node with free slots sends one every
interval. Only the time while more jobs wait for submission counts, so that the cluster is full. The script
prints tasks a second by the process's CPU time and by elapsed time, and memory: medians of `--repeats` runs.
"""

from __future__ import annotations

import cProfile
import gc
import heapq
import pstats
import resource
import time
from dataclasses import dataclass, field
from typing import Any

from schedbed.cluster.messages import AttemptReport, Launch, MapOutputs
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.records import Commit, JobEnded
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Counters, Demand, JobSpec, Priority, Split, TaskKind
from tests.bench.figures import Figure, parser, publish, say

HEARTBEAT_S = 3.0
MAP_SLOTS, REDUCE_SLOTS = 4, 2
CHUNK_ROWS = 50_000
DEMAND = Demand(memory_bytes=2**30)
AIMS = {"fifo": 60_000, "fair": 40_000, "delay": 40_000}
"""Tasks a second at 1,000 nodes."""


class Columns:
    """A sink that turns rows into columns in chunks, as a table's writer does, and then discards them."""

    def __init__(self) -> None:
        self.decisions: list[DecisionRow] = []
        self.attempts: list[AttemptRow] = []
        self.jobs: list[JobRow] = []
        self.written = 0

    def decision(self, row: DecisionRow) -> None:
        """Keep the row of an offer and its answer."""
        self.decisions.append(row)

    def attempt(self, row: AttemptRow) -> None:
        """Keep the row of an attempt that ended."""
        self.attempts.append(row)

    def job(self, row: JobRow) -> None:
        """Keep the row of a job that ended."""
        self.jobs.append(row)

    def flush(self) -> None:
        """Convert to columns, and discard, the rows of each table that has a full chunk of them."""
        for rows in (self.decisions, self.attempts, self.jobs):
            if len(rows) >= CHUNK_ROWS:
                self.written += sum(len(column) for column in zip(*rows, strict=True))
                rows.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workload to simulate: jobs of 400 to 600 maps and 5 reduces with `tasks` tasks in all, `active` jobs
    at a time.
    """

    policy: str
    nodes: int
    tasks: int
    active: int


@dataclass(slots=True, kw_only=True)
class Loop:
    """An event loop that simulates the nodes: trackers, running attempts, and future events.

    Times are in seconds.
    """

    core: Core
    trackers: list[Tracker]
    sink: Columns
    specs: list[JobSpec]  # to be submitted, last first
    now_s: float = 0.0
    events: list[tuple[float, int, int, str, float]] = field(default_factory=list)
    count: int = 0
    ended: int = 0
    waiting: list[dict[str, list[str]]] = field(default_factory=list)  # by node: reduces by job
    has_timer: list[bool] = field(default_factory=list)  # by node: has a next heartbeat
    times_s: list[float] = field(default_factory=list)

    def push(self, delay_s: float, place: int, attempt: str) -> None:
        """Schedule an event of node number `place` in `delay_s`: the end of `attempt`, or a heartbeat if
        `attempt` is empty.
        """
        self.count += 1
        heapq.heappush(self.events, (self.now_s + delay_s, self.count, place, attempt, self.now_s))

    def run(self, *, full: bool) -> None:
        """Process events until none is left. With `full`, stop when the last job has been submitted."""
        trackers, events, pop, push = self.trackers, self.events, heapq.heappop, self.push
        while events and (self.specs or not full):
            self.now_s, _, place, attempt, began_s = pop(events)
            tracker = trackers[place]
            if attempt:
                self.ended += 1
                tracker.on_ended(
                    AttemptReport(
                        attempt=attempt,
                        state="succeeded",
                        start_s=began_s,
                        end_s=self.now_s,
                        counters=Counters(cpu_s=1.0, read_local_bytes=1000, output_bytes=100),
                    )
                )
            else:
                self.has_timer[place] = False
            self.heartbeat(place, tracker)
            if not self.has_timer[place] and len(tracker.running) < MAP_SLOTS and not self.core.all_ended():
                self.has_timer[place] = True
                push(HEARTBEAT_S, place, "")

    def heartbeat(self, place: int, tracker: Tracker) -> None:
        """Send the heartbeat of node number `place` to the core, carry out the core's effects, and start what
        the reply says.
        """
        core = self.core
        reply = core.heartbeat(self.now_s, tracker.heartbeat())
        for effect in core.take_effects():
            if type(effect) is Commit:
                core.committed(self.now_s, effect.attempt)
        for effect in core.take_effects():
            if type(effect) is JobEnded:
                self.sink.flush()
                self.submit()
        for action in tracker.on_reply(reply):
            if type(action) is Launch:
                if action.kind is TaskKind.MAP:
                    self.push(self.times_s[self.count & 1023], place, action.attempt)
                else:
                    self.waiting[place].setdefault(action.job, []).append(action.attempt)
            elif type(action) is MapOutputs and action.all_done:
                for attempt in self.waiting[place].pop(action.job, ()):
                    self.push(5.0, place, attempt)

    def submit(self) -> None:
        """Submit the next job, if there is one."""
        if self.specs:
            self.core.submit(self.now_s, self.specs.pop())


def make_loop(case: Case) -> tuple[Loop, int]:
    """Return the loop of a cluster in racks of 40 nodes with its jobs, and the number of all tasks."""
    sink = Columns()
    config = CoreConfig(heartbeat_s=HEARTBEAT_S, expiry_s=1e9)
    core = Core(config, build_policy(case.policy), sink)
    names = [f"n{number:05d}" for number in range(case.nodes)]
    for number, name in enumerate(names):
        core.register(0.0, make_node(name, f"r{number // 40}"), 1)
    luck = chance(1, "throughput")
    splits = [
        tuple(
            Split(index=index, hosts=tuple(luck.sample(names, 3)), block=f"b{index}", length=2**26)
            for index in range(luck.randint(400, 600))
        )
        for _ in range(40)
    ]
    specs: list[JobSpec] = []
    tasks = 0
    while tasks < case.tasks:
        specs.append(make_job(len(specs), splits[len(specs) % len(splits)]))
        tasks += specs[-1].maps + specs[-1].reduces
    loop = Loop(core=core, trackers=[Tracker(name, 1) for name in names], sink=sink, specs=specs[::-1])
    loop.waiting = [{} for _ in names]
    loop.has_timer = [True] * len(names)
    loop.times_s = [luck.uniform(20, 40) for _ in range(1024)]
    for place in range(len(names)):
        loop.push(place * HEARTBEAT_S / len(names), place, "")
    for _ in range(case.active):
        loop.submit()
    return loop, tasks


def make_node(name: str, rack: str) -> NodeSpec:
    """Return a node with four map slots and two reduce slots."""
    return NodeSpec(
        node=name,
        rack=rack,
        cores=8,
        core_speed=1.0,
        memory_bytes=8 * 2**30,
        disk_bps=1e8,
        network_bps=1e8,
        map_slots=MAP_SLOTS,
        reduce_slots=REDUCE_SLOTS,
    )


def make_job(number: int, splits: tuple[Split, ...]) -> JobSpec:
    """Return job `number` with a map for each split and five reduces.

    Twenty users and all priorities take turns.
    """
    return JobSpec(
        job=f"job_{number:04d}",
        name="bench",
        app="synthetic",
        user=f"u{number % 20}",
        priority=list(Priority)[number % 5],
        submit_s=float(number),
        splits=splits,
        reduces=5,
        map_demand=DEMAND,
        reduce_demand=DEMAND,
    )


def run(case: Case, *, profile: bool) -> tuple[float, float]:
    """Simulate `case`. Return tasks per second of CPU time and per second of elapsed time.

    With `profile`, also print the functions that took the most time.
    """
    gc.unfreeze()
    loop, tasks = make_loop(case)
    gc.collect()
    gc.freeze()
    profiler = cProfile.Profile() if profile else None
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    if profiler is not None:
        profiler.runcall(loop.run, full=True)
    else:
        loop.run(full=True)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    timed = loop.ended
    loop.run(full=False)
    assert loop.ended == tasks and loop.core.all_ended() and not loop.specs, (loop.ended, tasks)
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    return timed / cpu_s, timed / wall_s


def main() -> None:
    """Run the benchmark and print its table."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--tasks", type=int, default=200_000)
    options.add_argument("--active", type=int, default=40, help="jobs at any time")
    options.add_argument("--policy", action="append", help="several are allowed; default fifo, fair, delay")
    options.add_argument(
        "--gc", type=int, default=0, help="threshold of the youngest generation; default 0, off"
    )
    options.add_argument("--profile", action="store_true", help="one run each under cProfile")
    asked: Any = options.parse_args()
    gc.set_threshold(asked.gc, 50, 100)
    figures: list[Figure] = []
    for policy in asked.policy or AIMS:
        case = Case(policy=policy, nodes=asked.nodes, tasks=asked.tasks, active=asked.active)
        found = [run(case, profile=asked.profile) for _ in range(1 if asked.profile else asked.repeats)]
        for place, clock in enumerate(("CPU", "wall")):
            values = [pair[place] for pair in found]
            name = f"{policy}, {asked.nodes:,} nodes, {asked.tasks:,} tasks: tasks a second by {clock} time"
            aim = AIMS.get(policy) if asked.nodes == 1000 else None
            figures.append(Figure(name=name, values=values, low=aim))
        say(f"{policy}: {figures[-2].measured} by CPU time")
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures.append(Figure(name="most memory of the process", values=[memory_mib], unit="MiB"))
    publish("core_throughput", "Core throughput", figures, asked.out)


if __name__ == "__main__":
    main()

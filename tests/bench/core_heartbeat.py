"""Measure what a heartbeat and a tick cost the core alone under each policy of the registry, on a full
cluster.

    python tests/bench/core_heartbeat.py [--repeats 5] [--beats 4000] [--policies fifo,fair] [--out FOLDER]

500 jobs of 20 users in 10 queues, with deadlines and profiles, run on 66 nodes and on 1,000 nodes. Each
heartbeat ends the oldest map of its node. A minimal model replaces the trackers, so that only
`Core.heartbeat` and `Core.tick` are timed, in CPU time of the thread. A tick comes every emulated half
second; policies with a solver or a placement compute it in ticks. The maps that a heartbeat starts are also
reported, since a heartbeat that starts none costs less. `first round` is the time of the first heartbeats of
all nodes, which are empty before (verma2011, section 7.3: under a second).
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Counters, Demand, JobSpec, Priority, Split, TaskKind
from tests.bench.figures import PIVOT, Figure, parser, publish, say
from tests.harness.declared_costs import TABLE_2

JOBS, USERS, QUEUES, HEARTBEAT_S = 500, 20, 10, 0.5
GIB = 2**30
CASES: Mapping[str, tuple[int, int]] = {"66 nodes": (66, 40), "1,000 nodes": (1000, 200)}
"""Nodes, and the mean number of maps a job."""
MAP_SLOTS, REDUCE_SLOTS = 8, 4
SLOTS = MAP_SLOTS + REDUCE_SLOTS
FULL, MOST_ROUNDS = 0.95, 40
"""Heartbeats are timed once this share of all slots is taken, or after that number of rounds if slots stay free."""
COMPOSED = ("order=fair,locality=delay,admission=containers",)
PROFILE = JobProfile(map=Times(20, 30), typical_shuffle=Times(5, 8), reduce=Times(20, 25)).to_json()
SHARES = {
    "queues": {f"q{number}": {"capacity": 100 / QUEUES, "max_capacity": 40} for number in range(QUEUES)}
}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "capacity": SHARES | {"user_limit_factor": 4},
    "csla": SHARES | {"user_limit_factor": 4},
    "aria": {"profiles": {f"u{number}/{app}": PROFILE for number in range(USERS) for app in TABLE_2}},
    "fgcs": {"profiles": "none"},
    "ras": {"profiles": TABLE_2},
}
"""What policies need to have work to do here; the others run with their defaults."""
NEWER = ("hod", "dp", "lsps", "coshh", "pd", "balancedpool", "mrcp", "mimp", "lsap", "lsap-fair", "easy")
OLDER_US, NEWER_US, FIRST_ROUND_MS, FLAT = 200, 1000, 1000, 1.5


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
        map_slots=4,
        reduce_slots=2,
    )


def make_job(number: int, splits: tuple[Split, ...]) -> JobSpec:
    """Return job `number` with a map for each split and five reduces.

    Twenty users and all priorities take turns.
    """
    demand = Demand(memory_bytes=2**30)
    return JobSpec(
        job=f"job_{number:04d}",
        name="bench",
        app="synthetic",
        user=f"u{number % 20}",
        priority=list(Priority)[number % 5],
        submit_s=float(number),
        splits=splits,
        reduces=5,
        map_demand=demand,
        reduce_demand=demand,
    )


@dataclass(slots=True)
class Costs:
    """CPU seconds of heartbeats and ticks on a full cluster, and of the first heartbeats of all nodes
    together.
    """

    first_round_s: float = 0.0
    heartbeats_s: list[float] = field(default_factory=list[float])
    ticks_s: list[float] = field(default_factory=list[float])
    launched: int = 0


def make_core(policy: str, nodes: int, maps: int) -> Core:
    """Return the core of a cluster in four racks with all jobs submitted.

    Each job has `maps` maps, whose inputs have three replicas on random nodes.
    """
    built = build_policy({policy: dict(ARGUMENTS.get(policy, {}))} if policy in POLICIES else policy)
    core = Core(CoreConfig(slowstart=0.0), built, NoSink())
    names = [f"n{number}" for number in range(nodes)]
    for number, name in enumerate(names):
        core.register(0.0, node_of(name, f"r{number % 4}"), 1)
    luck = chance(1, "bench")
    for number in range(JOBS):
        splits = tuple(
            Split(index=index, hosts=tuple(luck.sample(names, 3)), block=f"b{number}_{index}", length=2**26)
            for index in range(luck.randint(maps // 2, maps * 3 // 2))
        )
        core.submit(0.0, job_of(number, splits, luck.uniform(100, 4000)))
    return core


def node_of(name: str, rack: str) -> NodeSpec:
    """Return a node with eight map slots and four reduce slots, and one core more than slots, which the
    policy FGCS reserves.
    """
    slots = {"map_slots": MAP_SLOTS, "reduce_slots": REDUCE_SLOTS}
    return replace(make_node(name, rack), cores=SLOTS + 1, memory_bytes=16 * GIB, **slots)


def job_of(number: int, splits: tuple[Split, ...], deadline_s: float) -> JobSpec:
    """Return job `number`, an application with a profile. Users and queues take turns."""
    app = list(TABLE_2)[number % len(TABLE_2)]
    job = replace(make_job(number, splits), name=app, app=app, submit_s=0.0, reduces=4)
    return replace(job, queue=f"q{number % QUEUES}", deadline_s=deadline_s)


def run(policy: str, nodes: int, maps: int, heartbeats: int) -> Costs:
    """Fill a cluster by rounds of heartbeats, then time `heartbeats` heartbeats and the ticks between them."""
    core = make_core(policy, nodes, maps)
    held: list[list[tuple[str, TaskKind]]] = [[] for _ in range(nodes)]
    luck, costs, full_from = chance(2, "load"), Costs(), MOST_ROUNDS * nodes
    gc.collect()
    count = 0
    while count < full_from + heartbeats:
        place, now_s = count % nodes, count * HEARTBEAT_S / nodes
        if place == 0:
            full = sum(map(len, held)) >= FULL * SLOTS * nodes and count >= nodes
            full_from = min(full_from, count) if full else full_from
            start_s = time.thread_time()
            core.tick(now_s)
            costs.ticks_s.append(time.thread_time() - start_s)
        heartbeat = _heartbeat(count, nodes, now_s, held[place], luck, ends=count >= nodes)
        start_s = time.thread_time()
        reply = core.heartbeat(now_s, heartbeat)
        took_s = time.thread_time() - start_s
        started = [(each.attempt, each.kind) for each in reply.actions if isinstance(each, Launch)]
        held[place] += started
        if count < nodes:
            costs.first_round_s += took_s
        elif count >= full_from:
            costs.heartbeats_s.append(took_s)
            costs.launched += len(started)
        count += 1
    return costs


def _heartbeat(
    count: int, nodes: int, now_s: float, held: list[tuple[str, TaskKind]], luck: Any, *, ends: bool
) -> Heartbeat:
    """Return the next heartbeat of a node. With `ends` it reports that the node's oldest map has ended.

    `held` lists the node's running attempts. Reduces never end, as they wait while maps run.
    """
    oldest = next((entry for entry in held if entry[1] is TaskKind.MAP), None) if ends else None
    finished: tuple[AttemptReport, ...] = ()
    if oldest is not None:
        held.remove(oldest)
        counters = Counters(cpu_s=luck.uniform(0, 10), read_local_bytes=luck.randint(0, 10**9))
        finished = (
            AttemptReport(
                attempt=oldest[0], state="succeeded", start_s=now_s - 10, end_s=now_s, counters=counters
            ),
        )
    return Heartbeat(
        node=f"n{count % nodes}",
        incarnation=1,
        sequence=count // nodes,
        finished=finished,
        running=tuple(AttemptStatus(attempt=name, progress=0.5, phase="map") for name, _ in held),
        usage=Usage(cpu_util=luck.random(), disk_util=luck.random()),
    )


def measured(policy: str, repeats: int, heartbeats: int) -> list[Figure]:
    """Return the figures of a policy, named `POLICY | COLUMN`, with a value for each repeat."""
    figures: list[Figure] = []
    medians: list[list[float]] = []
    for case, (nodes, maps) in CASES.items():
        runs = [run(policy, nodes, maps, heartbeats) for _ in range(repeats)]
        medians.append([statistics.median(each.heartbeats_s) * 1e6 for each in runs])
        high_us = (NEWER_US if policy in NEWER else OLDER_US) if nodes == 66 else None
        columns: dict[str, tuple[list[float], str, float | None]] = {
            "median": (medians[-1], "us", high_us),
            "p99": ([statistics.quantiles(each.heartbeats_s, n=100)[-1] * 1e6 for each in runs], "us", None),
            "maps started": ([each.launched / heartbeats for each in runs], "", None),
            "first round": (
                [each.first_round_s * 1e3 for each in runs],
                "ms",
                FIRST_ROUND_MS if nodes == 66 else None,
            ),
            "longest tick": ([max(each.ticks_s) * 1e3 for each in runs], "ms", None),
        }
        figures += [
            Figure(name=f"{policy}{PIVOT}{case}: {column}", values=values, unit=unit, high=high)
            for column, (values, unit, high) in columns.items()
        ]
    growth = [large / small for small, large in zip(*medians, strict=True)]
    figures.append(Figure(name=f"{policy}{PIVOT}1,000 / 66 nodes", values=growth, unit="x", high=FLAT))
    say("; ".join(f"{each.name} {each.measured}" for each in figures))
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--beats", type=int, default=4000, help="heartbeats timed in a run (default 4000)")
    options.add_argument("--policies", help="only these names (default: all of the registry)")
    asked = options.parse_args(arguments)
    names = asked.policies.split(",") if asked.policies else (*POLICIES, *COMPOSED)
    figures = [each for name in names for each in measured(name, asked.repeats, asked.beats)]
    publish("core_heartbeat", "The core alone", figures, asked.out)


if __name__ == "__main__":
    main()

"""What published policies cost a heartbeat, at 66 nodes and 500 jobs: python -m tests.bench.policies [--beats N]

Prints CPU time, medians of 5 runs, for each policy: of a heartbeat once every node is full (median and p99; each
ends a map and reports loads), and of all first heartbeats together, which place 528 maps of 500 jobs once around
(verma2011, section 7.3: under a second). All jobs have deadlines, profiles, ten queues and counters.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Counters, Demand, JobSpec, Split, TaskKind

NODES, JOBS, MAPS = 66, 500, 40
GIB = 2**30
PROFILE = JobProfile(map=Times(20, 30), typical_shuffle=Times(5, 8), reduce=Times(20, 25)).to_json()
QUEUES = {f"q{number}": {"capacity": 10, "max_capacity": 40} for number in range(10)}
POLICIES = {
    "fifo": "fifo",
    "fair": "fair",
    "delay": "delay",
    "dtss": "dtss",
    "dtss, auto": "dtss:p=auto",
    "capacity": {"capacity": {"queues": QUEUES, "user_limit_factor": 4}},
    "csla": "csla",
    "aria": {"aria": {"profiles": {f"u{number}/bench": PROFILE for number in range(20)}}},
    "aria, no profiles": {"aria": {"profiles": "none"}},
    "fgcs": {"fgcs": {"profiles": "none"}},
}


def make_core(policy: object) -> Core:
    """The cluster and all jobs; maps have three replicas each, at random."""
    core = Core(CoreConfig(), build_policy(policy), NoSink())  # type: ignore[arg-type]
    names = [f"n{number}" for number in range(NODES)]
    for number, name in enumerate(names):
        spec = NodeSpec(
            node=name,
            rack=f"r{number % 4}",
            cores=13,
            core_speed=1.0,
            memory_bytes=16 * GIB,
            disk_bps=1e8,
            network_bps=1e8,
            map_slots=8,
            reduce_slots=4,
        )
        core.register(0.0, spec, 1)
    luck = chance(1, "bench")
    demand = Demand(memory_bytes=GIB)
    for number in range(JOBS):
        core.submit(
            0.0,
            JobSpec(
                job=f"job_{number:04d}",
                name="bench",
                app="synthetic",
                user=f"u{number % 20}",
                queue=f"q{number % 10}",
                deadline_s=luck.uniform(100, 4000),
                splits=tuple(
                    Split(
                        index=index,
                        hosts=tuple(luck.sample(names, 3)),
                        block=f"b{number}_{index}",
                        length=2**26,
                    )
                    for index in range(luck.randint(MAPS // 2, MAPS * 3 // 2))
                ),
                reduces=4,
                map_demand=demand,
                reduce_demand=demand,
            ),
        )
    return core


def run(policy: object, beats: int) -> tuple[float, list[float]]:
    """Seconds of the first heartbeats of all nodes together, and of each heartbeat once they are full."""
    core = make_core(policy)
    running: list[list[tuple[str, TaskKind]]] = [[] for _ in range(NODES)]
    luck = chance(2, "load")
    times: list[float] = []
    gc.collect()
    for count in range(NODES * 3 + beats):
        place = count % NODES
        now_s = count * 0.5 / NODES
        held = running[place]
        ended = next((entry for entry in held if entry[1] is TaskKind.MAP), None)
        finished: tuple[AttemptReport, ...] = ()
        if ended is not None and count >= NODES:
            held.remove(ended)
            counters = Counters(cpu_s=luck.uniform(0, 10), read_local_bytes=luck.randint(0, 10**9))
            finished = (
                AttemptReport(
                    attempt=ended[0], state="succeeded", start_s=now_s - 10, end_s=now_s, counters=counters
                ),
            )
        beat = Heartbeat(
            node=f"n{place}",
            incarnation=1,
            sequence=count // NODES,
            finished=finished,
            running=tuple(AttemptStatus(attempt=name, progress=0.5, phase="map") for name, _ in held),
            usage=Usage(cpu_util=luck.random(), disk_util=luck.random()),
        )
        start_s = time.thread_time()
        reply = core.heartbeat(now_s, beat)
        times.append(time.thread_time() - start_s)
        for action in reply.actions:
            if isinstance(action, Launch):
                held.append((action.attempt, action.kind))
    return sum(times[:NODES]), times[NODES * 3 :]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--beats", type=int, default=3000, help="heartbeats timed in each run")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{'policy':20} {'median us':>10} {'p99 us':>10} {'once around ms':>15}")
    for name, policy in POLICIES.items():
        runs = [run(policy, options.beats) for _ in range(options.runs)]
        median = statistics.median(statistics.median(times) for _, times in runs)
        p99 = statistics.median(sorted(times)[int(len(times) * 0.99)] for _, times in runs)
        around = statistics.median(first for first, _ in runs)
        print(f"{name:20} {median * 1e6:10.1f} {p99 * 1e6:10.1f} {around * 1e3:15.1f}", flush=True)


if __name__ == "__main__":
    main()

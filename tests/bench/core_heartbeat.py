"""What a heartbeat costs the core alone: python -m tests.bench.core_heartbeat [--beats N]

Prints CPU microseconds a heartbeat (median, p99; medians of 5 runs) for each policy, at 66 nodes and 500 jobs
and at 1,000 nodes. Trackers are kept by hand so that only `Core.heartbeat` is timed; each heartbeat ends a task.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, JobSpec, Priority, Split
from tests.bench.core_throughput import make_node

CASES = {"66 nodes, 500 jobs": (66, 500, 40), "1,000 nodes, 500 jobs": (1000, 500, 200)}
COMPOSED = ("order=fair,locality=delay,admission=containers",)


def make_core(policy: str, nodes: int, jobs: int, maps: int) -> Core:
    """A cluster in four racks with all jobs submitted; a job's maps have three replicas each, at random."""
    core = Core(CoreConfig(), build_policy(policy), NoSink())
    names = [f"n{number}" for number in range(nodes)]
    for number, name in enumerate(names):
        core.register(0.0, make_node(name, f"r{number % 4}"), 1)
    luck = chance(1, "bench")
    demand = Demand(memory_bytes=2**30)
    for number in range(jobs):
        splits = tuple(
            Split(index=index, hosts=tuple(luck.sample(names, 3)), block=f"b{number}_{index}", length=1)
            for index in range(luck.randint(maps // 2, maps * 3 // 2))
        )
        core.submit(
            0.0,
            JobSpec(
                job=f"job_{number:04d}",
                name="bench",
                app="synthetic",
                user=f"u{number % 20}",
                priority=list(Priority)[number % 5],
                splits=splits,
                reduces=4,
                map_demand=demand,
                reduce_demand=demand,
            ),
        )
    return core


def run(policy: str, nodes: int, jobs: int, maps: int, beats: int) -> list[float]:
    """Seconds of each heartbeat, once every node is full."""
    core = make_core(policy, nodes, jobs, maps)
    running: list[list[str]] = [[] for _ in range(nodes)]
    reducers: list[set[str]] = [set() for _ in range(nodes)]
    times: list[float] = []
    warm = 2 * nodes
    gc.collect()
    for count in range(warm + beats):
        place, sequence = count % nodes, count // nodes
        now_s = count * 0.5 / nodes
        # The oldest map ends; reduces stay, as they do while maps run.
        ended = next((name for name in running[place] if name not in reducers[place]), None)
        finished = ()
        if ended is not None:
            running[place].remove(ended)
            finished = (AttemptReport(attempt=ended, state="succeeded", start_s=0.0, end_s=now_s),)
        beat = Heartbeat(
            node=f"n{place}",
            incarnation=1,
            sequence=sequence,
            finished=finished,
            running=tuple(AttemptStatus(attempt=name, progress=0.5, phase="map") for name in running[place]),
        )
        start_s = time.thread_time()
        reply = core.heartbeat(now_s, beat)
        took_s = time.thread_time() - start_s
        if count >= warm:
            times.append(took_s)
        for action in reply.actions:
            if isinstance(action, Launch):
                running[place].append(action.attempt)
                if action.kind == "reduce":
                    reducers[place].add(action.attempt)
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--beats", type=int, default=4000, help="heartbeats timed in each run")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{'policy':50} {'cluster':24} {'median us':>10} {'p99 us':>10}")
    for policy in (*POLICIES, *COMPOSED):
        for case, (nodes, jobs, maps) in CASES.items():
            runs = [sorted(run(policy, nodes, jobs, maps, options.beats)) for _ in range(options.runs)]
            median = statistics.median(statistics.median(times) for times in runs)
            p99 = statistics.median(times[int(len(times) * 0.99)] for times in runs)
            print(f"{policy:50} {case:24} {median * 1e6:10.1f} {p99 * 1e6:10.1f}", flush=True)


if __name__ == "__main__":
    main()

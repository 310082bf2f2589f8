"""Measure what a control cycle of the policy RAS costs: python -m tests.bench.ras_cycle [--runs N]

The script prints CPU milliseconds of a whole cycle, as median and maximum of the runs, and of the cycle's
longest tick. One cycle is on an empty cluster, the other on a full one, where a tenth of the jobs is new. 20
nodes x 9 jobs is polo2011's experiment.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.core_tables import CoreTables
from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.models.resource_profiles import read_profile
from schedbed.scheduler.policies.ras import Ras
from schedbed.scheduler.view import View
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, JobSpec, Split, TaskKind
from tests.harness.declared_costs import TABLE_2

CASES = {"20 nodes x 9 jobs": (20, 9), "200 nodes x 100 jobs": (200, 100)}


class Timed(Ras):
    """The policy RAS, with a list of the CPU seconds of its ticks for each cycle."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.cycles: list[list[float]] = []

    def tick(self, view: View) -> None:
        """Call `Ras.tick` and record its CPU time."""
        begins = self._cycle is None
        start_s = time.thread_time()
        super().tick(view)
        took_s = time.thread_time() - start_s
        if begins:
            self.cycles.append([])
        self.cycles[-1].append(took_s)


def make_core(policy: Ras, nodes: int) -> Core:
    """Return the core of a cluster of `nodes` nodes without jobs."""
    core = Core(CoreConfig(slowstart=0.0, expiry_s=1e9), policy, NoSink())
    for number in range(nodes):
        core.register(
            0.0,
            NodeSpec(
                node=f"n{number}",
                rack=f"r{number % 4}",
                cores=4,
                core_speed=1.0,
                memory_bytes=2**31,
                disk_bps=1e8,
                network_bps=1e8,
                map_slots=4,
                reduce_slots=2,
            ),
            1,
        )
    return core


def submit(core: Core, numbers: range) -> None:
    """Submit the jobs `numbers`.

    The applications of Table 2 take turns, and every second job has a deadline.
    """
    demand = Demand(memory_bytes=2**28)
    for number in numbers:
        luck = chance(1, "bench", number)
        app = list(TABLE_2)[number % 3]
        splits = tuple(Split(index=index) for index in range(luck.randint(20, 800)))
        core.submit(
            0.0,
            JobSpec(
                job=f"job_{number:04d}",
                name=app,
                app=app,
                user="ana",
                splits=splits,
                reduces=20 if app == "sort" else 1,
                deadline_s=luck.uniform(100, 5000) if number % 2 else None,
                map_demand=demand,
                reduce_demand=demand,
            ),
        )


def fill(policy: Ras, view: CoreTables) -> None:
    """Start all tasks that the policy proposes, as heartbeats of all nodes would."""
    for node in view.nodes.values():
        for kind in TaskKind:
            while (proposal := policy.decide(view, node, kind)) is not None:
                view.launch(node, kind, proposal)  # type: ignore[attr-defined]


def run(nodes: int, jobs: int) -> list[list[float]]:
    """Run two cycles, on an empty and on a full cluster. Return the CPU seconds of the ticks of each."""
    policy = Timed(profiles={"resources": {name: read_profile(raw) for name, raw in TABLE_2.items()}})
    core = make_core(policy, nodes)
    now_s, early = 0.0, jobs - max(1, jobs // 10)
    for begin_s, numbers in ((0.0, range(early)), (100.0, range(early, jobs))):
        now_s = max(now_s, begin_s)
        submit(core, numbers)
        core.tick(now_s)
        while policy._cycle is not None:
            now_s += 0.5
            core.tick(now_s)
        fill(policy, core.ledger)
    return policy.cycles


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(
        f"{'cluster':24} {'cycle':8} {'ticks':>6} {'median ms':>10} {'most ms':>10} {'longest tick ms':>16}"
    )
    for case, (nodes, jobs) in CASES.items():
        runs = [run(nodes, jobs) for _ in range(options.runs)]
        for place, name in enumerate(("empty", "full")):
            cycles = [cycles[place] for cycles in runs]
            sums = [sum(ticks) * 1000 for ticks in cycles]
            longest = max(max(ticks) for ticks in cycles) * 1000
            print(
                f"{case:24} {name:8} {len(cycles[0]):6} {statistics.median(sums):10.1f} {max(sums):10.1f}"
                f" {longest:16.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

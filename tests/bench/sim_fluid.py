"""Measure what the simulator's nodes cost: python -m tests.bench.sim_fluid [--tasks N] [--nodes N]

The script prints CPU microseconds a task (median of 5 runs) of the exact and the fluid emulation, without
core or heartbeats. When an attempt ends, its slot gets a new one at once. The cases are: maps that read
locally, compute and spill; the same with every tenth map reading from another node; jobs of 40 maps and 2
reduces that shuffle and write two replicas; and the same with 20 reduces that each fetch from everywhere at
once (`all to all`). About 8 us of each are the benchmark's own. The cyclic garbage collector is off, as a
driver should have it: visiting all objects costs another 20 us a task.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Sequence

from schedbed.cluster.messages import AttemptReport, MapOutput, MapOutputs
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.node_model import AttemptPlan, Emulation, TaskCost
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId, TaskKind

MB = 1_000_000
MAPS = 40
CASES = {  # reduces a job, share of remote reads, known durations
    "exact, maps": (0, 0.0, True),
    "fluid, local maps": (0, 0.0, False),
    "fluid, a tenth remote": (0, 0.1, False),
    "fluid, 2 reduces": (2, 0.1, False),
    "fluid, all to all": (20, 0.1, False),
}


class Blocks:
    """A stand-in for the NameNode: a block's name is its node, and the second replica of an output goes to
    the next node.
    """

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self._nodes = nodes
        self._next = {node: nodes[(number + 1) % len(nodes)] for number, node in enumerate(nodes)}

    def holders(self, block: str) -> Sequence[NodeId]:
        return (block,)

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        return [node, self._next[node]][:replication]

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        pass


class Load:
    """A workload of `tasks` tasks that refills each slot as soon as it is free."""

    def __init__(
        self, emulation: Emulation, nodes: Sequence[NodeId], tasks: int, case: tuple[int, float, bool]
    ) -> None:
        self._emulation = emulation
        self._nodes = nodes
        self._todo = tasks
        self._reduces, self._remote, self._known = case
        self._luck = chance(1, "bench")
        self._number = 0
        self._ran_on: dict[str, NodeId] = {}
        self._left: dict[str, int] = {}  # maps of the job
        self._readers: dict[str, list[NodeId]] = {}
        self._outputs: dict[str, list[MapOutput]] = {}

    def launch(self, now_s: float, node: NodeId) -> None:
        """Start the next task of the workload on `node`."""
        job, index = divmod(self._number, MAPS + self._reduces)
        self._number += 1
        name, luck = f"job_{job}", self._luck
        if index < MAPS:
            block = luck.choice(self._nodes) if luck.random() < self._remote else node
            cost = TaskCost(
                cpu_s=10 + 20 * luck.random(),
                sort_cpu_s=1.0,
                output_bytes=32 * MB,
                duration_s=10 + 20 * luck.random() if self._known else None,
            )
            attempt, kind, blocks, output = f"{name}_m_{index}_0", TaskKind.MAP, ((block, 64 * MB),), None
        else:
            cost = TaskCost(cpu_s=10 + 20 * luck.random(), output_bytes=64 * MB)
            attempt, kind, blocks, output = f"{name}_r_{index}_0", TaskKind.REDUCE, (), "/out"
            self._readers.setdefault(name, []).append(node)
        plan = AttemptPlan(
            attempt=attempt,
            task=attempt[:-2],
            job=name,
            kind=kind,
            index=index if index < MAPS else index - MAPS,
            maps=MAPS,
            reduces=self._reduces,
            cost=cost,
            memory_bytes=0,
            start_s=0.05,
            blocks=blocks,
            output=output,
            replication=2,
        )
        self._ran_on[attempt] = node
        self._emulation.launch(now_s, node, plan)
        if kind is TaskKind.REDUCE and (known := self._outputs.get(name)):
            self._emulation.map_outputs(
                now_s, node, MapOutputs(job=name, outputs=tuple(known), all_done=len(known) == MAPS)
            )

    def ended(self, now_s: float, node: NodeId, report: AttemptReport) -> None:
        """Send a finished map's output to the reduces of its job, and refill the slot."""
        assert report.state == "succeeded", report
        if self._reduces and "_m_" in report.attempt:
            job, index = report.attempt.split("_m_")
            known = self._outputs.setdefault(job, [])
            known.append(MapOutput(index=int(index[:-2]), attempt=report.attempt, node=node))
            for reader in self._readers.get(job, ()):
                news = MapOutputs(job=job, outputs=(known[-1],), all_done=len(known) == MAPS)
                self._emulation.map_outputs(now_s, reader, news)
        if self._todo > self._number:
            self.launch(now_s, node)

    def run(self, slots: int) -> int:
        """Fill `slots` slots on each node, and run until nothing happens any more.

        Return the number of tasks that ended.
        """
        ended = 0
        for slot in range(slots):
            for number, node in enumerate(self._nodes):
                self.launch(0.0005 * (number + slot), node)
        emulation = self._emulation
        while (at_s := emulation.next_s()) < 1e12:
            for node, report in emulation.advance(at_s):
                assert isinstance(report, AttemptReport)
                ended += 1
                self.ended(at_s, node, report)
        return ended


def measure(case: str, nodes: int, tasks: int) -> float:
    """Run a case of `CASES`, and return the CPU microseconds that a task takes."""
    names = [f"n{number}" for number in range(nodes)]
    store = Blocks(names)
    known = CASES[case][2]
    emulation = ExactEmulation(store) if known else FluidEmulation(store)
    for number, name in enumerate(names):
        emulation.node_up(0.0, node_spec(name, f"r{number // 40}"))
    load = Load(emulation, names, tasks, CASES[case])
    gc.collect()
    gc.disable()  # nothing here leaves cycles behind
    began_s = time.process_time()
    ended = load.run(slots=4)
    took_s = time.process_time() - began_s
    gc.enable()
    return took_s / ended * 1e6


def node_spec(name: NodeId, rack: str) -> NodeSpec:
    """Return a node with four cores, three map slots and one reduce slot."""
    return NodeSpec(
        node=name,
        rack=rack,
        cores=4,
        core_speed=1.0,
        memory_bytes=2**34,
        disk_bps=100.0 * MB,
        network_bps=125.0 * MB,
        map_slots=3,
        reduce_slots=1,
    )


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=40_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", choices=CASES, action="append")
    options = parser.parse_args()
    for case in options.case or CASES:
        times = [measure(case, options.nodes, options.tasks) for _ in range(options.repeats)]
        print(
            f"{case:24} {statistics.median(times):8.1f} us a task ({min(times):.1f}..{max(times):.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""A simulation to be timed: jobs of 500 maps and 10 reduces keep the slots busy.

The maps' inputs have three replicas.
"""

from __future__ import annotations

from typing import Any

from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, JobSpec
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

MAPS, REDUCES = 500, 10
MAP_SLOTS, REDUCE_SLOTS = 4, 2
MIB = 2**20
LOAD = 0.95
"""Work that arrives for each second of a map slot. Near 1 and beyond the backlog, and with it the cost under delay,
grows with the length of the run."""


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

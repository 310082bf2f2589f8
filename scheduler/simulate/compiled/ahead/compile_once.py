"""Compile the simulator's fast loop and cache its machine code, unless the cache has it (a program)."""

from __future__ import annotations

import fcntl

from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.compiled.code_cache import is_cached, lock_file
from schedbed.scheduler.simulate.compiled.run_compiled import run
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.specs import Demand, JobSpec
from schedbed.tasks.workloads.planned import PlannedJob

GIB = 1 << 30


class _NoRows(NoSink):
    """A receiver of a simulation's rows that ignores all of them."""

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`: ignore the row."""

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`: ignore the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`: ignore the row."""


class _OneSecond:
    """The costs of tasks that compute for a second."""

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        return TaskCost(cpu_s=1.0)

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        return TaskCost(cpu_s=1.0)


def one_task() -> Setup:
    """Return the setup of a simulation of one task on one node."""
    need = Demand(memory_bytes=GIB)
    node = NodeSpec(
        node="n1",
        rack="r1",
        cores=1,
        core_speed=1.0,
        memory_bytes=4 * GIB,
        disk_bps=1e8,
        network_bps=1e8,
        map_slots=1,
        reduce_slots=1,
    )
    job = PlannedJob(
        job="job_0001", name="one", app="synthetic", user="user", maps=1, map_demand=need, reduce_demand=need
    )
    return Setup(
        cluster=ClusterSpec(nodes=(node,), blocks=BlockSettings(replication=1)),
        jobs=(job,),
        policy=lambda: build_policy("fifo"),
        costs=_OneSecond(),
        latencies=Latencies(),
    )


def compile_loop() -> None:
    """Run a simulation of one task, which compiles the loop. First wait for other processes that compile it."""
    with lock_file() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_cached():
            why = run(Simulation(one_task(), _NoRows()))
            assert why is None, why


if __name__ == "__main__":
    compile_loop()

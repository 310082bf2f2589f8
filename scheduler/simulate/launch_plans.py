"""Conversion of the JobTracker's launch orders to attempt plans, which tell the simulated nodes the cost of
each attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedbed.cluster.messages import Launch
from schedbed.cluster.virtual.node_model import AttemptPlan, TaskCost, part_cost
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.chance import chance, reseed
from schedbed.tasks.specs import TaskKind


class Plans:
    """Makes plans with the costs of attempts, slower for `stragglers` and by `cpu_factors`."""

    def __init__(self, setup: Setup, driver: Driver) -> None:
        self._costs = setup.costs
        self._stragglers, self._cpu_factors = setup.stragglers, setup.cpu_factors
        self._seed = setup.seed
        self._launch_later_s, self._repeat = setup.latencies.launch_later_s, setup.repeat
        self._blocks = setup.cluster.blocks
        self._driver = driver
        self._framework = setup.framework
        self._on_cores: dict[tuple[TaskCost, float], TaskCost] = {}
        self._luck = chance(self._seed, "straggler")  # Seeded again for each attempt.

    def of(self, launch: Launch, start_s: float, core_speed: float) -> AttemptPlan | None:
        """Return a launched attempt's plan, or None after its job's end. `start_s` is without the framework's part."""
        known = self._driver.ledger.jobs.get(launch.job)
        if known is None:
            return None
        told = self._driver.assignment(launch)
        job, blocks = told.job, ()
        if told.kind is TaskKind.MAP:
            cost = self._costs.map_cost(job, told.cost_index)
            if told.part is not None:
                cost = part_cost(cost, told.part)
            block = known.maps.tasks[told.index].split.block
            if block is not None and cost.read_bytes:
                blocks = ((block, cost.read_bytes),)
        else:
            cost = self._costs.reduce_cost(job, told.cost_index)
        if cost.core_speed not in (None, core_speed):
            cost = self._on_core(cost, core_speed)
        if runs := self._cpu_factors.get((launch.job, told.kind)):
            cost = self._drawn(launch.attempt, cost, runs[self._repeat % len(runs)])
        if self._stragglers.share:
            cost = self._slowed(launch.attempt, cost)
        if not job.uber:
            start_s += self._framework.start_s(told.kind, cost)
        if self._launch_later_s:
            start_s += chance(self._seed, "launch", self._repeat, launch.attempt).choice(self._launch_later_s)
        return AttemptPlan(
            attempt=told.attempt,
            task=told.task,
            job=launch.job,
            kind=told.kind,
            index=told.index,
            maps=len(job.splits),
            reduces=job.reduces,
            cost=cost,
            memory_bytes=told.memory_bytes,
            start_s=start_s,
            blocks=blocks,
            output=told.output,
            replication=self._blocks.replication,
            block_bytes=self._blocks.size_bytes,
        )

    def _on_core(self, cost: TaskCost, core_speed: float) -> TaskCost:
        """Return the cost on a core, the same object for equal arguments."""
        found = self._on_cores.get((cost, core_speed))
        if found is None:
            found = self._on_cores[cost, core_speed] = cost.on_core(core_speed)
        return found

    def _drawn(self, attempt: str, cost: TaskCost, factors: Sequence[float]) -> TaskCost:
        return times(cost, chance(self._seed, "cpu", self._repeat, attempt).choice(factors))

    def _slowed(self, attempt: str, cost: TaskCost) -> TaskCost:
        stragglers = self._stragglers
        reseed(self._luck, self._seed, "straggler", attempt)
        if self._luck.random() >= stragglers.share:
            return cost
        return times(cost, stragglers.factor)


def times(cost: TaskCost, factor: float) -> TaskCost:
    """Return a cost with CPU times, and a recorded duration, multiplied."""
    return replace(
        cost,
        cpu_s=cost.cpu_s * factor,
        sort_cpu_s=cost.sort_cpu_s * factor,
        duration_s=None if cost.duration_s is None else cost.duration_s * factor,
    )

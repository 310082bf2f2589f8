"""From the core's launch orders to plans of attempts."""

from __future__ import annotations

from dataclasses import replace

from schedbed.cluster.messages import Launch
from schedbed.cluster.virtual.node_model import AttemptPlan, TaskCost
from schedbed.cluster.virtual.part_costs import part_cost
from schedbed.scheduler.core.entities import MAP
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, task_of


class Plans:
    """Makes the plan of each attempt of the jobs that are running."""

    def __init__(self, setup: Setup) -> None:
        self._costs = setup.costs
        self._stragglers = setup.stragglers
        self._seed = setup.seed
        self._blocks = setup.cluster.blocks
        self._jobs: dict[str, JobSpec] = {}

    def add(self, job: JobSpec) -> None:
        """A job was submitted."""
        self._jobs[job.job] = job

    def drop(self, job: str) -> bool:
        """A job has ended; whether that is news."""
        return self._jobs.pop(job, None) is not None

    def of(self, launch: Launch, start_s: float) -> AttemptPlan | None:
        """The plan of an attempt that takes `start_s` until its first line of code; None when its job has ended."""
        job = self._jobs.get(launch.job)
        if job is None:
            return None
        is_map, index, part = launch.kind is MAP, launch.index, launch.part
        blocks = ()
        if is_map:
            split = job.splits[index] if part is None else part.whole
            cost, demand = self._costs.map_cost(job, split.index), job.map_demand
            if part is not None:
                cost = part_cost(cost, part)
            if split.block is not None and cost.read_bytes:
                blocks = ((split.block, cost.read_bytes),)
        else:
            cost, demand = self._costs.reduce_cost(job, index), job.reduce_demand
        if self._stragglers.share:
            cost = self._slowed(launch.attempt, cost)
        writes_file = not is_map or not job.reduces
        return AttemptPlan(
            attempt=launch.attempt,
            task=task_of(launch.attempt),
            job=launch.job,
            kind=launch.kind,
            index=index,
            maps=len(job.splits),
            reduces=job.reduces,
            cost=cost,
            memory_bytes=demand.memory_bytes,
            start_s=start_s,
            blocks=blocks,
            output=f"/out/{launch.job}/_temporary/{launch.attempt}" if writes_file else None,
            replication=self._blocks.replication,
            block_bytes=self._blocks.size_bytes,
        )

    def _slowed(self, attempt: str, cost: TaskCost) -> TaskCost:
        stragglers = self._stragglers
        if chance(self._seed, "straggler", attempt).random() >= stragglers.share:
            return cost
        factor, duration_s = stragglers.factor, cost.duration_s
        return replace(
            cost,
            cpu_s=cost.cpu_s * factor,
            sort_cpu_s=cost.sort_cpu_s * factor,
            duration_s=None if duration_s is None else duration_s * factor,
        )

"""The simplest cost model of simulations: what synthetic jobs say of their tasks."""

from __future__ import annotations

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.tasks.specs import Cost, JobSpec


class SpecifiedCosts:
    """Costs from the job's own `map_costs` and `reduce_costs`; a job without them costs nothing."""

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """As in `CostModel`."""
        return _of(job.map_costs[index]) if job.map_costs else FREE

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """As in `CostModel`."""
        return _of(job.reduce_costs[index]) if job.reduce_costs else FREE


FREE = TaskCost()


def _of(cost: Cost) -> TaskCost:
    return TaskCost(
        cpu_s=cost.cpu_s,
        read_bytes=cost.read_bytes,
        output_bytes=cost.write_bytes,
        duration_s=cost.duration_s,
    )

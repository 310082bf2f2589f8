"""Task costs that tests declare: for synthetic jobs, and for a paper's three applications."""

from __future__ import annotations

from typing import Any

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.tasks.specs import Cost, JobSpec


class SpecifiedCosts:
    """A `CostModel` that returns the job's own `map_costs` and `reduce_costs`; zero for jobs without them."""

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.map_cost`: return the cost declared for the map."""
        return _of(job.map_costs[index]) if job.map_costs else FREE

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.reduce_cost`: return the cost declared for the reduce."""
        return _of(job.reduce_costs[index]) if job.reduce_costs else FREE


FREE = TaskCost()
TABLE_2: dict[str, Any] = {
    "sort": {
        "map": {"cpu": 30, "io": 45, "memory": 25},
        "shuffle": {"io": 0.15},
        "reduce": {"cpu": 20, "io": 50, "memory": 60},
    },
    "combine": {
        "map": {"cpu": 25, "io": 10, "memory": 10},
        "shuffle": {"io": 0.015},
        "reduce": {"cpu": 10, "io": 10, "memory": 25},
    },
    "select": {
        "map": {"cpu": 15, "io": 20, "memory": 10},
        "shuffle": {"io": 0.015},
        "reduce": {"cpu": 10, "io": 10, "memory": 25},
    },
}
"""Profiles of polo2011, Table 2."""


def _of(cost: Cost) -> TaskCost:
    return TaskCost(
        cpu_s=cost.cpu_s,
        read_bytes=cost.read_bytes,
        output_bytes=cost.write_bytes,
        duration_s=cost.duration_s,
    )

"""A trace as the values of a complete scenario: each job synthetic, its tasks alike but for their variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.tasks.specs import Cost
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.workloads.from_trace import Assume, SyntheticJob, select, synthesize

LOSSES = (
    "a map's own input host is not kept: blocks are placed by `placement`",
    "tasks of a job are alike: their mean, and `variance` for how much their CPU time differs",
)


def scenario_of(trace: Trace, name: str, jobs: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """The scenario's values (times and sizes as traced, a `scale` that suits a laptop), and notes on what was lost."""
    made, notes = synthesize(trace, select(trace.jobs, jobs, 0.0, None), Assume())
    values = {
        "name": name,
        "scale": 0.02,
        "cluster": {"nodes": 6, "racks": 2, "node": {"core_speed": 0.2}, "heartbeat": "200ms"},
        "blocks": {"size": "64MiB", "replication": 3},
        "workload": {"jobs": [_job(job) for job in made]},
        "policies": ["fifo", "fair", "delay"],
    }
    return values, [*notes, *(LOSSES if trace.hosts else LOSSES[1:])]


def _job(job: SyntheticJob) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": job.name,
        "app": "synthetic",
        "user": job.user,
        "queue": job.queue,
        "priority": str(job.priority),
        "submit": f"{job.submit_s:.3f}s",
        **({} if job.deadline_s is None else {"deadline": f"{job.deadline_s:.3f}s"}),
        "maps": len(job.maps),
        "map": _phase(job.maps),
        "reduces": len(job.reduces),
    }
    return values | ({"reduce": _phase(job.reduces)} if job.reduces else {})


def _phase(costs: Sequence[Cost]) -> Mapping[str, Any]:
    """The mean task; a map's read and write are what all of them do together, dealt evenly."""
    cpu_s = [cost.cpu_s for cost in costs]
    mean_s = sum(cpu_s) / len(cpu_s)
    variance = (
        math.sqrt(sum((value - mean_s) ** 2 for value in cpu_s) / len(cpu_s)) / mean_s if mean_s else 0.0
    )
    values = {
        "cpu": f"{mean_s:.3f}s",
        "read": round(sum(cost.read_bytes for cost in costs) / len(costs)),
        "write": round(sum(cost.write_bytes for cost in costs) / len(costs)),
        "variance": round(min(variance, 10.0), 3),
    }
    return {key: value for key, value in values.items() if value}

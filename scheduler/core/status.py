"""The core's state as JSON values for the live display."""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.core.entities import Job, Node
from schedbed.scheduler.core.ledger import Ledger


def status(ledger: Ledger) -> dict[str, Any]:
    """Return the jobs, the nodes and the most recent decisions (without skips) as JSON values.

    Jobs are in order of submission and include recently ended jobs. Nodes are sorted by name.
    """
    jobs = sorted([*ledger.ended.values(), *ledger.jobs.values()], key=lambda job: job.serial)
    return {
        "jobs": [_job(job) for job in jobs],
        "nodes": [_node(ledger.nodes[name]) for name in sorted(ledger.nodes)],
        "recent": [
            {key: value for key, value in row._asdict().items() if key != "kind"} for row in ledger.recent
        ],
    }


def _job(job: Job) -> dict[str, Any]:
    maps, reduces = job.maps, job.reduces
    return {
        "job": job.job,
        "name": job.spec.name,
        "user": job.user,
        "queue": job.queue,
        "state": job.state.value,
        "maps": maps.total,
        "maps_done": maps.done,
        "maps_running": maps.running,
        "reduces": reduces.total,
        "reduces_done": reduces.done,
        "reduces_running": reduces.running,
        "submit_s": job.submit_s,
        "finish_s": job.finish_s,
        "deadline_s": job.deadline_s,
        "reason": job.reason,
    }


def _node(node: Node) -> dict[str, Any]:
    usage = node.usage
    return {
        "node": node.node,
        "rack": node.rack,
        "state": "alive" if node.alive else "lost",
        "incarnation": node.incarnation,
        "cpu_util": usage.cpu_util,
        "disk_util": usage.disk_util,
        "net_util": usage.net_util,
        "memory_bytes": usage.memory_bytes,
        "map_slots": node.spec.map_slots,
        "reduce_slots": node.spec.reduce_slots,
        "running": list(node.attempts),
    }

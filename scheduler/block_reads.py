"""The demand for each input file and node, which the NameNode needs for Scarlett and CDRM."""

from __future__ import annotations

from schedbed.scheduler.view import View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


def reads_of(view: View) -> tuple[dict[str, int], dict[NodeId, tuple[float, int]]]:
    """Return {path: jobs that read it} and {node: (read requests, map slots)}.

    A job reads its inputs until its last map has ended. A running map is one request to its own node if that
    has the block, or else divided equally among the nodes with a replica.
    """
    reading: dict[str, int] = {}
    for job in view.jobs.values():
        if job.maps.unstarted or job.maps.running:
            for path in dict.fromkeys(split.file for split in job.spec.splits if split.file is not None):
                reading[path] = reading.get(path, 0) + 1
    requests = dict.fromkeys((name for name, node in view.nodes.items() if node.alive), 0.0)
    for name, node in view.nodes.items():
        for attempt in node.attempts.values():
            task = attempt.task
            holders = (name,) if name in task.hosts else task.hosts
            for holder in holders if task.kind is MAP else ():
                if holder in requests:
                    requests[holder] += 1.0 / len(holders)
    return reading, {name: (asked, view.nodes[name].spec.map_slots) for name, asked in requests.items()}

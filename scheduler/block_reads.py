"""Counts of current readers of input files, which the JobTracker sends to the NameNode for replication by epochs
(Scarlett, CDRM)."""

from __future__ import annotations

from schedbed.scheduler.view import View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


def reads_of(view: View) -> tuple[dict[str, int], dict[NodeId, tuple[float, int]]]:
    """Return the number of jobs that read each input, and by node its number of read requests and of map slots.

    A job reads its inputs until its last map ends. A running map counts as a request to its own node if that node
    holds the block, else as an equal share of a request to each holder.
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

"""Counts of current reads of input files, for replication by epochs (Scarlett, CDRM).

The JobTracker sends the counts to the NameNode.
"""

from __future__ import annotations

from schedbed.scheduler.view import View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


def reads_of(view: View) -> tuple[dict[str, int], dict[NodeId, tuple[float, int]]]:
    """Return the number of jobs that read each input, and for each live node its read requests and map slots.

    A job counts as a reader of its inputs until its last map has ended. A running map counts as one request
    to its own node if the node holds the block; otherwise each holder of the block counts an equal share of
    the request.
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

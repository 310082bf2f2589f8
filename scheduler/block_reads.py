"""The demand for each input file and node, for the replication policies Scarlett and CDRM.

The JobTracker sends these numbers to the NameNode, which decides how many replicas each file has.
"""

from __future__ import annotations

from schedbed.scheduler.view import View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


def reads_of(view: View) -> tuple[dict[str, int], dict[NodeId, tuple[float, int]]]:
    """Return two dictionaries: readers of each input file, and read requests at each live node.

    The first dictionary maps a file's path to the number of jobs that read the file. A job reads its input
    files until its last map has ended. The second maps a node's name to a pair: the number of read requests,
    and the node's map slots. A running map is one read request to its own node if the node has a replica of
    the map's block. Otherwise the request is divided equally among the nodes with a replica.
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

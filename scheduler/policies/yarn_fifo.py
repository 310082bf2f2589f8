"""The preset `yarn-fifo`: YARN's FifoScheduler, one queue in which each node serves the first job that asks.

Deviation: a container must fit the node's vcores, too; the FifoScheduler looks at memory only, as `admission=memory`.
"""

from __future__ import annotations

from schedbed.scheduler.registry.declarations import Named

POLICY = Named(
    name="yarn-fifo",
    summary="YARN's FifoScheduler: jobs by submit time share the nodes' memory and vcores; each job starts the map "
    "nearest to its data.",
    paper="Hadoop 3.4.1, FifoScheduler",
    order="fifo",
    admission="containers",
    rank=29,
)

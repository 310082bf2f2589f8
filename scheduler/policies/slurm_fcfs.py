"""The preset `slurm-fcfs`: Slurm's plugin sched/builtin (22.05), first come, first served.

Jobs start in the order of their submissions on nodes that select/cons_tres would name; the first job that does not
fit holds back all later ones. Jobs that are over their time limit (`requested`) are looked for every 30 s, and end.
Not modeled: priorities beside the queue's order (priority/multifactor), partitions, and what `easy` says.
"""

from __future__ import annotations

from schedbed.scheduler.policies.easy import PARAMETERS, make_easy
from schedbed.scheduler.registry.declarations import Whole

POLICY = Whole(
    name="slurm-fcfs",
    factory=make_easy,
    summary="Slurm's sched/builtin: rigid jobs start in order of submission; a job ends at its time limit.",
    paper="Slurm 22.05, sched/builtin",
    rigid=True,
    parameters=PARAMETERS,
    defaults={"backfill": "false", "reserve": "nodes", "limit_check": "30s", "slack": "2s"},
)

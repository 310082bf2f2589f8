"""The preset `slurm-backfill`: Slurm's plugin sched/backfill (22.05) over select/cons_tres, with its defaults.

The main scheduler starts jobs in order at each submission and end. Every 30 s (`interval`: bf_interval) a plan is
made from scratch for the first 500 jobs (`depth`: bf_max_job_test), each with a reservation of whole nodes
(`reservations`: bf_job_part_count_reserve, by default for all); a job that the plan starts now is backfilled. With
`reservations=1` this is EASY on Slurm. Jobs that are over their time limit (`requested`) are looked for every 30 s
(`limit_check`, PERIODIC_TIMEOUT), and end. One default differs: times are exact here (bf_resolution is 60 s).
Not modeled: OverTimeLimit and KillWait of killed processes (they end at once), priorities beside the queue's order
(priority/multifactor), partitions, preemption, and what `models.rigid.promised_nodes` says.
"""

from __future__ import annotations

from schedbed.scheduler.policies.easy import PARAMETERS, make_easy
from schedbed.scheduler.registry.declarations import Whole

POLICY = Whole(
    name="slurm-backfill",
    factory=make_easy,
    summary="Slurm's sched/backfill: every 30 s a plan in which each waiting rigid job has whole nodes from a time on; "
    "others start before it if they end by then. A job ends at its time limit.",
    paper="Slurm 22.05, sched/backfill and select/cons_tres",
    rigid=True,
    parameters=PARAMETERS,
    defaults={
        "reservations": "all",
        "reserve": "nodes",
        "interval": "30s",
        "depth": "500",
        "limit_check": "30s",
        "slack": "2s",
    },
)

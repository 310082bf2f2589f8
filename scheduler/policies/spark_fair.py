"""The preset `spark-fair`: Spark's FAIR mode, in which pools share the slots by min share and weight."""

from __future__ import annotations

from schedbed.scheduler.models.pool_tree import spark_pools
from schedbed.scheduler.policies.spark_fifo import PARAMETERS, Spark
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import choice

POLICY = Whole(
    name="spark-fair",
    factory=Spark,
    summary="Spark's FAIR mode: pools share the slots by min share and weight; a job waits for slots near its data.",
    paper="Spark 3.5.5, FairSchedulableBuilder and SchedulingAlgorithm",
    parameters=(
        spark_pools(
            "settings by pool name, as in fairscheduler.xml: weight, min_share (slots), inside (fair or fifo; fifo "
            "by default), and pools (pools in this pool)"
        ),
        choice(
            "pool_by",
            ("queue", "user"),
            "whether a job's pool is its queue (spark.scheduler.pool) or its user",
        ),
        *PARAMETERS,
    ),
    rank=61,
)

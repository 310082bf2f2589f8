"""The settings of a JobTracker that do not depend on the policy."""

from __future__ import annotations

from dataclasses import dataclass

from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.specs import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """The settings of a JobTracker that do not depend on the policy.

    `heartbeat_s`: seconds between heartbeats. `expiry_s`: seconds without a heartbeat after which a node is
    lost; the default is ten heartbeat intervals, at least 3 s. `max_attempts`: number of failures of a task
    at which its job fails. `slowstart`: share of maps that must be done before reduces start.
    `fetch_failures_to_rerun`: number of reports that a map's output cannot be fetched, after which the map
    runs again. `node_failures_to_exclude`: number of failures of a job on a node after which the job avoids
    the node. `records_skips`: whether to record a row for each job that declined an offered node.
    `maps_per_heartbeat`, `reduces_per_heartbeat`: maximum number of tasks that one reply starts; 0 means that
    only free slots limit the number. `sizes`: whether a user's policy reads true, estimated or no costs of
    tasks. Shipped policies read no costs from job specifications. `master`: what the ApplicationMaster of each job
    needs, with which nodes are one pool of memory and vcores for all kinds of tasks, as in YARN; None: no such masters.
    """

    heartbeat_s: float = 0.5
    expiry_s: float | None = None
    max_attempts: int = 4
    slowstart: float = 0.05
    fetch_failures_to_rerun: int = 2
    node_failures_to_exclude: int = 3
    records_skips: bool = True
    sizes: Sizes = TRUE_SIZES
    master: Demand | None = None
    maps_per_heartbeat: int = 0
    reduces_per_heartbeat: int = 0

    @property
    def silence_s(self) -> float:
        """Return the seconds without a heartbeat after which a node is lost."""
        return max(10 * self.heartbeat_s, 3.0) if self.expiry_s is None else self.expiry_s

"""Costs that a MapReduce framework adds to tasks: polls, set-up and clean-up, latencies, limits per
heartbeat.

The simulator and live runs have them (`framework_steps`). The latencies of schedbed's live clusters are in
`cluster.virtual.latencies`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.hooks import hook
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.sizes import Sizes
from schedbed.tasks.specs import Demand, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """The costs of a MapReduce framework, in seconds that the scenario's factor `scale` does not change.

    By default, all costs are zero. `maps_per_heartbeat`, `reduces_per_heartbeat`: largest number of tasks
    that one heartbeat reply starts, where 0 is no limit. `out_of_band`: a node sends a heartbeat immediately
    when a task ends; if false, the next regular heartbeat reports the end. `init_poll_s`, `init_jobs` and
    `init_s` model the thread of Hadoop's CapacityTaskScheduler that initializes jobs. Every `init_poll_s`
    seconds, this thread initializes waiting jobs of each user, until the user has `init_jobs` initialized
    jobs (0: any number) without a started task. A job can start `init_s` seconds later. `jvm_s`: start of a
    JVM, which the recorded duration of a map already contains. `recorded_shuffle`: the shuffle of a reduce
    from a recorded run takes the recorded time after the end of all maps, and `jvm_s` and `fetch_poll_s` are
    not added. `fetch_rate`: limit on the total rate of one reduce's parallel fetches, if attempts share
    resources. `am_heartbeat_s`: with YARN, a job's ApplicationMaster (AM) registers when the job is initialized,
    and calls `allocate` then and at each multiple of this interval later; only such a call learns of granted
    containers and starts attempts in them (RMCommunicator's allocator thread, Hadoop 3.4.1). The job ends with
    its last attempt, of which the AM learns at once, not with the node's report. With 0, there is no AM.
    `late_asks`: an AM's numbers are sent one heartbeat late, so containers come for which no task is left
    (`app_masters.LateAsks`). With `am_memory_bytes`, an AM is a container, which is granted first and registers
    `setup_s` later; nodes are then one pool of memory and vcores, and the AM decides when reduces are asked for
    (`app_masters.MapReduceMaster`).
    """

    name: str = "none"
    maps_per_heartbeat: int = 0
    reduces_per_heartbeat: int = 0
    out_of_band: bool = True
    init_poll_s: float = 0.0  # between polls for jobs to initialize; 0: each job at once
    init_s: float = 0.0  # from a poll, or the submission, until the job is initialized
    init_jobs: int = 0
    setup_s: float = 0.0  # the set-up task of a job, before all other tasks
    cleanup_s: float = 0.0  # the clean-up task, after all other tasks
    localize_s: float = 0.0  # before a node's first task of a job: fetching the job's files
    jvm_s: float = 0.0  # from the start of an attempt to its first line
    fetch_poll_s: float = 0.0  # until a reduce has learned of map outputs and fetched the last one
    recorded_shuffle: bool = False
    fetch_rate: float = 0.0  # bytes/s of one reduce, 0 for no limit
    am_heartbeat_s: float = 0.0
    late_asks: bool = False  # only with AMs
    slowstart: float = 0.05  # share of a job's maps that must be done before its reduces start
    am_memory_bytes: int = 0  # of an AM's container; 0: AMs have no containers
    am_vcores: int = 1
    am_linger_s: float = 0.0  # from a job's end until its AM's container is free

    @property
    def master(self) -> Demand | None:
        """Return what the container of an AM needs, or None if AMs have none."""
        return (
            Demand(memory_bytes=self.am_memory_bytes, vcores=self.am_vcores) if self.am_memory_bytes else None
        )

    def core_config(self, heartbeat_s: float, sizes: Sizes, *, records_skips: bool = True) -> CoreConfig:
        """Return the settings of a JobTracker under the framework."""
        return CoreConfig(
            heartbeat_s=heartbeat_s,
            records_skips=records_skips,
            sizes=sizes,
            slowstart=self.slowstart,
            master=self.master,
            maps_per_heartbeat=self.maps_per_heartbeat,
            reduces_per_heartbeat=self.reduces_per_heartbeat,
        )

    @property
    def is_none(self) -> bool:
        return self == NONE

    def refuses(self, policy: Policy) -> str | None:
        """Return why the policy cannot run under the framework, or None."""
        if self.master is None or hook(policy, "takes_containers"):
            return None
        return (
            f"framework {self.name}: {type(policy).__name__} decides by slots, expected a policy of an order, a "
            "locality and an admission"
        )

    @property
    def news_after_s(self) -> float:
        """Return the seconds from a reply with new map outputs until the node's reduces can fetch these outputs."""
        return 0.0 if self.recorded_shuffle else self.fetch_poll_s

    def start_s(self, kind: TaskKind, cost: TaskCost) -> float:
        """Return the seconds from an attempt's start to the work in `cost`.

        A recorded map includes its JVM's start; a recorded reduce's work begins after the shuffle.
        """
        if kind is TaskKind.MAP:
            return self.jvm_s if cost.duration_s is None else 0.0
        return 0.0 if cost.shuffle_s is not None else self.jvm_s + self.fetch_poll_s

    def cleanup_takes_s(self, heartbeat_s: float) -> float:
        """Return the seconds from a job's last task to its known end, in heartbeats unless `out_of_band`."""
        if self.out_of_band or not self.cleanup_s:
            return self.cleanup_s
        return math.ceil(self.cleanup_s / heartbeat_s) * heartbeat_s


NONE = Framework()
HADOOP1 = Framework(
    name="hadoop1",
    maps_per_heartbeat=1,
    reduces_per_heartbeat=1,
    out_of_band=False,
    init_s=0.5,
    setup_s=1.6,
    cleanup_s=1.6,
    localize_s=1.7,
    jvm_s=0.9,
    fetch_poll_s=1.0,
)
YARN = Framework(  # Measured, see docs/simulator.md.
    name="yarn",
    init_s=0.1,
    setup_s=3.9,
    cleanup_s=0.05,
    localize_s=0.25,
    jvm_s=2.0,
    fetch_poll_s=0.5,
    am_heartbeat_s=1.0,
    late_asks=True,
    am_memory_bytes=2**30,
    am_linger_s=7.1,
)
YARN_BARE = Framework(
    name="yarn-bare", init_s=0.0125, am_heartbeat_s=1.0, late_asks=True
)  # See docs/simulator.md.
SLURM = Framework(name="slurm", localize_s=0.4)  # The handover of a node to a job, see docs/simulator.md.
SPARK = Framework(name="spark", jvm_s=0.05)  # What a task takes more than its work, see docs/simulator.md.
PROFILES: Mapping[str, Framework] = {
    each.name: each for each in (NONE, HADOOP1, YARN, YARN_BARE, SLURM, SPARK)
}
"""The frameworks by name. The values of all but yarn-bare were measured from traces."""

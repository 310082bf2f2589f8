"""FGCS, the Finer Grained CPU Scheduler (liu2015): tasks demand learned fractions of a core.

The first job of a workload (jobs of the same name) is the sample: each of its tasks demands a whole core.
When the sample has succeeded, later jobs of the workload demand the mean CPU use of the sample's maps and of
its reduces, until the log of demands is cleared. The demand of a job is fixed when the job is submitted
(section 2.2.1). Memory and stalled maps are handled by `Containers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.admission.containers import CORE, Containers
from schedbed.scheduler.models.fgcs_demand import (
    WHOLE_CORE,
    DemandMean,
    Demands,
    Hardware,
    TaskUse,
    cpu_demand,
    read_demands,
)
from schedbed.scheduler.models.same_workload import workload_of
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import Limits
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import count, duration, maybe_rate, profiles
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
DEMAND, IO_RATES = "demand", "io_rates"
"""Kinds of profiles: demands by workload; measured {disk_bps, hdfs_bps} by declared disk rate."""


@dataclass(slots=True)
class Sample:
    """The mean CPU demands of a sample job's maps and reduces, updated while the job runs."""

    maps: DemandMean = field(default_factory=DemandMean)
    reduces: DemandMean = field(default_factory=DemandMean)
    hardware: Hardware | None = None


class Fgcs(Containers):
    """Admission axis: declared memory, and the share of a core that earlier tasks of the same workload used.

    `disk_bps`, `hdfs_bps`: full speed of the local disk and of the block store, bytes/s; the default is the
    measured speed (in `profiles`), else the declared disk rate of the node. `shortest_s`: if the sample's
    tasks run for less than this number of seconds on average, later tasks also demand a whole core.
    `profiles`: values of the profile store by kind and name.
    """

    limits = Limits(slots=False, memory=True, vcores=False)
    elidable = True  # Heartbeats that report no change do not affect its answers.
    rests = Containers.rests

    def __init__(
        self,
        *,
        reserved_cores: int = 1,
        shortest_s: float = 5.0,
        disk_bps: float | None = None,
        hdfs_bps: float | None = None,
        profiles: Mapping[str, Mapping[str, Any]] | None = None,
        stall_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(reserved_cores=reserved_cores, stall_timeout_s=stall_timeout_s)
        known = profiles or {}
        self.shortest_s = shortest_s
        self.disk_bps = disk_bps
        self.hdfs_bps = hdfs_bps
        self._rates: Mapping[str, Mapping[str, float]] = known.get(IO_RATES, {})
        self._log: dict[str, Demands] = dict(known.get(DEMAND, {}))
        self._learnt: dict[str, dict[str, Any]] = {}
        self._demands: dict[str, Demands] = {}  # by job
        self._samples: dict[str, Sample] = {}  # by job
        self._ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: read the job's demand from the log, or make the job a sample."""
        known = self._log.get(workload_of(job.spec))
        if known is None or not _is_of(known, view):
            self._samples[job.job] = Sample()
        else:
            self._demands[job.job] = known

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: keep the ready jobs sorted by demand."""
        if job.active and job.stage(kind).ready:
            self._ready[kind].put(job, (self.asks(job, kind), job.serial))
        else:
            self._ready[kind].drop(job)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether the ready job with the least CPU demand fits.

        With this check, a full node is not offered to every job.
        """
        ready = self._ready[kind]
        if not super().room(node, kind) or not ready:
            return False
        return not node.attempts or self.asks(ready.first(), kind) <= self._free_cpu

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add a succeeded task of a sample to the mean CPU demand."""
        sample = self._samples.get(attempt.task.job.job)
        if sample is None or attempt.state != "succeeded" or attempt.started_s is None:
            return
        spec, task = attempt.node.spec, attempt.task
        writes_file = task.kind is REDUCE or not task.job.reduces.total
        use = TaskUse.of(attempt.counters, core_speed=spec.core_speed, writes_file=writes_file)
        mean = sample.maps if task.kind is MAP else sample.reduces
        mean.add(cpu_demand(use, *self._io_rates(spec)), attempt.end_s - attempt.started_s)
        sample.hardware = sample.hardware or hardware_of(spec)

    def _io_rates(self, spec: NodeSpec) -> tuple[float, float]:
        """Return the full speeds of the local disk and of the block store of a node, bytes/s.

        Speeds are the constructor's arguments, else measured speeds, else the declared disk rate.
        """
        measured = self._rates.get(disk_name(spec), {})
        disk_bps = self.disk_bps or measured.get("disk_bps") or spec.disk_bps
        return disk_bps, self.hdfs_bps or measured.get("hdfs_bps") or disk_bps

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: add the demand to the log if the job is a sample that succeeded.

        Only the first sample of a workload in this run is added.
        """
        if self._demands.pop(job.job, None) is not None:
            self.rest_turn += 1  # Attempts that are still being killed now count as a whole core.
        sample = self._samples.pop(job.job, None)
        workload = workload_of(job.spec)
        if sample is None or job.state != "succeeded" or workload in self._learnt:
            return
        found = Demands(
            map=sample.maps.value(self.shortest_s),
            reduce=sample.reduces.value(self.shortest_s),
            hardware=sample.hardware,
        )
        self._log[workload] = found
        self._learnt[workload] = found.to_values()

    def report(self) -> dict[str, Any]:
        """Return the demands measured in this run, to be saved in the profile store for later runs."""
        return {"profiles": {DEMAND: self._learnt}} if self._learnt else {}

    def asks(self, job: JobView, kind: TaskKind) -> float:
        """Implement `Containers.asks`: return the learned demand, in percent of a core, times the vcores."""
        demands = self._demands.get(job.job)
        share = WHOLE_CORE if demands is None else demands.map if kind is MAP else demands.reduce
        return share * job.stage(kind).demand.vcores

    def free_cpu(self, node: NodeView) -> float:
        """Implement `Containers.free_cpu`: subtract the learned demands of the node's attempts."""
        used = sum(self.asks(attempt.task.job, attempt.task.kind) for attempt in node.attempts.values())
        return CORE * (node.spec.cores - self.reserved_cores) - used

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the text added to the reason of a launch: the task's CPU demand and the node's free CPU."""
        return f"asks {self.asks(job, kind):.0f}% of a core, {self.free_cpu(node):.0f}% free"

    def _short_of_cpu(self, asks: float, free_cpu: float) -> str:
        return f"CPU: asks {asks:.0f}% of a core, {free_cpu:.0f}% free"


def hardware_of(spec: NodeSpec) -> Hardware:
    """Return the hardware properties of a node that affect CPU demands: core speed and disk rate."""
    return Hardware(spec.core_speed, spec.disk_bps)


def disk_name(spec: NodeSpec) -> str:
    """Return the name of the profile with the measured rates of the node's type of disk."""
    return f"disk of {spec.disk_bps:.0f} bytes/s"


def _is_of(demands: Demands, view: View) -> bool:
    """Return whether the demands were measured on hardware that a node of the cluster has."""
    hardware = demands.hardware
    return hardware is None or any(hardware_of(node.spec) == hardware for node in view.nodes.values())


AXIS = Axis(
    axis="admission",
    name="fgcs",
    factory=Fgcs,
    summary="memory, and the share of a core that tasks of the same job name have used",
    paper="liu2015",
    parameters=(
        count("reserved_cores", "1", "of each node, for daemons (3.)", "cores"),
        duration("shortest", "5s", "a sample's tasks that run for less ask for a whole core (2.3)"),
        maybe_rate("disk_rate", "full speed of a disk (equation 3): as measured, else as declared"),
        maybe_rate("hdfs_rate", "full speed of the block store: as measured, else that of the disk"),
        profiles(DEMAND, IO_RATES, parse=read_demands),
        duration("stall_timeout", "10s", "until maps without room take that of their job's reduces"),
    ),
    rank=30,
)
POLICY = Named(
    name="fgcs",
    summary="Delay, and a task gets the share of a core that its like have used.",
    paper="liu2015",
    order="fair",
    locality="delay",
    admission="fgcs",
    rank=40,
)

"""FGCS, the Finer Grained CPU Scheduler (liu2015): tasks demand the share of a core that earlier jobs used.

A workload is the jobs of one name. Those submitted before its demand is known are samples, whose tasks demand
a whole core each. The first successful sample gives the mean CPU use of maps and of reduces, which later jobs
demand, fixed at submission (section 2.2.1). `Containers` handles memory and maps that find no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.admission.containers import CORE, Containers
from schedbed.scheduler.admission.node_memo import NodeMemo
from schedbed.scheduler.hooks import Limits, Quiet
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
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, duration, maybe_rate, number, profiles, switch
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
FULL_DISK = 100
"""A node's disk, in percent."""
DEMAND, IO_RATES = "demand", "io_rates"
"""Kinds of profiles: demands by workload; measured {disk_bps, hdfs_bps} by declared disk rate."""


@dataclass(slots=True)
class Sample:
    """The CPU use of a sample job, from which the demand of later jobs is learned.

    The means for maps and for reduces are updated while the job runs.
    """

    maps: DemandMean = field(default_factory=DemandMean)
    reduces: DemandMean = field(default_factory=DemandMean)
    hardware: Hardware | None = None

    def demands(self, shortest_s: float, least: int = 1) -> Demands:
        """Return the demands by the tasks so far; a whole core where fewer than `least` have ended."""
        map_, reduce = (
            mean.value(shortest_s) if mean.tasks >= least else WHOLE_CORE
            for mean in (self.maps, self.reduces)
        )
        return Demands(map=map_, reduce=reduce, hardware=self.hardware)


class Fgcs(Containers):
    """The admission axis of FGCS: a task needs its declared memory free, and its learned share of a CPU.

    The share is learned from the first succeeded job with the same name (the sample). If the sample's tasks
    run for less than `shortest_s` seconds on average, later tasks demand a whole core. `disk_bps` and
    `hdfs_bps` are the full speeds of the local disk and of the block store in bytes/s. If they are None, the
    measured speeds in `profiles` apply, else the node's declared disk rate. `profiles` contains values from
    earlier runs: {kind of profile: {name: values}}. With `disk`, a task also needs the share of the node's disk that
    its learned CPU share leaves of its time: the rest is I/O at the full rates (the paper's future work, section 5).
    A read from another node counts on the reader's, since a task does not know where its blocks will come from.
    With `learn` above 0, a sample's own tasks demand what its first `learn` maps (reduces) used, once these have
    ended; in the paper only later jobs profit, which a workload without repeated job names does not have.
    """

    limits = Limits(slots=False, memory=True, vcores=False)
    rests = Containers.rests

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return super().quiet

    def __init__(
        self,
        *,
        reserved_cores: int = 1,
        shortest_s: float = 5.0,
        disk_bps: float | None = None,
        hdfs_bps: float | None = None,
        profiles: Mapping[str, Mapping[str, Any]] | None = None,
        stall_timeout_s: float = 10.0,
        disk: bool = False,
        learn: int = 0,
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
        self._used_cpu, self._used_disk = NodeMemo(self._sum_cpu), NodeMemo(self._sum_disk)
        self._disk = disk
        self._learn = learn

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: look up the workload's demand, or make the job a sample."""
        known = self._log.get(workload_of(job.spec))
        if known is None or not _is_of(known, view):
            self._samples[job.job] = Sample()
        else:
            self._demands[job.job] = known

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: update the list of ready jobs, which is sorted by CPU demand."""
        if job.active and job.stage(kind).ready:
            self._ready[kind].put(job, (self.asks(job, kind), job.serial))
        else:
            self._ready[kind].drop(job)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room` for the ready job that demands the least CPU: no other needs a check."""
        ready = self._ready[kind]
        if not super().room(node, kind) or not ready:
            return False
        return not node.attempts or self.asks(ready.first(), kind) <= self._free_cpu

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add the CPU use of a sample job's succeeded task to the sample's mean."""
        sample = self._samples.get(attempt.task.job.job)
        if sample is None or attempt.state != "succeeded" or attempt.started_s is None:
            return
        spec, task = attempt.node.spec, attempt.task
        writes_file = task.kind is REDUCE or not task.job.reduces.total
        use = TaskUse.of(attempt.counters, core_speed=spec.core_speed, writes_file=writes_file)
        mean = sample.maps if task.kind is MAP else sample.reduces
        mean.add(cpu_demand(use, *self._io_rates(spec)), attempt.end_s - attempt.started_s)
        sample.hardware = sample.hardware or hardware_of(spec)
        if mean.tasks == self._learn:
            self._demands[task.job.job] = sample.demands(self.shortest_s, self._learn)
            self._forget_sums()
            for kind in TaskKind:
                self.changed(view, task.job, kind)

    def _forget_sums(self) -> None:
        self.rest_turn += 1  # Nodes may have room again: running attempts count with another demand.
        self._used_cpu.clear()
        self._used_disk.clear()

    def _io_rates(self, spec: NodeSpec) -> tuple[float, float]:
        """Return the full rates of disk and block store: as given, else as measured, else as declared."""
        measured = self._rates.get(disk_name(spec), {})
        disk_bps = self.disk_bps or measured.get("disk_bps") or spec.disk_bps
        return disk_bps, self.hdfs_bps or measured.get("hdfs_bps") or disk_bps

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: store the mean CPU use of a workload's first successful sample."""
        if self._demands.pop(job.job, None) is not None:
            self._forget_sums()  # Attempts that are still being killed now count as a whole core.
        sample = self._samples.pop(job.job, None)
        workload = workload_of(job.spec)
        if sample is None or job.state != "succeeded" or workload in self._learnt:
            return
        self._log[workload] = found = sample.demands(self.shortest_s)
        self._learnt[workload] = found.to_values()

    def report(self) -> dict[str, Any]:
        """Return the demands measured in this run as profiles, which the caller stores for later runs."""
        return {"profiles": {DEMAND: self._learnt}} if self._learnt else {}

    def asks(self, job: JobView, kind: TaskKind) -> float:
        """Return the learned demand times vcores, in percent of a core; without one, a whole core each."""
        return self._share(job, kind) * job.stage(kind).demand.vcores

    def _share(self, job: JobView, kind: TaskKind) -> float:
        demands = self._demands.get(job.job)
        return WHOLE_CORE if demands is None else demands.map if kind is MAP else demands.reduce

    def asks_disk(self, job: JobView, kind: TaskKind) -> float:
        """Return the share of its time, in percent, that a task needs the disk at its full rate; 0 if unknown."""
        return WHOLE_CORE - self._share(job, kind)

    def _lacks(self, node: NodeView, job: JobView, kind: TaskKind, free_cpu: float) -> str | None:
        lacks = super()._lacks(node, job, kind, free_cpu)
        if lacks is not None or not self._disk or not node.attempts:
            return lacks
        asks, free = self.asks_disk(job, kind), FULL_DISK - self._used_disk.of(node)
        return f"disk: asks {asks:.0f}% of the node's, {free:.0f}% free" if asks > free else None

    def free_cpu(self, node: NodeView) -> float:
        """Return the free CPU in percent of one core, by learned demands instead of declared vcores."""
        return CORE * (node.spec.cores - self.reserved_cores) - self._used_cpu.of(node)

    def _sum_cpu(self, node: NodeView) -> float:
        return sum(self.asks(attempt.task.job, attempt.task.kind) for attempt in node.attempts.values())

    def _sum_disk(self, node: NodeView) -> float:
        return sum(self.asks_disk(each.task.job, each.task.kind) for each in node.attempts.values())

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        return f"asks {self.asks(job, kind):.0f}% of a core, {self.free_cpu(node):.0f}% free"

    def _short_of_cpu(self, asks: float, free_cpu: float) -> str:
        return f"CPU: asks {asks:.0f}% of a core, {free_cpu:.0f}% free"


def hardware_of(spec: NodeSpec) -> Hardware:
    """Return what measured CPU demands depend on."""
    return Hardware(spec.core_speed, spec.disk_bps)


def disk_name(spec: NodeSpec) -> str:
    """Return the name of the profile with measured rates of such disks."""
    return f"disk of {spec.disk_bps:.0f} bytes/s"


def _is_of(demands: Demands, view: View) -> bool:
    """Return whether a node has the hardware of the measurement, if that was recorded."""
    hardware = demands.hardware
    return hardware is None or any(hardware_of(node.spec) == hardware for node in view.nodes.values())


AXIS = Axis(
    axis="admission",
    name="fgcs",
    factory=Fgcs,
    summary="a task needs its memory, and the share of a core that earlier tasks of the same job name used",
    paper="liu2015",
    parameters=(
        count("reserved_cores", "1", "number of cores of each node that are kept free for daemons", "cores"),
        duration(
            "shortest",
            "5s",
            "shortest mean run time at which a job's CPU use is trusted; after shorter "
            "tasks, later ones request a whole core",
        ),
        maybe_rate(
            "disk_rate",
            "full rate of a disk, to estimate how long tasks wait for it; auto takes the "
            "measured rate, or else the declared rate",
        ),
        maybe_rate(
            "hdfs_rate",
            "full rate of the block store, to estimate how long tasks wait for it; auto "
            "takes the measured rate, or else that of the disk",
        ),
        number(
            "disk",
            "false",
            "",
            "whether a task also needs a free share of the node's disk: the part of its time that it does not compute",
            switch,
        ),
        count(
            "learn",
            "0",
            "number of a job's first ended maps (reduces) whose CPU use its own later ones demand if no earlier job of "
            "the same name is known. With 0, each of them demands a whole core",
        ),
        profiles(DEMAND, IO_RATES, parse=read_demands),
        duration(
            "stall_timeout",
            "10s",
            "time that a job's maps wait without room on any node, before one of the job's reduces is killed",
        ),
    ),
    rank=30,
)
POLICY = AXIS.named(
    summary="Like delay, but a task gets the share of a core that earlier tasks of the same job name used.",
    order="fair",
    locality="delay",
    rank=40,
)

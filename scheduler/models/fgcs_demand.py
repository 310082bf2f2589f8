"""The CPU demand of tasks in percent of one core (liu2015, section 2), without a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol

WHOLE_CORE = 100
"""What a task asks for while nothing is known of it, as YARN assumes of all."""


class Counted(Protocol):
    """The counters of an attempt, or its row in the attempts table."""

    @property
    def cpu_s(self) -> float: ...
    @property
    def read_local_bytes(self) -> int: ...
    @property
    def read_remote_bytes(self) -> int: ...
    @property
    def spill_bytes(self) -> int: ...
    @property
    def output_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUse:
    """Resources used by one task: `cpu_s` in seconds on one core of its node, bytes of the local disk and of HDFS."""

    cpu_s: float
    local_bytes: int
    hdfs_bytes: int

    @staticmethod
    def of(counters: Counted, *, core_speed: float, writes_file: bool) -> TaskUse:
        """Return the use in the paper's terms.

        `core_speed`: speed of an emulated core in cores of the host. A map's output for reduces is already counted in
        its spills, so output counts as HDFS bytes only for tasks that write files.
        """
        read_bytes = counters.read_local_bytes + counters.read_remote_bytes
        return TaskUse(
            cpu_s=counters.cpu_s / core_speed,
            local_bytes=counters.spill_bytes,
            hdfs_bytes=read_bytes + (counters.output_bytes if writes_file else 0),
        )


def io_time_s(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return equation 3: the time of the task's bytes at full speed. It never overestimates I/O, so CPU is never
    underestimated."""
    return use.local_bytes / disk_bps + use.hdfs_bytes / hdfs_bps


def cpu_demand(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return equation 2: 100 x CPU time / (CPU time + I/O time); 100 for a task with neither."""
    total_s = use.cpu_s + io_time_s(use, disk_bps, hdfs_bps)
    return WHOLE_CORE * use.cpu_s / total_s if total_s > 0 else WHOLE_CORE


@dataclass(slots=True)
class DemandMean:
    """The mean demand of a job's tasks of one kind (equations * and **); 100 if the tasks are too short to measure.

    `shortest_s`: shorter average times are not used, since starting the task costs as much.
    """

    tasks: int = 0
    demand: float = 0.0
    ran_s: float = 0.0

    def add(self, demand: float, ran_s: float) -> None:
        """Add a task that succeeded."""
        self.tasks += 1
        self.demand += demand
        self.ran_s += ran_s

    def value(self, shortest_s: float) -> int:
        """Return the mean demand in whole percent of a core, rounded up."""
        if not self.tasks or self.ran_s / self.tasks < shortest_s:
            return WHOLE_CORE
        return min(WHOLE_CORE, max(1, ceil(self.demand / self.tasks)))


class Hardware(NamedTuple):
    """The hardware that a demand depends on: an emulated core in cores of the host, and the declared disk rate in
    bytes/s."""

    core_speed: float
    disk_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands of a workload's maps and reduces, in percent of a core. `hardware` None: valid on any hardware.

    "Workloads have to be re-analysed every time the cluster hardware changes" (2.2).
    """

    map: float = WHOLE_CORE
    reduce: float = WHOLE_CORE
    hardware: Hardware | None = None

    def to_values(self) -> dict[str, Any]:
        """Return the demands as JSON values for `read_demands`."""
        values: dict[str, Any] = {"map": self.map, "reduce": self.reduce}
        return values | ({} if self.hardware is None else {"hardware": self.hardware._asdict()})


def read_demands(values: Mapping[str, Any]) -> Demands:
    """Return the demands from values of a person or of the store. Raises ValueError that says what is wrong."""
    known = dict(values)
    hardware = known.pop("hardware", None)
    for name, value in known.items():
        if name not in ("map", "reduce"):
            raise ValueError(f"{name!r} is unknown, expected map or reduce")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= WHOLE_CORE:
            raise ValueError(f"{name}: {value!r} is not above 0 and at most {WHOLE_CORE} (percent of a core)")
    try:
        return Demands(**known, hardware=None if hardware is None else Hardware(**hardware))
    except TypeError:
        raise ValueError(f"hardware: {hardware!r} is not core_speed and disk_bps") from None

"""The CPU demand of tasks in percent of one core, computed from CPU time and I/O (liu2015, section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol

WHOLE_CORE = 100
"""The demand of a task before any measurement. YARN assumes it for all tasks."""


class Counted(Protocol):
    """The values that `TaskUse.of` reads from an attempt's counters or from a row of the attempts table."""

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
    """Resources used by one task: `cpu_s` in seconds on one core of its node, and the numbers of bytes read
    and written on the local disk and in HDFS."""

    cpu_s: float
    local_bytes: int
    hdfs_bytes: int

    @staticmethod
    def of(counters: Counted, *, core_speed: float, writes_file: bool) -> TaskUse:
        """Return the resources that an attempt used, from its counters.

        `core_speed`: speed of an emulated core, where 1 is a core of the host. `writes_file`: the task writes
        its output to HDFS. The output of a map for reduces is already counted in its spills, so output counts
        as HDFS bytes only for tasks that write files.
        """
        read_bytes = counters.read_local_bytes + counters.read_remote_bytes
        return TaskUse(
            cpu_s=counters.cpu_s / core_speed,
            local_bytes=counters.spill_bytes,
            hdfs_bytes=read_bytes + (counters.output_bytes if writes_file else 0),
        )


def io_time_s(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return the I/O time of the task in seconds if all its bytes move at full rate (equation 3).

    The result never overestimates the I/O time, so the CPU demand is never underestimated.
    """
    return use.local_bytes / disk_bps + use.hdfs_bytes / hdfs_bps


def cpu_demand(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return the CPU demand in percent of a core: 100 x CPU time / (CPU time + I/O time) (equation 2).

    A task that used neither CPU nor I/O has demand 100.
    """
    total_s = use.cpu_s + io_time_s(use, disk_bps, hdfs_bps)
    return WHOLE_CORE * use.cpu_s / total_s if total_s > 0 else WHOLE_CORE


@dataclass(slots=True)
class DemandMean:
    """The mean CPU demand of a job's maps or of its reduces (equations * and **), in percent of a core.

    `tasks`: number of tasks added. `demand`, `ran_s`: sums of their demands and of their run times in
    seconds.
    """

    tasks: int = 0
    demand: float = 0.0
    ran_s: float = 0.0

    def add(self, demand: float, ran_s: float) -> None:
        """Add the demand and the run time of a task that succeeded."""
        self.tasks += 1
        self.demand += demand
        self.ran_s += ran_s

    def value(self, shortest_s: float) -> int:
        """Return the mean demand in whole percent of a core, rounded up.

        The result is 100 without tasks and for tasks whose mean run time is below `shortest_s`, since
        starting such a task costs as much as its work.
        """
        if not self.tasks or self.ran_s / self.tasks < shortest_s:
            return WHOLE_CORE
        return min(WHOLE_CORE, max(1, ceil(self.demand / self.tasks)))


class Hardware(NamedTuple):
    """The hardware on which demands depend: speed of an emulated core (1 is a core of the host), disk rate in
    bytes/s."""

    core_speed: float
    disk_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The CPU demands of a workload's maps and reduces, in percent of a core.

    `hardware`: the hardware of the measurement; None if the demands apply to any hardware. "Workloads have to
    be re-analysed every time the cluster hardware changes" (2.2).
    """

    map: float = WHOLE_CORE
    reduce: float = WHOLE_CORE
    hardware: Hardware | None = None

    def to_values(self) -> dict[str, Any]:
        """Return the demands as JSON values, which `read_demands` converts back."""
        values: dict[str, Any] = {"map": self.map, "reduce": self.reduce}
        return values | ({} if self.hardware is None else {"hardware": self.hardware._asdict()})


def read_demands(values: Mapping[str, Any]) -> Demands:
    """Return the demands from JSON values that a user wrote or the profile store holds.

    Raises ValueError with the wrong value if a name is unknown or a number is out of range.
    """
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

"""The formulas of the policy FGCS (paper liu2015, section 2): the CPU demand of tasks in percent of one core,
computed from CPU time and I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol

WHOLE_CORE = 100
"""The demand of a task before any measurement. YARN assumes it for all tasks."""


class Counted(Protocol):
    """An attempt's counters, or its row in the attempts table."""

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
    """The resources used by one task: seconds of CPU time on one core of its node (`cpu_s`), and the numbers
    of bytes read and written on the local disk and in HDFS."""

    cpu_s: float
    local_bytes: int
    hdfs_bytes: int

    @staticmethod
    def of(counters: Counted, *, core_speed: float, writes_file: bool) -> TaskUse:
        """Return what an attempt used. `core_speed` 1 is a real core of the host.

        With `writes_file`, the output goes to HDFS; that of a map with reduces is already in `spill_bytes`.
        """
        read_bytes = counters.read_local_bytes + counters.read_remote_bytes
        return TaskUse(
            cpu_s=counters.cpu_s / core_speed,
            local_bytes=counters.spill_bytes,
            hdfs_bytes=read_bytes + (counters.output_bytes if writes_file else 0),
        )


def io_time_s(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return the I/O seconds at the full rates (equation 3), which is never too long for the demand."""
    return use.local_bytes / disk_bps + use.hdfs_bytes / hdfs_bps


def cpu_demand(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return 100 x CPU / (CPU + I/O time), the CPU demand in percent of a core (equation 2); 100 without use."""
    total_s = use.cpu_s + io_time_s(use, disk_bps, hdfs_bps)
    return WHOLE_CORE * use.cpu_s / total_s if total_s > 0 else WHOLE_CORE


@dataclass(slots=True)
class DemandMean:
    """The mean CPU demand of maps or of reduces, in percent of a core (section 2), from sums over `tasks`."""

    tasks: int = 0
    demand: float = 0.0
    ran_s: float = 0.0

    def add(self, demand: float, ran_s: float) -> None:
        """Add a successful task with its demand in percent of a core and its run time in seconds."""
        self.tasks += 1
        self.demand += demand
        self.ran_s += ran_s

    def value(self, shortest_s: float) -> int:
        """Return the mean in whole percent, rounded up; 100 without tasks, or if they are short.

        Starting tasks below `shortest_s` seconds costs as much CPU as their work.
        """
        if not self.tasks or self.ran_s / self.tasks < shortest_s:
            return WHOLE_CORE
        return min(WHOLE_CORE, max(1, ceil(self.demand / self.tasks)))


class Hardware(NamedTuple):
    """The properties of a node that change its tasks' demands: speed of its cores (1 is a core of the host)
    and disk rate in bytes/s."""

    core_speed: float
    disk_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The CPU demands of a workload, in percent of a core, on `hardware` (None: on any).

    "Workloads have to be re-analysed every time the cluster hardware changes" (liu2015, 2.2).
    """

    map: float = WHOLE_CORE
    reduce: float = WHOLE_CORE
    hardware: Hardware | None = None

    def to_values(self) -> dict[str, Any]:
        """Return JSON values for `read_demands`."""
        values: dict[str, Any] = {"map": self.map, "reduce": self.reduce}
        return values | ({} if self.hardware is None else {"hardware": self.hardware._asdict()})


def read_demands(values: Mapping[str, Any]) -> Demands:
    """Return the demands of a user's or the store's values. Raises ValueError."""
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

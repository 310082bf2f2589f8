"""The CPU demand of tasks in percent of one core (liu2015, section 2): the arithmetic alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol

WHOLE_CORE = 100
"""What a task asks for while nothing is known of it, as YARN assumes of all."""


class Counted(Protocol):
    """The counters of an attempt, or its row of the attempts table."""

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
    """What one task used: `cpu_s` in seconds on one core of its node, bytes of the local disk and of HDFS."""

    cpu_s: float
    local_bytes: int
    hdfs_bytes: int

    @staticmethod
    def of(counters: Counted, *, core_speed: float, writes_file: bool) -> TaskUse:
        """Counters as the paper counts. `core_speed`: of an emulated core, in cores of the host.

        What a map leaves for reduces is in its spills already: output is HDFS's only for tasks that write files.
        """
        read_bytes = counters.read_local_bytes + counters.read_remote_bytes
        return TaskUse(
            cpu_s=counters.cpu_s / core_speed,
            local_bytes=counters.spill_bytes,
            hdfs_bytes=read_bytes + (counters.output_bytes if writes_file else 0),
        )


def io_time_s(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Equation 3: what its bytes take at full speed, so that I/O is never over- and CPU never underestimated."""
    return use.local_bytes / disk_bps + use.hdfs_bytes / hdfs_bps


def cpu_demand(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Equation 2: 100 x CPU time / (CPU time + I/O time); 100 for a task that did neither."""
    total_s = use.cpu_s + io_time_s(use, disk_bps, hdfs_bps)
    return WHOLE_CORE * use.cpu_s / total_s if total_s > 0 else WHOLE_CORE


@dataclass(slots=True)
class DemandMean:
    """The mean demand of a job's tasks of one kind (equations * and **); 100 if they are too short to measure.

    `shortest_s`: tasks that run for less on average say nothing, since starting them costs as much.
    """

    tasks: int = 0
    demand: float = 0.0
    ran_s: float = 0.0

    def add(self, demand: float, ran_s: float) -> None:
        """One more task that succeeded."""
        self.tasks += 1
        self.demand += demand
        self.ran_s += ran_s

    def value(self, shortest_s: float) -> int:
        """Return the mean in whole percent of a core, rounded up."""
        if not self.tasks or self.ran_s / self.tasks < shortest_s:
            return WHOLE_CORE
        return min(WHOLE_CORE, max(1, ceil(self.demand / self.tasks)))


class Hardware(NamedTuple):
    """What a demand depends on: the share of a host's core that a core is, and the declared disk rate, bytes/s."""

    core_speed: float
    disk_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a workload's maps and reduces ask for, percent of a core; None as hardware means anywhere.

    "Workloads have to be re-analysed every time the cluster hardware changes" (2.2).
    """

    map: float = WHOLE_CORE
    reduce: float = WHOLE_CORE
    hardware: Hardware | None = None

    def to_values(self) -> dict[str, Any]:
        """JSON values that `read_demands` takes."""
        values: dict[str, Any] = {"map": self.map, "reduce": self.reduce}
        return values | ({} if self.hardware is None else {"hardware": self.hardware._asdict()})


def read_demands(values: Mapping[str, Any]) -> Demands:
    """Demands as a person or the store wrote them; ValueError says what is wrong."""
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

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
    """The interface of an object with an attempt's CPU time and numbers of bytes read and written: the
    attempt's counters, or the attempt's row in the attempts table.
    """

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
        """Return the resources that an attempt with these counters used.

        `core_speed`: speed of the node's cores, where 1 is the speed of a real core of the host.
        `writes_file`: the task writes its output to HDFS, so the output is added to the HDFS bytes. The
        output of a map that feeds reduces is written to the local disk, and is already included in the
        counter `spill_bytes`.
        """
        read_bytes = counters.read_local_bytes + counters.read_remote_bytes
        return TaskUse(
            cpu_s=counters.cpu_s / core_speed,
            local_bytes=counters.spill_bytes,
            hdfs_bytes=read_bytes + (counters.output_bytes if writes_file else 0),
        )


def io_time_s(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return the seconds that the task's I/O takes at the full rates, in bytes/s, of disk and HDFS (equation
    3).

    The actual I/O time may be longer, so the CPU demand computed from the result is never too low.
    """
    return use.local_bytes / disk_bps + use.hdfs_bytes / hdfs_bps


def cpu_demand(use: TaskUse, disk_bps: float, hdfs_bps: float) -> float:
    """Return the task's CPU demand in percent of a core: 100 x CPU time / (CPU time + I/O time) (equation 2).

    `disk_bps`, `hdfs_bps`: rates in bytes/s. A task that used neither CPU nor I/O has the demand 100.
    """
    total_s = use.cpu_s + io_time_s(use, disk_bps, hdfs_bps)
    return WHOLE_CORE * use.cpu_s / total_s if total_s > 0 else WHOLE_CORE


@dataclass(slots=True)
class DemandMean:
    """The mean CPU demand of a job's maps or of its reduces, in percent of a core (section 2 of the paper).

    `tasks`: number of tasks added. `demand`: sum of the tasks' demands. `ran_s`: sum of their run times in
    seconds.
    """

    tasks: int = 0
    demand: float = 0.0
    ran_s: float = 0.0

    def add(self, demand: float, ran_s: float) -> None:
        """Add a successful task with its demand in percent of a core and its run time in seconds."""
        self.tasks += 1
        self.demand += demand
        self.ran_s += ran_s

    def value(self, shortest_s: float) -> int:
        """Return the mean demand in whole percent of a core, rounded up.

        The result is 100 if there are no tasks, or if their mean run time is below `shortest_s` seconds,
        since starting such short tasks costs as much CPU as their work.
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
    """The CPU demands of a workload's maps and reduces, in percent of a core.

    `hardware`: the hardware on which the demands were measured, or None if the demands apply to any hardware.
    The paper liu2015 says: "Workloads have to be re-analysed every time the cluster hardware changes" (2.2).
    """

    map: float = WHOLE_CORE
    reduce: float = WHOLE_CORE
    hardware: Hardware | None = None

    def to_values(self) -> dict[str, Any]:
        """Return the demands as a dictionary of JSON values, which `read_demands` converts back."""
        values: dict[str, Any] = {"map": self.map, "reduce": self.reduce}
        return values | ({} if self.hardware is None else {"hardware": self.hardware._asdict()})


def read_demands(values: Mapping[str, Any]) -> Demands:
    """Return the demands described by JSON values, written by a user or loaded from the profile store.

    Raises ValueError with a message about the wrong value if a name is unknown or a number is out of range.
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

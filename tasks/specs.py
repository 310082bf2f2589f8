"""Jobs and tasks as values, in seconds and bytes with the scenario's `scale` applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import repeat
from operator import is_
from typing import Any, TypeVar, dataclass_transform

# Value classes of which a run creates millions of objects, and tuples in which tasks share such objects.

T = TypeVar("T")
U = TypeVar("U")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make the class a dataclass with slots and a hash, which only the type checker takes as frozen.

    Creating objects that are frozen at run time takes several times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


def are_one(items: Sequence[object]) -> bool:
    """Return whether all items are one object; False without items."""
    return len(items) > 0 and all(map(is_, items, repeat(items[0])))


def made_once(make: Callable[[T], U], items: Sequence[T]) -> tuple[U, ...]:
    """Return `make` of each item, called once for items that are the same object."""
    if are_one(items):
        return (make(items[0]),) * len(items)
    keys = list(map(id, items))
    made = {key: make(item) for key, item in dict(zip(keys, items, strict=True)).items()}
    return tuple([made[key] for key in keys])


NodeId = str
"""A node's name, such as `n3`."""


class TaskKind(StrEnum):
    """The two kinds of tasks. The values are spelled as in the output tables."""

    MAP = "map"
    REDUCE = "reduce"


class Priority(StrEnum):
    """The five job priorities of Hadoop."""

    VERY_HIGH = "very_high"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    VERY_LOW = "very_low"

    @property
    def rank(self) -> int:
        """Return the rank of the priority, from 0 for VERY_HIGH to 4 for VERY_LOW. Jobs of smaller rank run first."""
        return list(Priority).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one synthetic task: seconds on one emulated core, and bytes that are really moved.

    A map's `write_bytes` are shuffled if the job has reduces, or else go to the block store. Only the
    simulator uses a trace's `duration_s`, that of an attempt without reading its input (of a reduce, after
    its shuffle), and `shuffle_s`, that of a reduce's shuffle after all maps had ended.
    """

    cpu_s: float = 0.0
    read_bytes: int = 0
    write_bytes: int = 0
    duration_s: float | None = None
    shuffle_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A byte range of a file, with the records that begin in it. Jobs without input have no file.

    `hosts` are the nodes that held a replica when the job was submitted.
    """

    index: int
    file: str | None = None
    offset: int = 0
    length: int = 0
    block: str | None = None
    hosts: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The memory and virtual cores that a task requests. The memory is also the attempt's limit.

    With containers instead of slots, a task starts only on a node where these are free.
    """

    memory_bytes: int
    vcores: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job that is ready to be submitted, with its splits and the costs or code of its tasks.

    `submit_s` and `deadline_s` are seconds since the run's start. `requested_s` is the run time in seconds that
    the user asked for, which policies that reserve slots believe. A job with `after`, the id of another job, is
    submitted `think_s` seconds after that job's end, in any state, but not before `submit_s`.
    """

    job: str  # Such as job_0001.
    name: str
    app: str
    user: str
    queue: str = "default"
    priority: Priority = Priority.NORMAL
    submit_s: float = 0.0
    deadline_s: float | None = None
    requested_s: float | None = None
    after: str | None = None
    think_s: float = 0.0
    splits: Sequence[Split] = ()
    reduces: int = 0
    map_demand: Demand
    reduce_demand: Demand
    params: Mapping[str, Any] = field(default_factory=dict)  # Parameters of the application, as JSON values.
    map_costs: tuple[Cost, ...] = ()  # One per map, for synthetic jobs.
    reduce_costs: tuple[Cost, ...] = ()  # One per reduce, for synthetic jobs.
    running_map_limit: int = (
        0  # The most maps that run at a time, 0 for any number. Only with ApplicationMasters.
    )
    uber: bool = False  # The tasks run inside the ApplicationMaster, one after the other.

    @property
    def maps(self) -> int:
        return len(self.splits)

    @property
    def input_bytes(self) -> int:
        return sum(split.length for split in self.splits)


def task_id(job: str, kind: TaskKind, index: int) -> str:
    """Return a task's id as in Hadoop, such as `job_0001_m_000003`."""
    return f"{job}_{kind[0]}_{index:06d}"


def task_of(attempt: str) -> str:
    """Return the task id that an attempt id contains, such as `job_0001_m_000003` for `job_0001_m_000003_0`."""
    return attempt.rpartition("_")[0]


def id_key(job: str) -> tuple[int, str]:
    """Return a sort key by which job_9999 comes before job_10000."""
    return (len(job), job)


def job_of(task_or_attempt: str) -> str:
    """Return the job id within a task or attempt id."""
    return "_".join(task_or_attempt.split("_", 2)[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRange:
    """A block of a file with the nodes that hold replicas. `offset` is the block's position in the file."""

    block: str
    offset: int
    length: int
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """The specification of an attempt, which the agent receives as JSON."""

    attempt: str
    task: str
    job: str
    kind: TaskKind
    index: int
    app: str
    params: Mapping[str, Any]
    seed: int
    maps: int  # Number of maps of the job.
    reduces: int  # Number of reduces of the job.
    memory_bytes: int  # Memory limit of this attempt.
    # For maps:
    file: str | None = None
    offset: int = 0
    length: int = 0
    file_length: int = 0
    blocks: tuple[BlockRange, ...] = ()  # Blocks around the split: the previous, its own, the next.
    keep_budget: float = 0.0  # If above 0, remote reads may be kept as replicas (`NameNode.keeps`).
    # For output to the block store (reduces, and maps of map-only jobs):
    output: str | None = None  # Temporary path, which the JobTracker renames on commit.
    replication: int = 1
    block_bytes: int = 0
    cost: Cost | None = None  # For synthetic tasks.
    wait_s: float = 0.0  # Emulated seconds that the node waits before it starts the attempt.

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> AttemptSpec:
        """Invert `to_json`. Raises TypeError or KeyError."""
        known = dict(raw)
        known["kind"] = TaskKind(known["kind"])
        blocks = [dict(block) for block in known.get("blocks", ())]
        known["blocks"] = tuple(BlockRange(**{**block, "nodes": tuple(block["nodes"])}) for block in blocks)
        known["cost"] = Cost(**known["cost"]) if known.get("cost") else None
        return AttemptSpec(**known)


@value
class Counters:
    """The resources that an attempt used, as in attempts.parquet. Times are seconds since the run's start."""

    cpu_s: float = 0.0  # Host core-seconds.
    read_local_bytes: int = 0
    read_remote_bytes: int = 0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    output_bytes: int = 0
    shuffle_end: float | None = None
    sort_end: float | None = None
    records_in: int = 0
    records_out: int = 0
    memory_peak_bytes: int = 0

    @property
    def moved_bytes(self) -> int:
        """Return the bytes of input, spills and output, which is what a map reads and writes."""
        return self.read_local_bytes + self.read_remote_bytes + self.spill_bytes + self.output_bytes


NO_COUNTERS = Counters()

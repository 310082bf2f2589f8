"""A story: a small cluster, its jobs, its policy and what goes wrong, as values that YAML can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNode:
    """A node; its name is `n` and its place in the story. Rates are shares of 100 MB/s and one host core."""

    rack: int = 0
    cores: int = 2
    memory_mib: int = 4096
    map_slots: int = 1
    reduce_slots: int = 1
    speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryJob:
    """A job; its id is `job_` and its place from 1. `map_s` and `reduce_s` are the mean times of its tasks.

    With `input`, each map reads a block of that many MiB from a file of the job; a job without has no file.
    """

    submit_s: float = 0.0
    maps: int = 1
    map_s: float = 1.0
    reduces: int = 0
    reduce_s: float = 1.0
    input_mib: int = 0
    output_mib: int = 0  # of each task that writes a file
    user: str = "ana"
    queue: str = "default"
    priority: str = "normal"
    deadline_s: float | None = None
    memory_mib: int = 1024
    vcores: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryFault:
    """Something goes wrong at `at_s`. `kind` is one of the simulator's (`cluster.faults.KINDS`) or

    `bad_node`: attempts that start there fail, until `until_s`;
    `lose_output`: every map output that lies on the node is unreadable from now on, the node knows nothing of it;
    `kill_job`: a user ends the job that `luck` says.
    """

    at_s: float
    kind: str
    nodes: tuple[str, ...] = ()
    until_s: float | None = None
    factor: float = 1.0  # what a slow node keeps of its rates
    share: float = 0.0  # of messages lost
    by_s: float = 0.0  # what messages take longer
    luck: float = 0.0  # which attempt or replica is hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that is played. The shares are chances from the seed, each coin with its own name.

    `failing`: of first attempts that fail half-way; `commits_failing`: of first attempts whose output cannot be put
    into place, which takes `commit_s`; `repeats`: of messages to the JobTracker that come again, at once or late;
    `strays`: of heartbeats that tell again of attempts that ended long ago; `lost_orders`: of launches, kills and
    reports that are lost between a TaskTracker and its agent. `disks`: DataNodes tell of what they really hold, and
    outputs are put into place twice. `scheme` makes replicas while jobs run (`dare`, `scarlett` or `cdrm`), and with
    `shared` jobs with the same `input_mib` and `maps` read one file. `alone` names a part (`alone.parts.PARTS`) that is
    played for so many `steps` without the rest, when it is not empty; then the seed says all else.
    """

    seed: int = 0
    policy: Any = "fifo"
    speculation: Any = "none"
    heartbeat_s: float = 0.5
    replication: int = 2
    contention: bool = False
    failing: float = 0.0
    commits_failing: float = 0.0
    repeats: float = 0.0
    strays: float = 0.0
    lost_orders: float = 0.0
    disks: bool = False
    scheme: str = ""
    shared: bool = False
    per_heartbeat: int = 0  # maps, and reduces, that one reply starts at most; 0 for any number
    skip_rows: bool = True
    commit_s: float = 0.008
    alone: str = ""
    steps: int = 80
    nodes: tuple[StoryNode, ...] = (StoryNode(),)
    jobs: tuple[StoryJob, ...] = ()
    faults: tuple[StoryFault, ...] = ()

    def node_names(self) -> list[str]:
        """n0, n1 ..."""
        return [f"n{place}" for place in range(len(self.nodes))]

    def job_names(self) -> list[str]:
        """job_0001 ..."""
        return [f"job_{place:04d}" for place in range(1, len(self.jobs) + 1)]


PARTS: dict[str, Any] = {"nodes": StoryNode, "jobs": StoryJob, "faults": StoryFault}


def to_yaml(story: Story) -> str:
    """What differs from the defaults, a line for each node, job and fault; `from_yaml` reads it back."""
    values = _changed(story)
    for part in PARTS:
        values[part] = [_changed(item) for item in getattr(story, part)]
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=110)


def from_yaml(text: str) -> Story:
    """The inverse of `to_yaml`; TypeError for an unknown key."""
    raw = dict(yaml.safe_load(text))
    for part, kind in PARTS.items():
        raw[part] = tuple(_made(kind, item) for item in raw.get(part) or ())
    return Story(**raw)


def read_story(path: Path) -> Story:
    """The story of a file."""
    return from_yaml(path.read_text())


def _made(kind: Any, item: Mapping[str, Any]) -> Any:
    values = dict(item)
    if "nodes" in values:
        values["nodes"] = tuple(values["nodes"])
    return kind(**values)


def _changed(item: Any) -> dict[str, Any]:
    """Fields that have no default or another value; parts of a story apart."""
    values: dict[str, Any] = {}
    for each in fields(item):
        value = getattr(item, each.name)
        is_part = isinstance(item, Story) and each.name in PARTS
        if value != each.default and not is_part:
            values[each.name] = list(value) if isinstance(value, tuple) else value
    return values

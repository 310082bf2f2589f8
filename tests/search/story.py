"""Stories: randomly generated test scenarios of a small cluster, jobs, a policy and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNode:
    """A node, named `n` and its position in the test scenario, such as `n0`.

    `speed` is a factor on the node's disk and network rates (100 MB/s at 1.0) and core speed (one host core
    at 1.0).
    """

    rack: int = 0
    cores: int = 2
    memory_mib: int = 4096
    map_slots: int = 1
    reduce_slots: int = 1
    speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryJob:
    """A job with the id `job_NNNN`, numbered from 1. `map_s` and `reduce_s` are the mean times of its tasks.

    With `input_mib`, each map reads a block of that size from an input file; otherwise the job has no input.
    """

    submit_s: float = 0.0
    maps: int = 1
    map_s: float = 1.0
    reduces: int = 0
    reduce_s: float = 1.0
    input_mib: int = 0
    output_mib: int = 0  # Of each task that writes a file.
    user: str = "ana"
    queue: str = "default"
    priority: str = "normal"
    deadline_s: float | None = None
    memory_mib: int = 1024
    vcores: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryFault:
    """A fault at `at_s`. `kind` is one of the simulator's (`cluster.faults.KINDS`) or one of these:

    - `bad_node`: attempts that start on the node fail, until `until_s`.
    - `lose_output`: all map outputs on the node become unreadable, without the node's knowledge.
    - `kill_job`: a user kills the job that `luck` selects.
    """

    at_s: float
    kind: str
    nodes: tuple[str, ...] = ()
    until_s: float | None = None
    factor: float = 1.0  # Factor on the rates of a slow node.
    share: float = 0.0  # Share of messages lost.
    by_s: float = 0.0  # Additional delay of messages.
    luck: float = 0.0  # Selects the attempt, replica or job.


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A randomly generated test scenario.

    These are probabilities, drawn from the seed separately for each purpose. `failing`: a first attempt fails
    half-way. `commits_failing`: the output of a first attempt cannot be committed. `repeats`: a message to
    the JobTracker is repeated, at once or late. `strays`: a heartbeat also repeats reports of attempts that
    ended long before. `lost_orders`: a launch, kill or report is lost between a TaskTracker and its agent.

    Further fields: a commit takes `commit_s`. With `disks`, DataNodes report their real content, and outputs
    are committed twice. `scheme` creates replicas while jobs run (`dare`, `scarlett` or `cdrm`). With
    `shared`, jobs with the same `input_mib` and `maps` read one file. A non-empty `alone` names one component
    (`alone.parts.PARTS`) to be tested alone for `steps` steps; then only the seed matters.
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
    per_heartbeat: int = 0  # Maps, and reduces, launched by one reply at most; 0: no limit.
    skip_rows: bool = True
    commit_s: float = 0.008
    alone: str = ""
    steps: int = 80
    nodes: tuple[StoryNode, ...] = (StoryNode(),)
    jobs: tuple[StoryJob, ...] = ()
    faults: tuple[StoryFault, ...] = ()

    def node_names(self) -> list[str]:
        """Return the nodes' names: `n0`, `n1`, ..."""
        return [f"n{place}" for place in range(len(self.nodes))]

    def job_names(self) -> list[str]:
        """Return the jobs' ids: `job_0001`, `job_0002`, ..."""
        return [f"job_{place:04d}" for place in range(1, len(self.jobs) + 1)]


PARTS: dict[str, Any] = {"nodes": StoryNode, "jobs": StoryJob, "faults": StoryFault}


def to_yaml(story: Story) -> str:
    """Return a test scenario as YAML without default values, a line for each node, job and fault."""
    values = _changed(story)
    for part in PARTS:
        values[part] = [_changed(item) for item in getattr(story, part)]
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=110)


def from_yaml(text: str) -> Story:
    """Return the test scenario in a YAML text of `to_yaml`. Raises TypeError for an unknown key."""
    raw = dict(yaml.safe_load(text))
    for part, kind in PARTS.items():
        raw[part] = tuple(_made(kind, item) for item in raw.get(part) or ())
    return Story(**raw)


def read_story(path: Path) -> Story:
    """Read a test scenario from a YAML file."""
    return from_yaml(path.read_text())


def _made(kind: Any, item: Mapping[str, Any]) -> Any:
    values = dict(item)
    if "nodes" in values:
        values["nodes"] = tuple(values["nodes"])
    return kind(**values)


def _changed(item: Any) -> dict[str, Any]:
    """Return the fields of an item that differ from their defaults.

    A test scenario's nodes, jobs and faults are left out.
    """
    values: dict[str, Any] = {}
    for each in fields(item):
        value = getattr(item, each.name)
        is_part = isinstance(item, Story) and each.name in PARTS
        if value != each.default and not is_part:
            values[each.name] = list(value) if isinstance(value, tuple) else value
    return values

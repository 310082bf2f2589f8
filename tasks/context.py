"""The settings of a node that its attempts need. The agent creates them and passes them to each forked attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schedbed.tasks.specs import NodeId

FULL_DISK = "disk-full"
"""A file with this name in the node's `root` means that a fault has filled the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The settings of a node for its attempts.

    `root` has `blocks/` (replicas), `mapout/<attempt>/` (map outputs) and `attempts/<attempt>/` (scratch
    files, `status`, `report.json`). `budget` is the file of the node's rates (`tasks.pacing`), None without
    limits. `pace_cpu` is False if a cgroup limits the CPU. `authority` (PEM) signs agents' certificates; ""
    without TLS.
    """

    node: NodeId
    rack: str
    agent_url: str
    token: str
    root: Path
    peers: Mapping[NodeId, str]  # Base URLs of all agents, including this node's.
    racks: Mapping[NodeId, str]
    epoch_s: float  # Time of day at the run's start.
    core_speed: float  # Speed of an emulated core in host cores.
    stretch: float = 1.0  # Real seconds per emulated second.
    budget: Path | None = None
    shared_disk: Path | None = None  # Budget of a disk shared with other nodes.
    pace_cpu: bool = True
    authority: str = ""

    def distance(self, other: NodeId) -> int:
        """Return the distance to another node as in HDFS: 0 for this node, 1 for a node in its rack, otherwise 2."""
        if other == self.node:
            return 0
        return 1 if self.racks.get(other) == self.rack else 2

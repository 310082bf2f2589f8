"""The replication schemes Scarlett and CDRM (xu2015, 3.2.1 and 3.2.3): how many replicas, and where.

Scarlett (Ananthanarayanan et al. 2011), equation 8: a file f gets max(c_f + delta, base) replicas, where c_f
is the largest number of jobs that read f at once in the last epoch. xu2015 uses base 3; here it is the
scenario's `replication`. Each round gives each file one more replica while the budget for them lasts, on the
least loaded nodes.

CDRM (Wei et al. 2010): a file gets the smallest r >= base with (1 - failure^r)^blocks >= availability. Nodes
with the lowest blocking probability come first: equation 9 with the factorial that the thesis lacks (Erlang
B). The offered load is a node's mean number of requests (Little's law).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId


class ReadFile(NamedTuple):
    """An input file: its number of blocks, bytes, and the scenario's number of replicas."""

    blocks: int
    length: int
    base: int


def scarlett_replicas(
    files: Mapping[str, ReadFile], most_read: Mapping[str, int], *, delta: int, budget_bytes: float, most: int
) -> dict[str, int]:
    """Return Scarlett's number of replicas by path: `delta` above the readers at once, at most `most`.

    `budget_bytes` limits the size of all additional replicas.
    """
    wanted = {
        path: min(most, max(most_read.get(path, 0) + delta, file.base)) if most_read.get(path) else file.base
        for path, file in files.items()
    }
    got = {path: file.base for path, file in files.items()}
    left = budget_bytes
    open_files = [path for path in files if wanted[path] > got[path]]
    while open_files:
        still: list[str] = []
        for path in open_files:
            if files[path].length <= left:
                left -= files[path].length
                got[path] += 1
                if got[path] < wanted[path]:
                    still.append(path)
        open_files = still
    return got


def cdrm_replicas(file: ReadFile, *, failure: float, availability: float, most: int) -> int:
    """Return the replicas, from `file.base` to `most`, that make a file available with probability
    `availability`.

    `failure` is the probability that a node is unavailable.
    """
    replicas = file.base
    while replicas < most and (1.0 - failure**replicas) ** file.blocks < availability:
        replicas += 1
    return replicas


def erlang_b(load: float, servers: int) -> float:
    """Return the probability that all `servers` are busy (Erlang B). `load` is the mean number of requests."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked if load > 0 or servers == 0 else 0.0


@dataclass(slots=True)
class Epoch:
    """Statistics on reads since `begin_s`: most jobs at once by path, sums of requests and slots by node."""

    begin_s: float = 0.0
    most_read: dict[str, int] = field(default_factory=dict)
    served: dict[NodeId, float] = field(default_factory=dict)
    slots: dict[NodeId, int] = field(default_factory=dict)
    samples: int = 0

    def note(self, reading: Mapping[str, int], serving: Mapping[NodeId, tuple[float, int]]) -> None:
        """Add a sample: reading jobs by path, (requests in progress, slots) by node."""
        self.samples += 1
        for path, jobs in reading.items():
            self.most_read[path] = max(self.most_read.get(path, 0), jobs)
        for node, (requests, slots) in serving.items():
            self.served[node] = self.served.get(node, 0.0) + requests
            self.slots[node] = slots

    def replicas(
        self, scheme: DynamicReplicas, files: Mapping[str, ReadFile], most: int, inputs_bytes: int
    ) -> dict[str, int]:
        """Return the scheme's number of replicas by path. Scarlett's budget is a share of `inputs_bytes`."""
        if scheme.scheme == "scarlett":
            return scarlett_replicas(
                files,
                self.most_read,
                delta=scheme.delta,
                budget_bytes=scheme.budget * inputs_bytes,
                most=most,
            )
        return {
            path: cdrm_replicas(file, failure=scheme.failure, availability=scheme.availability, most=most)
            for path, file in files.items()
        }


@dataclass(slots=True)
class NodeChoice:
    """Ranks nodes: Scarlett by expected load, CDRM by the probability that all slots are busy."""

    scheme: str
    loads: dict[NodeId, float]
    slots: dict[NodeId, int]

    def rank(self, node: NodeId) -> float:
        load = self.loads.get(node, 0.0)
        return load if self.scheme == "scarlett" else erlang_b(load, self.slots.get(node, 1))

    def placed(self, node: NodeId, load: float) -> None:
        """Add a new replica's expected load, the mean number of read requests in progress."""
        self.loads[node] = self.loads.get(node, 0.0) + load

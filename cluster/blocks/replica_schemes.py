"""The replication schemes Scarlett and CDRM: how many replicas a file gets, and on which nodes.

Both follow xu2015, sections 3.2.1 and 3.2.3.

Scarlett (Ananthanarayanan et al. 2011), equation 8: a file f gets max(c_f + delta, base) replicas, where c_f
is the largest number of jobs that read f at the same time in the last epoch. The thesis (xu2015) uses base 3;
here, base is the `replication` of the scenario. The size of all additional replicas is limited by a budget:
in each round, each file gets one more replica while the budget lasts. The least loaded nodes are chosen
first.

CDRM (Wei et al. 2010): a file gets the smallest number r of replicas, but at least base, with (1 -
failure^r)^blocks >= availability, since a file is available if each of its blocks is on an available node.
Nodes with the lowest blocking probability are chosen first. This probability is equation 9 with the factorial
that is missing in the thesis (Erlang B). The load offered to a node is its mean number of requests (Little's
law).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId


class ReadFile(NamedTuple):
    """The properties of an input file from which its number of replicas is computed.

    `blocks` is the number of blocks, `length` is the size in bytes, and `base` is the number of replicas set
    by the scenario.
    """

    blocks: int
    length: int
    base: int


def scarlett_replicas(
    files: Mapping[str, ReadFile], most_read: Mapping[str, int], *, delta: int, budget_bytes: float, most: int
) -> dict[str, int]:
    """Return the number of replicas that Scarlett gives each file, as a dictionary from path to number.

    `most_read` maps paths to the largest number of jobs that read the file at the same time. Each file that
    was read should have `delta` replicas more than this number. `budget_bytes` limits the size of all
    additional replicas. `most`, the number of live nodes, is the upper limit for each file.
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
    """Return the number of replicas that a file needs so that it is available with a given probability.

    `availability` is this probability, and `failure` is the probability that a node is unavailable. The
    result is at least `file.base`. Replicas are added until the file is available enough or has `most`
    replicas.
    """
    replicas = file.base
    while replicas < most and (1.0 - failure**replicas) ** file.blocks < availability:
        replicas += 1
    return replicas


def erlang_b(load: float, servers: int) -> float:
    """Return the probability that all `servers` are busy, by the formula Erlang B.

    `load` is the offered load: the mean number of requests in progress.
    """
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked if load > 0 or servers == 0 else 0.0


@dataclass(slots=True)
class Epoch:
    """Statistics on the reads of input files since the time `begin_s`.

    `most_read` maps paths to the largest number of jobs that read the file at the same time. `served` maps
    nodes to the sum of the requests in all samples, and `slots` maps nodes to numbers of slots.
    """

    begin_s: float = 0.0
    most_read: dict[str, int] = field(default_factory=dict)
    served: dict[NodeId, float] = field(default_factory=dict)
    slots: dict[NodeId, int] = field(default_factory=dict)
    samples: int = 0

    def note(self, reading: Mapping[str, int], serving: Mapping[NodeId, tuple[float, int]]) -> None:
        """Add a sample of current reads.

        `reading` maps paths to the number of jobs that read the file. `serving` maps nodes to the number of
        requests in progress and the number of slots.
        """
        self.samples += 1
        for path, jobs in reading.items():
            self.most_read[path] = max(self.most_read.get(path, 0), jobs)
        for node, (requests, slots) in serving.items():
            self.served[node] = self.served.get(node, 0.0) + requests
            self.slots[node] = slots

    def replicas(
        self, scheme: DynamicReplicas, files: Mapping[str, ReadFile], most: int, inputs_bytes: int
    ) -> dict[str, int]:
        """Return the number of replicas that a scheme gives each file, as a dictionary from path to number.

        `files` are the input files by path, and `most` is the upper limit for each file. `inputs_bytes` is
        the size of all inputs with their replicas; Scarlett's budget for additional replicas is a share of
        this size.
        """
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
    """A ranking of nodes for additional replicas of a replication scheme.

    Scarlett ranks nodes by expected load, CDRM by the probability that all slots of the node are busy.
    """

    scheme: str
    loads: dict[NodeId, float]
    slots: dict[NodeId, int]

    def rank(self, node: NodeId) -> float:
        """Return the value by which a node is ranked. Nodes with lower values are preferred.

        The value is the expected load under Scarlett, and the probability that all slots are busy under CDRM.
        """
        load = self.loads.get(node, 0.0)
        return load if self.scheme == "scarlett" else erlang_b(load, self.slots.get(node, 1))

    def placed(self, node: NodeId, load: float) -> None:
        """Add the expected load of a new replica to the load of `node`, which will store the replica.

        `load` is the mean number of read requests in progress.
        """
        self.loads[node] = self.loads.get(node, 0.0) + load

"""Nodes, plans and a block store for the emulations' tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schedbed.cluster.messages import AttemptReport, FetchFailure, MapOutput, MapOutputs
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.node_model import AttemptPlan, Emulation, Happening, TaskCost
from schedbed.tasks.specs import NodeId, TaskKind

MB = 1_000_000


def node(name: str, rack: str = "r0", **more: Any) -> NodeSpec:
    """Two cores at half a host core, a disk of 100 MB/s, a network of 50 MB/s."""
    known: dict[str, Any] = {
        "cores": 2,
        "core_speed": 0.5,
        "memory_bytes": 1000 * MB,
        "disk_bps": 100.0 * MB,
        "network_bps": 50.0 * MB,
        "map_slots": 2,
        "reduce_slots": 1,
    }
    return NodeSpec(node=name, rack=rack, **(known | more))


def map_plan(
    index: int = 0, blocks: Sequence[tuple[str, int]] = (), *, number: int = 0, **more: Any
) -> AttemptPlan:
    """A map of job_1, which has two maps and a reduce; `more` are fields of the plan or of its cost."""
    return _plan(TaskKind.MAP, index, number, blocks=tuple(blocks), **more)


def reduce_plan(index: int = 0, *, number: int = 0, **more: Any) -> AttemptPlan:
    """A reduce of job_1, as `map_plan`."""
    return _plan(TaskKind.REDUCE, index, number, **more)


def _plan(kind: TaskKind, index: int, number: int, **more: Any) -> AttemptPlan:
    cost = {name: more.pop(name) for name in TaskCost.__dataclass_fields__ if name in more}
    task = f"job_1_{kind[0]}_{index}"
    known: dict[str, Any] = {"maps": 2, "reduces": 1, "memory_bytes": 100 * MB, "job": "job_1"}
    return AttemptPlan(
        attempt=f"{task}_{number}", task=task, kind=kind, index=index, cost=TaskCost(**cost), **(known | more)
    )


@dataclass
class Blocks:
    """A store whose blocks lie where they are put; output goes to the writer and then to `others`."""

    at: dict[str, list[NodeId]] = field(default_factory=dict)
    others: list[NodeId] = field(default_factory=list)
    full: bool = False
    files: dict[str, list[int]] = field(default_factory=dict)

    def holders(self, block: str) -> Sequence[NodeId]:
        return self.at.get(block, [])

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        chosen = [node, *(other for other in self.others if other != node)]
        return [] if self.full else chosen[:replication]

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        self.files[path] = list(lengths)


def outputs(*made: tuple[int, NodeId], done: bool = True, number: int = 0, lost: bool = False) -> MapOutputs:
    """News of job_1: maps with the nodes they ran on."""
    told = [
        MapOutput(index=index, attempt=f"job_1_m_{index}_{number}", node=where, lost=lost)
        for index, where in made
    ]
    return MapOutputs(job="job_1", outputs=tuple(told), all_done=done)


def run(emulation: Emulation, until_s: float = math.inf) -> list[tuple[float, Happening]]:
    """Everything that happens until then, with its time, event by event."""
    seen: list[tuple[float, Happening]] = []
    while (at_s := emulation.next_s()) <= until_s and at_s < math.inf:
        seen += [(at_s, happening) for happening in emulation.advance(at_s)]
    return seen


def reports(seen: Sequence[tuple[float, Happening]]) -> dict[str, AttemptReport]:
    """The reports among them, by attempt; each must come once and at its end."""
    found: dict[str, AttemptReport] = {}
    for at_s, (_, said) in seen:
        if isinstance(said, AttemptReport):
            assert said.attempt not in found
            assert math.isclose(said.end_s, at_s)
            found[said.attempt] = said
    return found


def failures(seen: Sequence[tuple[float, Happening]]) -> list[tuple[float, FetchFailure]]:
    """The fetch failures among them."""
    return [(at_s, said) for at_s, (_, said) in seen if isinstance(said, FetchFailure)]

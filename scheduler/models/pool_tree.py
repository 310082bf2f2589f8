"""Spark's tree of pools, and the order in which it offers slots to the task sets in them.

Source: Pool, SchedulingAlgorithm and SchedulableBuilder of Spark 3.5.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from schedbed.scheduler.registry.parameters import PolicyParameter, by_name, one_of, positive, slot_count
from schedbed.tasks.specs import TaskKind

FIFO, FAIR = "fifo", "fair"


class Member(Protocol):
    """A task set or a pool. The `stage` of task sets grows with their submission; that of pools is -1."""

    name: str
    weight: float
    min_share: int
    stage: int

    def running(self, kind: TaskKind) -> int: ...
    def sets(self, kind: TaskKind) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPoolSettings:
    """A pool of fairscheduler.xml: `weight`, `min_share` in slots, `inside` (schedulingMode), and pools in it."""

    weight: float = 1.0
    min_share: int = 0
    inside: str = FIFO
    pools: Mapping[str, SparkPoolSettings] = field(default_factory=dict)


class SparkPool:
    """A pool of task sets or of other pools."""

    stage = -1

    def __init__(self, name: str, settings: SparkPoolSettings) -> None:
        self.name, self.weight, self.min_share = name, settings.weight, settings.min_share
        self._key = _fair_key if settings.inside == FAIR else _fifo_key
        self.members: dict[str, Member] = {}
        for inner, its in settings.pools.items():
            self.members[inner] = SparkPool(inner, its)

    def running(self, kind: TaskKind) -> int:
        """Return the number of running tasks of all task sets in the pool."""
        return sum(member.running(kind) for member in self.members.values())

    def sets(self, kind: TaskKind) -> Iterator[Any]:
        """Return the task sets in the order in which they are offered slots (getSortedTaskSetQueue)."""
        for member in sorted(self.members.values(), key=lambda member: self._key(member, kind)):
            yield from member.sets(kind)

    def find(self, name: str) -> SparkPool | None:
        """Return the pool with this name, at any depth."""
        for member in self.members.values():
            if isinstance(member, SparkPool):
                found = member if member.name == name else member.find(name)
                if found is not None:
                    return found
        return None


def _fifo_key(member: Member, kind: TaskKind) -> tuple[Any, ...]:
    return (member.stage,)


def _fair_key(member: Member, kind: TaskKind) -> tuple[Any, ...]:
    """Members below their min share come first, by its used share; then all others, by tasks per weight."""
    running = member.running(kind)
    if running < member.min_share:
        return (0, running / max(member.min_share, 1), member.name)
    return (1, running / member.weight, member.name)


def spark_pools(doc: str) -> PolicyParameter:
    """Declare the parameter `pools`, for YAML only: pools by name, which may have `pools` of their own."""
    readers = {"weight": positive, "min_share": slot_count, "inside": one_of(FAIR, FIFO, any_case=True)}
    example = "{ana: {weight: 2, min_share: 1, inside: fair}}"
    return by_name("pools", "pool", doc, example, readers, SparkPoolSettings, _check_names, nests=True)


def _check_names(pools: Mapping[str, SparkPoolSettings]) -> None:
    names = list(_names(pools))
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"pool {name}: there are two pools with this name")


def _names(pools: Mapping[str, SparkPoolSettings]) -> Iterator[str]:
    for name, settings in pools.items():
        yield name
        yield from _names(settings.pools)

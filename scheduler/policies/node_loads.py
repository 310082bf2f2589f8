"""The attempts on each node and the resources that they use, as RAS counts them. Most results are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedbed.scheduler.admission.node_memo import NodeMemo
from schedbed.scheduler.models.resource_profiles import NOTHING, Amounts, NodeDemands
from schedbed.scheduler.policies.ras_jobs import KnownJob, kind_of
from schedbed.scheduler.view import JobView, NodeView
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
Counts = Mapping[tuple[str, TaskKind], int]
"""The number of attempts by (job id, kind of task)."""


class _FixedLoad(NamedTuple):
    """The results for a node that depend on its attempts alone.

    `counts` and `least`: see the methods of `NodeLoads` with these names. `used`: the sum of the demands of
    all attempts, or None if some are reduces, since the demand of a reduce changes while it runs.
    """

    counts: Counts
    least: Amounts
    used: Amounts | None


class NodeLoads:
    """The counts and the estimated use of resources of the attempts on each node.

    `know` returns the known state of a job, which includes the demands of its tasks.
    """

    def __init__(self, know: Callable[[JobView], KnownJob]) -> None:
        self._know = know
        self._fixed: NodeMemo[_FixedLoad] = NodeMemo(self._sum)

    def counts(self, node: NodeView) -> Counts:
        """Return the node's attempts by (job, kind), without those being killed."""
        return self._fixed.of(node).counts

    def forget(self, job: str) -> None:
        """Forget results with an ended job."""
        self._fixed.drop(lambda load: (job, MAP) in load.counts or (job, REDUCE) in load.counts)

    def least(self, node: NodeView) -> Amounts:
        """Return the least percent of the node that its tasks use until one ends.

        A reduce may be in its shuffle or reduce phase: it counts with the smaller demand, without I/O and network.
        """
        return self._fixed.of(node).least

    def used(self, node: NodeView, kind: TaskKind | None = None) -> Amounts:
        """Return the node's estimated use, in percent, by all tasks or only by tasks of the given kind."""
        if kind is None:
            used = self._fixed.of(node).used
            if used is not None:
                return used
        found = NOTHING
        hardware = kind_of(node.spec)
        for attempt in node.attempts.values():
            task = attempt.task
            if kind is not None and task.kind is not kind:
                continue
            known = self._know(task.job)
            found = found.plus(demand_of(known, known.demands(node.spec, hardware), task.kind))
        return found

    def _sum(self, node: NodeView) -> _FixedLoad:
        least = NOTHING
        spec, hardware, only_maps = node.spec, kind_of(node.spec), True
        counts: dict[tuple[str, TaskKind], int] = {}
        for attempt in node.attempts.values():
            task = attempt.task
            job, kind = task.job, task.kind
            if attempt.state != "killing":
                key = (job.job, kind)
                counts[key] = counts.get(key, 0) + 1
            demands = self._know(job).demands(spec, hardware)
            if kind is MAP:
                least = least.plus(demands.map)
            else:
                only_maps = False
                cpu = min(demands.shuffle.cpu, demands.reduce.cpu)
                least = least.plus(Amounts(cpu, 0.0, min(demands.shuffle.memory, demands.reduce.memory)))
        return _FixedLoad(counts, least, least if only_maps else None)


def demand_of(known: KnownJob, demands: NodeDemands, kind: TaskKind) -> Amounts:
    """Return what one task demands now: a reduce its shuffle's demand until all maps have ended."""
    if kind is MAP:
        return demands.map
    maps = known.job.maps
    if known.share.reducing or not maps.unstarted + maps.running:
        return demands.reduce
    return demands.shuffling(maps.running)

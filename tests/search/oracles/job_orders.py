"""References for the job orders of FIFO, Fair and Capacity, computed from the jobs and the nodes' attempts.

They keep no state, sort all jobs each time, and share no code with `scheduler.order`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, floor
from typing import Any

from schedbed.tasks.specs import TaskKind

Reference = Callable[[Any, TaskKind], list[Any]]
PRIORITIES = ["very_high", "high", "normal", "low", "very_low"]
EPSILON = 1e-9


def ready_jobs(view: Any, kind: TaskKind) -> list[Any]:
    """Return the jobs that have a task which could start."""
    return [job for job in view.jobs.values() if job.stage(kind).ready]


def by_priority(job: Any) -> tuple[Any, ...]:
    """Return FIFO's sort key: priority, submit time and id.

    Ids of test scenarios have the same number of digits, so they sort by number.
    """
    return PRIORITIES.index(job.spec.priority.value), job.spec.submit_s, job.job


def running(view: Any, kind: TaskKind, name_of: Callable[[Any], Any]) -> Counter[Any]:
    """Return the number of running attempts of that kind, grouped by `name_of` their job."""
    held = (attempt for node in view.nodes.values() for attempt in node.attempts.values())
    return Counter(name_of(attempt.task.stage.job) for attempt in held if attempt.task.stage.kind is kind)


def fifo_order(view: Any, kind: TaskKind) -> list[Any]:
    """Return all ready jobs by priority, submit time and id."""
    return sorted(ready_jobs(view, kind), key=by_priority)


def fair_order(
    by_user: bool,
    settings: Mapping[str, Any],
    default: Any,
    due: Callable[[str, TaskKind], int],
    *,
    by_name: bool = False,
) -> Reference:
    """Return a function that orders the ready jobs as Fair does.

    Pools with slots that are `due` to them come first, then those below min(min share, demand), by what they have
    of it, then the others by running tasks over weight. Jobs of a pool are ordered by running tasks over priority
    weight, or as FIFO orders them.
    """

    def pool_of(job: Any) -> str:
        return job.spec.user if by_user else job.spec.queue

    def order(view: Any, kind: TaskKind) -> list[Any]:
        of_pool, of_job = running(view, kind, pool_of), running(view, kind, lambda job: job.job)
        pools: dict[str, list[Any]] = {}
        for job in ready_jobs(view, kind):
            pools.setdefault(pool_of(job), []).append(job)

        def pool_key(name: str) -> tuple[Any, ...]:
            known, held = settings.get(name, default), of_pool[name]
            mine = [(job.spec.submit_s, job.serial) for job in view.jobs.values() if pool_of(job) == name]
            wants = held + sum(job.stage(kind).unstarted for job in pools[name])
            least = min(known.min_share.of(kind), wants)
            hungry = held < least
            if due(name, kind):
                return (-1, 0.0, 0.0 if by_name else min(mine)[0], name)
            return (
                not hungry,
                held / (least if hungry else known.weight),
                0.0 if by_name else min(mine)[0],
                name,
            )

        def job_key(job: Any) -> tuple[Any, ...]:
            if (settings.get(pool_of(job), default).inside or default.inside) == "fifo":
                return by_priority(job)
            weight = 2.0 ** (2 - PRIORITIES.index(job.spec.priority.value))
            return of_job[job.job] / weight, job.spec.submit_s, job.job

        return [job for name in sorted(pools, key=pool_key) for job in sorted(pools[name], key=job_key)]

    return order


def memory(view: Any, kind: TaskKind, name_of: Callable[[Any], Any]) -> Counter[Any]:
    """Return the bytes of memory held by maps and reduces on all nodes, grouped by `name_of` their job."""
    held: Counter[Any] = Counter()
    for node in view.nodes.values():
        for attempt in node.attempts.values():
            stage = attempt.task.stage
            held[name_of(stage.job)] += stage.demand.memory_bytes
    return held


def slots_for(asked: Any, job: Any, kind: TaskKind) -> int:
    """Return the number of slots that a task takes: several if it needs more memory than one slot has."""
    size = asked.map_slot_memory_bytes if kind is TaskKind.MAP else asked.reduce_slot_memory_bytes
    return 1 if size is None else max(1, ceil(job.stage(kind).demand.memory_bytes / size))


def sized_running(asked: Any) -> Callable[[Any, TaskKind, Callable[[Any], Any]], Counter[Any]]:
    """Return a function that counts used slots, grouped by `name_of` the job; a large task counts several."""

    def amounts(view: Any, kind: TaskKind, name_of: Callable[[Any], Any]) -> Counter[Any]:
        held: Counter[Any] = Counter()
        for node in view.nodes.values():
            for attempt in node.attempts.values():
                if attempt.task.stage.kind is kind:
                    job = attempt.task.stage.job
                    held[name_of(job)] += slots_for(asked, job, kind)
        return held

    return amounts


def capacity_order(asked: Any, whole: Any = None) -> Reference:
    """Return a function that orders the ready jobs as Capacity does.

    Queues are ordered by held over promised share, without queues that would exceed their maximum. Jobs of a
    queue are ordered by priority, without jobs of users at their limit. `asked` has the arguments of the
    `Capacity`. Shares count slots, or memory if `whole` is given, whose `total_bytes` returns the cluster's
    memory.
    """
    settings: Mapping[str, Any] = asked.queues or {}
    amounts = sized_running(asked) if whole is None else memory
    left = max(0.0, 100.0 - sum(known.capacity for known in settings.values()))

    def of_queue(name: str, field: str, default: Any) -> Any:
        value = getattr(settings.get(name), field, None)
        return default if value is None else value

    def listed(view: Any, kind: TaskKind) -> list[Any]:
        held = amounts(view, kind, lambda job: job.spec.queue)
        by_user = amounts(view, kind, lambda job: (job.spec.queue, job.spec.user))
        total = view.slots(kind) if whole is None else whole.total_bytes(view)
        busy = {job.spec.queue for job in view.jobs.values()}
        others = max(1, len(busy - settings.keys()))
        shares = {name: of_queue(name, "capacity", left / others) / 100 * total for name in busy}
        promised = {name: floor(share + EPSILON) for name, share in shares.items()}

        def fullness(name: str) -> tuple[Any, ...]:
            return (held[name] / promised[name] if promised[name] else 1.0), name

        answer: list[Any] = []
        for name in sorted({job.spec.queue for job in ready_jobs(view, kind)}, key=fullness):
            most = of_queue(name, "max_capacity", 100.0) / 100 * total
            mine = [job for job in ready_jobs(view, kind) if job.spec.queue == name]
            in_turn = of_queue(name, "priorities", asked.priorities)
            mine.sort(key=by_priority if in_turn else lambda job: (job.spec.submit_s, job.serial))
            users = {job.spec.user for job in mine}
            for job in mine:
                need = slots_for(asked, job, kind) if whole is None else job.stage(kind).demand.memory_bytes
                if most < total and held[name] and held[name] + need > most + EPSILON:
                    break
                limit = _user_limit(asked, of_queue, name, promised[name], held[name], len(users), need)
                if by_user[name, job.spec.user] + need <= limit:
                    answer.append(job)
        return answer

    return listed


def _user_limit(
    asked: Any,
    of_queue: Callable[..., Any],
    name: str,
    promised: float,
    held: int,
    users: int,
    need: int,
) -> int:
    """Return a user's limit by the rule of Hadoop 1.0.3, what the next task needs included.

    The limit is an equal part of the queue's share, or the minimum percentage if that is more, capped by a
    factor.
    """
    has = max(need, promised) if held < promised else held + need
    percent = of_queue(name, "minimum_user_limit_percent", asked.minimum_user_limit_percent)
    limit = max(ceil(has / users - EPSILON), ceil(has * percent / 100 - EPSILON))
    if promised > 0:
        factor = of_queue(name, "user_limit_factor", asked.user_limit_factor)
        limit = min(limit, floor(promised * factor + EPSILON))
    return max(need, limit)


def before_the_turn_ends(view: Any, node: Any, most: int, jobs: Iterable[Any]) -> Iterator[Any]:
    """Yield the jobs from which a heartbeat may start a task on the node: none after `most` off-rack tasks.

    Hadoop 3.4.1, CapacityScheduler.canAllocateMore.
    """
    here = [attempt for attempt in node.attempts.values() if attempt.assigned_s == view.now_s]
    if len([attempt for attempt in here if attempt.locality == "off"]) < most:
        yield from jobs


class KeptNodes:
    """The nodes that Capacity reserves for large tasks, which need several slots each.

    A node with too few free slots is reserved for a waiting large task, at most one node for each unstarted
    task.
    """

    def __init__(self, asked: Any) -> None:
        self._asked = asked
        self._kept: dict[tuple[str, TaskKind], set[str]] = {}

    def ready(self, job: Any, kind: TaskKind) -> None:
        """Release the nodes reserved for a job that had no task to start before."""
        self._kept.pop((job.job, kind), None)

    def first(self, view: Any, node: Any, kind: TaskKind, jobs: Iterable[Any]) -> Iterator[Any]:
        """Yield the jobs whose tasks fit, up to a job for which the node is reserved."""
        slots = node.spec.map_slots if kind is TaskKind.MAP else node.spec.reduce_slots
        mine = [each.task for each in node.attempts.values() if each.task.kind is kind]
        free = slots - sum(slots_for(self._asked, task.job, kind) for task in mine)
        for job in jobs:
            need, nodes = slots_for(self._asked, job, kind), self._kept.setdefault((job.job, kind), set())
            if min(need, slots) <= free:
                if need > 1:
                    nodes.discard(node.node)
                yield job
                continue
            nodes.intersection_update([name for name, other in view.nodes.items() if other.alive])
            if node.node in nodes or len(nodes) < job.stage(kind).unstarted:
                nodes.add(node.node)
                return

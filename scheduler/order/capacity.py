"""The order axis Capacity (Hadoop's capacity scheduler): each queue has a guaranteed share of the cluster,
and may also use slots that other queues leave idle.

A slot is offered first to the queue that holds the smallest part of its guaranteed share. Inside a queue,
jobs are sorted by priority, then by submit time; jobs of users at their limit are skipped. No task is
preempted. Source: Hadoop's Capacity Scheduler Guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

from schedbed.scheduler.hooks import QUIET, Quiet, drop
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    by_name,
    maybe_count,
    number,
    percent,
    positive,
    size,
    switch,
)
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.units import format_bytes

# The queues of the Capacity scheduler: their guaranteed shares, the resources they hold, and the limits of
# their users.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a queue as in Hadoop's capacity-scheduler.xml, in percent. None selects the policy's
    default.

    `capacity`: guaranteed share of the cluster. `max_capacity`: largest share that the queue may use while
    other queues are idle. `minimum_user_limit_percent`: percentage of the queue that each user may always
    use; with fewer users, each may use more. `user_limit_factor`: a user never holds more than this multiple
    of the queue's capacity. `priorities`: sort the queue's jobs by priority first.
    """

    capacity: float | None = None
    max_capacity: float = 100.0
    minimum_user_limit_percent: float | None = None
    user_limit_factor: float | None = None
    priorities: bool | None = None

    def completed(self, defaults: QueueSettings) -> QueueSettings:
        """Return these settings, where None is replaced by the value of `defaults`, except for `capacity`."""
        percent, factor = self.minimum_user_limit_percent, self.user_limit_factor
        priorities = self.priorities
        return replace(
            self,
            minimum_user_limit_percent=defaults.minimum_user_limit_percent if percent is None else percent,
            user_limit_factor=defaults.user_limit_factor if factor is None else factor,
            priorities=defaults.priorities if priorities is None else priorities,
        )


class Held:
    """The amount of slots, or of bytes of memory, that a queue holds, in total and by user."""

    __slots__ = ("by_user", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_user: dict[str, int] = {}

    def add(self, user: str, amount: int) -> None:
        self.total += amount
        self.by_user[user] = self.by_user.get(user, 0) + amount


class Queue:
    """A queue of the Capacity scheduler: its ready jobs, and the resources that its tasks hold, in slots or
    in bytes of memory.

    `settings` must have a value for each field, except for the `capacity` of a queue without a guaranteed share of
    its own. Such queues divide `unpromised`, a share of the cluster from 0 to 1.
    """

    __slots__ = (
        "held",
        "jobs",
        "max_share",
        "name",
        "named",
        "priorities",
        "ready",
        "share",
        "user_factor",
        "user_percent",
        "users",
    )

    def __init__(self, name: str, settings: QueueSettings, unpromised: float) -> None:
        self.name = name
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.held: dict[TaskKind, Held] = {kind: Held() for kind in TaskKind}
        self.jobs = 0  # That have not ended.
        self.users: dict[TaskKind, Counter[str]] = {kind: Counter() for kind in TaskKind}  # With ready jobs.
        self.set(settings, unpromised)

    def set(self, settings: QueueSettings, unpromised: float) -> None:
        """Give the queue these settings, and sort its jobs by them."""
        assert settings.minimum_user_limit_percent is not None and settings.user_limit_factor is not None
        self.named = settings.capacity is not None
        self.share = unpromised if settings.capacity is None else settings.capacity / 100
        self.max_share = settings.max_capacity / 100
        self.user_percent = settings.minimum_user_limit_percent
        self.user_factor = settings.user_limit_factor
        self.priorities = bool(settings.priorities)
        for ready in self.ready.values():
            for job in list(ready):
                ready.put(job, self._key(job))

    def _key(self, job: JobView) -> tuple[Any, ...]:
        return fifo_key(job) if self.priorities else (job.submit_s, job.serial)

    def list_job(self, job: JobView, kind: TaskKind, *, ready: bool) -> None:
        """Add the job to those with a task to start, or remove it."""
        jobs, users = self.ready[kind], self.users[kind]
        if ready and job not in jobs:
            jobs.put(job, self._key(job))
            users[job.user] += 1
        elif not ready and job in jobs:
            jobs.drop(job)
            users[job.user] -= 1
            if not users[job.user]:
                del users[job.user]

    def promised_share(self, unnamed: int) -> float:
        """Return the guaranteed share. Queues without one of their own, `unnamed` of them, share the rest."""
        return self.share if self.named else self.share / max(1, unnamed)


def over_max(held: Held, need: int, most: float) -> bool:
    """Return whether a task would exceed the queue's maximum. With nothing held, one always may run."""
    return held.total > 0 and held.total + need > most + _SLACK


def user_limit(
    held: Held, need: int, promised: float, users: int, minimum_percent: float, factor: float
) -> int:
    """Return the user limit of a queue: what a user may hold, the next task included.

    All amounts are in slots or in bytes of memory. `need`: amount for the next task. `promised`: the queue's
    guaranteed amount. `users`: number of the users with tasks to start. Two amounts are compared: an equal part
    for each user, and `minimum_percent` percent, both of the guaranteed amount or, if the queue uses more, of the
    amount in use. The limit is the larger amount, but at most `factor` times the guaranteed amount. A single
    task may always run. Source: CapacitySchedulerQueue.assignSlotsToJob of Hadoop 1.0.3.
    """
    current = max(need, promised) if held.total < promised else held.total + need
    limit = max(ceil(current / max(1, users) - _SLACK), ceil(current * minimum_percent / 100 - _SLACK))
    if promised > 0:
        limit = min(limit, int(promised * factor + _SLACK))
    return max(need, limit)


QUEUE_FULL, USER_FULL = "the queue has its maximum: ", " has the user's limit of "
_SLACK = 1e-9  # Guaranteed shares are fractions.


class Capacity:
    """The order axis of a composed policy: queues with guaranteed shares.

    Queues not named in `queues` share the remaining capacity equally. `map_slot_memory_bytes`,
    `reduce_slot_memory_bytes`: memory of a slot, or None. If set, a task that declares more memory takes
    several slots, at most all slots of a node. A node with too few free slots reserves them for such a task.
    A job has reservations on at most as many nodes as it has unstarted tasks.

    `off_switch_per_heartbeat`: largest number of tasks without input on the node or in its rack that one
    heartbeat of the node starts, or None for no limit. Reduces and maps without input are such tasks.
    """

    def __init__(
        self,
        *,
        queues: Mapping[str, QueueSettings] | None = None,
        minimum_user_limit_percent: float = 100.0,
        user_limit_factor: float = 1.0,
        priorities: bool = True,
        map_slot_memory_bytes: int | None = None,
        reduce_slot_memory_bytes: int | None = None,
        off_switch_per_heartbeat: int | None = None,
    ) -> None:
        self._off_switch = off_switch_per_heartbeat
        self._settings = dict(queues or {})
        self._unpromised = _unpromised(self._settings)
        self._defaults = QueueSettings(
            minimum_user_limit_percent=minimum_user_limit_percent,
            user_limit_factor=user_limit_factor,
            priorities=priorities,
        )
        self._slot_bytes = {
            TaskKind.MAP: map_slot_memory_bytes,
            TaskKind.REDUCE: reduce_slot_memory_bytes,
        }
        self.sizes_slots = map_slot_memory_bytes is not None or reduce_slot_memory_bytes is not None
        self._queues: dict[str, Queue] = {}
        self._unnamed = 0  # Number of queues with jobs that `queues` does not name.
        self._running: dict[tuple[str, TaskKind], int] = {}
        self._kept: dict[tuple[str, TaskKind], dict[str, None]] = {}  # nodes that wait for a large task
        self._by_memory = False
        self._memory_bytes = 0
        drop(self, "tick")  # Until `count_memory`.

    @property
    def closed_queues(self) -> tuple[str, ...]:
        """Return the named queues if their shares fill the cluster: jobs in any other would never run."""
        return tuple(self._settings) if self._settings and self._unpromised < _SLACK else ()

    @property
    def guarantees(self) -> dict[str, float]:
        """Return the share of the cluster that each named queue is promised, from 0 to 1."""
        return {
            name: each.capacity / 100 for name, each in self._settings.items() if each.capacity is not None
        }

    @property
    def is_plain(self) -> bool:
        """Return whether tasks take one slot each, and all queues have shares of the slots."""
        by_slots = not (self._by_memory or self.sizes_slots or self._off_switch is not None)
        are_shares = all(settings.capacity is not None for settings in self._settings.values())
        return by_slots and are_shares

    @property
    def quiet(self) -> Quiet | None:
        """Implement `Hooks.quiet`: with `off_switch`, the next heartbeat starts tasks that this one may not start."""
        return QUIET if self._off_switch is None else None

    def count_memory(self) -> None:
        """Measure shares in bytes of memory instead of slots.

        A policy whose admission does not limit slots must call this before the first job.
        """
        self._by_memory = True
        vars(self).pop("tick", None)

    # Resources that queues hold

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: increase the number of jobs of the job's queue and user."""
        queue = self._queue(job.queue)
        if not queue.jobs and not queue.named:
            self._unnamed += 1
        queue.jobs += 1

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: decrease the number of jobs of the job's queue and user."""
        queue = self._queue(job.queue)
        queue.jobs -= 1
        if not queue.jobs and not queue.named:
            self._unnamed -= 1

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: update the queue's ready jobs and the slots or memory that it holds."""
        queue, stage = self._queue(job.queue), job.stage(kind)
        key = (job.job, kind)
        started = stage.running - self._running.get(key, 0)
        if started:
            queue.held[kind].add(job.user, started * self._need(job, kind))
            self._running[key] = stage.running
        ready = job.active and stage.ready
        queue.list_job(job, kind, ready=ready)
        if not ready:
            self._kept.pop(key, None)
            if not job.active and not stage.running:
                self._running.pop(key, None)

    def stage_ready(self, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.stage_ready`: end reservations of a job that had no task to start.

        `changed` may not tell of that time, since one call reports several changes.
        """
        self._kept.pop((job.job, kind), None)

    def change(self, given: Mapping[str, Any]) -> bool:
        """Implement `Hooks.change`: the named queues have other settings from the next offer on.

        Raises ValueError if capacities add up to more than 100%.
        """
        if "queues" not in given:
            return False
        settings = {**self._settings, **_QUEUES.read(given["queues"])}
        _within_100(settings)
        self._settings, self._unpromised = settings, _unpromised(settings)
        for queue in self._queues.values():
            queue.set(self._settings_of(queue.name), self._unpromised)
        self._unnamed = sum(queue.jobs > 0 and not queue.named for queue in self._queues.values())
        return True

    def _settings_of(self, name: str) -> QueueSettings:
        return self._settings.get(name, self._defaults).completed(self._defaults)

    def new_queue(self, name: str) -> Queue:
        """Return an empty queue with its settings."""
        return Queue(name, self._settings_of(name), self._unpromised)

    def _queue(self, name: str) -> Queue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = self.new_queue(name)
            if self._by_memory:
                queue.held[TaskKind.REDUCE] = queue.held[TaskKind.MAP]
        return queue

    def _need(self, job: JobView, kind: TaskKind) -> int:
        """Return the number of slots that one task of the job takes, or its bytes of memory if shares are in memory."""
        asked, size = job.stage(kind).demand.memory_bytes, self._slot_bytes[kind]
        if self._by_memory:
            return asked
        return 1 if size is None else max(1, -(-asked // size))

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: update the total memory if shares are measured in it."""
        if self._by_memory:
            self._memory_bytes = _memory(view)

    def _total(self, view: View, kind: TaskKind) -> int:
        if not self._by_memory:
            return view.slots(kind)
        if not self._memory_bytes:
            self._memory_bytes = _memory(view)
        return self._memory_bytes

    # Order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`: jobs below limits, by the part of its share that their queue holds."""
        total = self._total(view, kind)
        queues: list[tuple[Any, ...]] = []
        for queue in self._queues.values():
            if queue.ready[kind]:
                # Whole slots, rounded down. A queue of none counts as full (QueueComparator of Hadoop 1.0.3).
                promised = int(queue.promised_share(self._unnamed) * total + _SLACK)
                full = queue.held[kind].total / promised if promised else 1.0
                queues.append((full, queue.name, promised, queue))
        queues.sort()
        return self._jobs(view, node, kind, total, queues)

    def _jobs(
        self, view: View, node: NodeView, kind: TaskKind, total: int, queues: list[tuple[Any, ...]]
    ) -> Iterator[JobView]:
        free = self._free(node, kind) if self.sizes_slots else 0
        if self._off_switch is not None and _off_switch_tasks(view, node) >= self._off_switch:
            return  # They end the node's turn (CapacityScheduler.canAllocateMore, Hadoop 3.4.1).
        for _, _, promised, queue in queues:
            held, limited = queue.held[kind], dict[tuple[str, int], None]()
            most = queue.max_share * total if queue.max_share < 1 else inf  # Else only the nodes are a limit.
            for job in queue.ready[kind]:
                need = self._need(job, kind)
                if over_max(held, need, most):
                    state = self.describe(queue, held.total, total, self._unnamed)
                    view.skip(node, job, kind, QUEUE_FULL + state)
                    break
                if (job.user, need) in limited:
                    continue
                limit = self._limit(queue, held, kind, need, promised)
                if held.by_user.get(job.user, 0) + need > limit:
                    limited[job.user, need] = None
                    view.skip(node, job, kind, job.user + USER_FULL + self._amount(limit))
                    continue
                if self.sizes_slots and not self._fits(job, node, kind, need, free):
                    if self._keeps(view, node, job, kind):
                        view.skip(
                            node, job, kind, f"needs {need} slots, {free} are free: the node waits for it"
                        )
                        return
                    continue
                yield job

    @staticmethod
    def _limit(queue: Queue, held: Held, kind: TaskKind, need: int, promised: float) -> int:
        users = len(queue.users[kind])
        return user_limit(held, need, promised, users, queue.user_percent, queue.user_factor)

    def _free(self, node: NodeView, kind: TaskKind) -> int:
        """Return the free slots. A task that declares much memory occupies several."""
        tasks = [attempt.task for attempt in node.attempts.values()]
        return node.spec.slots(kind) - sum(self._need(task.job, kind) for task in tasks if task.kind is kind)

    def _fits(self, job: JobView, node: NodeView, kind: TaskKind, need: int, free: int) -> bool:
        fits = min(need, node.spec.slots(kind)) <= free
        if fits and need > 1:
            self._kept.get((job.job, kind), {}).pop(node.node, None)
        return fits

    def _keeps(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> bool:
        """Return whether the node's slots are reserved for a larger task, on at most one node per unstarted one."""
        kept = self._kept.setdefault((job.job, kind), {})
        for name in [name for name in kept if not view.nodes[name].alive]:
            del kept[name]
        if node.node not in kept and len(kept) >= job.stage(kind).unstarted:
            return False
        kept[node.node] = None
        return True

    # Reasons

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return what the job's queue holds and is guaranteed, for the reason of a launch."""
        queue = self._queue(job.queue)
        return self.describe(queue, queue.held[kind].total, self._total(view, kind), self._unnamed)

    def describe(self, queue: Queue, held: int, total: int, unnamed: int) -> str:
        """Return a text of what the queue holds, is guaranteed, and may hold, in slots or bytes."""
        promised, most = queue.promised_share(unnamed) * total, queue.max_share * total
        return (
            f"queue {queue.name} holds {self._amount(held)} of {self._amount(promised)}, "
            f"at most {self._amount(most)}"
        )

    def _amount(self, amount: float) -> str:
        return format_bytes(round(amount)) if self._by_memory else f"{amount:.3g}"


def _unpromised(settings: Mapping[str, QueueSettings]) -> float:
    """Return the share of the cluster, from 0 to 1, that no queue is promised."""
    return max(0.0, 100.0 - sum(each.capacity or 0.0 for each in settings.values())) / 100


def _off_switch_tasks(view: View, node: NodeView) -> int:
    """Return the tasks of this heartbeat without input near: also all reduces, and maps without input."""
    return sum(each.locality == "off" and each.assigned_s == view.now_s for each in node.attempts.values())


def _memory(view: View) -> int:
    return sum(node.spec.memory_bytes for node in view.nodes.values() if node.alive)


def queues(doc: str) -> PolicyParameter:
    """Declare the parameter `queues`, for YAML only, with capacities of at most 100% in total."""
    example = "{prod: {capacity: 70, max_capacity: 90}}"
    readers = {
        "capacity": percent,
        "max_capacity": percent,
        "minimum_user_limit_percent": percent,
        "user_limit_factor": positive,
        "priorities": switch,
    }
    return by_name("queues", "queue", doc, example, readers, _queue_settings, _within_100)


def _queue_settings(**values: Any) -> QueueSettings:
    settings = QueueSettings(**values)
    if settings.capacity is None:
        raise ValueError("capacity is missing: the percentage of the cluster that the queue is promised")
    if settings.max_capacity < settings.capacity:
        raise ValueError(f"max_capacity {settings.max_capacity:g} is below capacity {settings.capacity:g}")
    return settings


def _within_100(made: dict[str, QueueSettings]) -> None:
    total = sum(settings.capacity or 0.0 for settings in made.values())
    if total > 100 + 1e-9:
        raise ValueError(f"capacities add up to {total:g}, expected at most 100")


def _check(order: Capacity, locality: Locality, admission: Admission) -> None:
    if admission.limits.slots:
        return
    if order.sizes_slots:
        raise ValueError("slot memory sizes slots, so it needs admission=slots")
    order.count_memory()


_QUEUES = queues(
    "settings by queue name: capacity (guaranteed %), max_capacity (%), minimum_user_limit_percent, "
    "user_limit_factor, priorities; other queues share the rest"
)
AXIS = Axis(
    axis="order",
    name="capacity",
    factory=Capacity,
    summary="queues have guaranteed shares and may also use idle slots of other queues, with limits "
    "for each user",
    paper="Hadoop capacity scheduler; lakshmi2019",
    parameters=(
        _QUEUES,
        number(
            "minimum_user_limit_percent",
            "100",
            "%",
            "part of a queue that each user may use even if many users share the queue; with few "
            "users, each may use more",
            percent,
        ),
        number(
            "user_limit_factor",
            "1",
            "",
            "largest multiple of a queue's guaranteed capacity that one user may use: 1 is "
            "the capacity itself",
            positive,
        ),
        number(
            "priorities",
            "true",
            "",
            "whether the jobs of a queue are sorted by priority before submit time",
            switch,
        ),
        size(
            "map_slot_memory",
            "off",
            "memory of a map slot, so that a map that declares more takes several slots; off "
            "for one slot per map",
        ),
        size(
            "reduce_slot_memory",
            "off",
            "memory of a reduce slot, so that a reduce that declares more takes several "
            "slots; off for one slot per reduce",
        ),
        maybe_count(
            "off_switch_per_heartbeat",
            "largest number of tasks started per heartbeat without their input in the node's rack, "
            "including all reduces, after which the heartbeat starts no more; off for no limit",
        ),
    ),
    check=_check,
    rank=20,
)
POLICY = AXIS.named(
    summary="Queues have guaranteed shares and may also use idle slots of other queues; each job "
    "starts the map nearest to its data.",
    rank=50,
)

"""Attaches the references to a policy: each answer of the policy is compared with theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.locality.split import SplitLocality
from schedbed.scheduler.order.capacity import Capacity
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.order.pools import PoolOrder, PoolSettings
from schedbed.scheduler.policies.late import Late
from schedbed.scheduler.policy import Composed
from schedbed.tasks.specs import TaskKind
from tests.search.oracles.job_orders import (
    KeptNodes,
    Reference,
    before_the_turn_ends,
    capacity_order,
    fair_order,
    fifo_order,
)
from tests.search.oracles.late_rule import LateRule
from tests.search.oracles.map_choices import DelayRule, check_greedy
from tests.search.oracles.preemption_rule import PreemptionRule
from tests.search.oracles.room import container_room, slot_room
from tests.search.oracles.split_rule import SplitRule
from tests.search.violation import hold

ELIDABLE = (Fifo, Fair, Capacity, Greedy, Delay, SplitLocality, Slots, Containers)


def watch_policy(policy: Any) -> Any:
    """Return the same policy, changed to raise Violation for an answer that differs from a reference."""
    if isinstance(policy, Composed):
        order: Any = policy.order
        asked: Any = getattr(order, "asked", None)
        near_only = type(order) is Capacity and asked.off_switch_per_heartbeat is not None
        quiet = all(type(axis) in ELIDABLE for axis in policy.axes) and not near_only
        told = f"{policy.axes}, off-switch {near_only}"
        promise = policy.quiet
        hold(promise is not None or not quiet, "shipped axes need not hear of all heartbeats", told)
        hold(promise is None or not near_only, "what a heartbeat may not start the next one may", told)
        if isinstance(order, PoolOrder) and type(order).jobs is PoolOrder.jobs:
            _watch_pools(policy)
        reference = _reference(policy, order)
        sizes_slots = type(order) is Capacity and _sizes_slots(asked)
        if reference is not None:
            _watch_order(
                policy,
                reference,
                KeptNodes(asked) if sizes_slots else None,
                asked.off_switch_per_heartbeat if near_only else None,
            )
        _watch_locality(policy, None if sizes_slots or near_only else reference)
        if isinstance(policy.order, Fair) and _preempts(policy.order):
            _watch_preemption(policy, policy.order)
    speculation = getattr(policy, "speculation", None)
    if isinstance(speculation, Late):
        _watch_copies(speculation)
    return policy


def _sizes_slots(asked: Any) -> bool:
    return asked.map_slot_memory_bytes is not None or asked.reduce_slot_memory_bytes is not None


def _preempts(order: Any) -> bool:
    return order.asked.min_share_timeout_s is not None or order.asked.fair_share_timeout_s is not None


class Memory:
    """The memory in bytes of the nodes alive at the last tick, which Capacity shares if it ignores slots."""

    def __init__(self, policy: Any) -> None:
        self._known_bytes = 0
        policy.tick = _after(policy.tick, self._count)

    def _count(self, view: Any) -> None:
        self._known_bytes = sum(node.spec.memory_bytes for node in view.nodes.values() if node.alive)

    def total_bytes(self, view: Any) -> int:
        """Return the memory at the last tick; before the first tick, the memory of the nodes alive now."""
        if not self._known_bytes:
            self._count(view)
        return self._known_bytes


def _reference(policy: Any, order: Any) -> Reference | None:
    asked: Any = getattr(order, "asked", None)
    if type(order) is Fifo:
        return fifo_order
    if type(order) is Fair:
        default, by_name = PoolSettings(inside=asked.inside), asked.ties == "name"

        def due(name: str, kind: TaskKind) -> int:
            return order.pools[name].due[kind]

        return fair_order(asked.pool_by == "user", asked.pools or {}, default, due, by_name=by_name)
    if type(order) is Capacity:
        return capacity_order(asked, Memory(policy) if not policy.limits.slots else None)
    return None


def _watch_pools(policy: Any) -> None:
    """Check that pools and their jobs are asked in the order of their current keys."""
    inner, order = policy._jobs, policy.order

    def jobs(view: Any, node: Any, kind: TaskKind) -> Iterator[Any]:
        pools = sorted((pool for pool in order.pools.values() if pool.ready[kind]), key=lambda p: p.key(kind))
        wanted = [
            job
            for pool in pools
            for job in sorted(pool.ready[kind], key=lambda job: pool.job_key(job, job.stage(kind)))
        ]
        found = list(inner(view, node, kind))
        seen = f"{view.now_s}: {[job.job for job in found]} instead of {[job.job for job in wanted]}"
        hold(found == wanted, "pools are asked by their keys", seen)
        yield from found

    policy._jobs = jobs


def _watch_order(policy: Any, reference: Reference, kept: KeptNodes | None, off_switch: int | None) -> None:
    inner = policy._jobs

    def jobs(view: Any, node: Any, kind: TaskKind) -> Iterator[Any]:
        wanted = iter(reference(view, kind))
        if kept is not None:
            wanted = kept.first(view, node, kind, wanted)
        if off_switch is not None:
            wanted = before_the_turn_ends(view, node, off_switch, wanted)
        for job in inner(view, node, kind):
            other = next(wanted, None)
            if other is not job:
                _differ(view, policy, kind, job.job, other)
            yield job
        other = next(wanted, None)
        if other is not None:
            _differ(view, policy, kind, "nobody", other)

    policy._jobs = jobs
    if kept is not None:
        stage_ready = policy.stage_ready

        def told(job: Any, kind: TaskKind) -> None:
            stage_ready(job, kind)
            kept.ready(job, kind)

        policy.stage_ready = told


def _differ(view: Any, policy: Any, kind: TaskKind, found: str, wanted: Any) -> None:
    name = type(policy.order).__name__
    seen = f"{view.now_s}: {found} instead of {wanted and wanted.job} for a {kind.value}"
    hold(False, f"{name} asks the jobs in its order", seen)


def _watch_locality(policy: Any, reference: Reference | None) -> None:
    plain = type(policy)._offer is Composed._offer
    if type(policy.locality) is Delay:
        asked: Any = policy.locality
        _watch_delay(
            policy,
            asked,
            DelayRule(asked.asked.node_wait_s, asked.asked.rack_wait_s, typed=policy.limits.slots),
        )
    elif type(policy.locality) is SplitLocality:
        _watch_split(policy, policy.locality)
    elif type(policy.locality) is Greedy:
        pick = policy._pick

        def picked(view: Any, node: Any, job: Any) -> Any:
            answer = pick(view, node, job)
            check_greedy(view, node, job, answer)
            return answer

        policy._pick = picked
    if reference is not None and type(policy.admission) in (Slots, Containers) and plain:
        _watch_room(policy, reference, greedy=type(policy.locality) is Greedy)


def _watch_room(policy: Any, reference: Reference, *, greedy: bool) -> None:
    """Check that a free slot goes to the first job in the order of `reference` that may use the slot.

    Unless locality is `greedy`, only reduces are checked, since a job may wait with its maps.
    """
    inner = policy.decide
    admission = policy.admission

    def has_room(node: Any, job: Any, kind: TaskKind) -> bool:
        if type(admission) is Containers:
            return container_room(admission.reserved_cores, node, job, kind)
        return slot_room(node, kind)

    def decide(view: Any, node: Any, kind: TaskKind) -> Any:
        jobs = [job for job in reference(view, kind) if has_room(node, job, kind)]
        wanted = next((job for job in jobs if not view.avoids(job, node, kind)), None)
        answer = inner(view, node, kind)
        if kind is TaskKind.REDUCE or greedy:
            found = answer.task.job if isinstance(answer, Proposal) else None
            seen = f"{view.now_s}: {node.node} gets {answer} instead of one of {wanted and wanted.job}"
            hold(found is wanted, "the first job that may has the room", seen)
        return answer

    policy.decide = decide


def _watch_split(policy: Any, split: Any) -> None:
    asked = split.asked
    rule = SplitRule(asked.share, asked.node_wait_s, asked.rack_wait_s, typed=policy.limits.slots)
    ended = policy.ended

    def told(view: Any, attempt: Any) -> None:
        ended(view, attempt)
        rule.ended(view, attempt)

    policy.ended = told
    _watch_delay(policy, split, rule)


def _watch_delay(policy: Any, delay: Any, rule: DelayRule) -> None:
    skip, wait_s = delay._skip, delay.asked.node_wait_s

    def skipped(view: Any, patience: Any) -> str:
        where = "a local" if not patience.level and patience.wait_s < wait_s else "a rack-local"
        reason = skip(view, patience)
        hold(reason.startswith(f"waits for {where} node, up to "), "a wait is told", reason)
        return reason

    delay._skip = skipped
    policy.beat, delay.beat = _after(policy.beat, rule.heartbeat), _after(delay.beat, rule.heartbeat)
    pick, avoided = policy._pick, policy._avoided

    def picked(view: Any, node: Any, job: Any) -> Any:
        answer = pick(view, node, job)
        rule.told(view, node, job, answer)
        return answer

    def avoids(view: Any, job: Any) -> None:
        avoided(view, job)
        rule.avoided(view, job)

    policy._pick, policy._avoided = picked, avoids


def _after(inner: Callable[..., Any], then: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that calls `inner`, then `then` with the same arguments."""

    def call(*arguments: Any) -> Any:
        answer = inner(*arguments)
        then(*arguments)
        return answer

    return call


def _watch_preemption(policy: Any, order: Any) -> None:
    asked = order.asked
    timeouts = asked.min_share_timeout_s, asked.fair_share_timeout_s
    settings, default = asked.pools or {}, PoolSettings(inside=asked.inside)
    rule = PreemptionRule(asked.pool_by == "user", settings, default, timeouts, asked.look_s)
    preempt, submitted = policy.preempt, policy.submitted

    def told(view: Any, job: Any) -> None:
        submitted(view, job)
        rule.submitted(job)

    def checked(view: Any) -> Any:
        live = [attempt for job in view.jobs.values() for attempt in job.attempts.values()]
        before = {attempt.attempt: str(attempt.state) for attempt in live}
        kills = list(preempt(view))
        rule.check(view, [kill for kill in kills if kill.reason.startswith("pool ")], before)
        return kills

    policy.preempt, policy.submitted = checked, told


def _watch_copies(late: Any) -> None:
    rule = LateRule(late)
    late.tick = _after(late.tick, rule.tick)
    ended, copy = late.ended, late.copy

    def told(view: Any, attempt: Any) -> None:
        ended(view, attempt)
        rule.ended(attempt)

    def copied(view: Any, node: Any, kind: TaskKind) -> Any:
        answer = copy(view, node, kind)
        rule.told(view, node, kind, answer)
        return answer

    late.ended, late.copy = told, copied

"""LATE speculation, combined with any policy: copies of the tasks that will end last, on nodes that are not
slow.

Zaharia et al., OSDI 2008, section 4. A copy uses only slots that the policy leaves free. Decisions where the
paper is open: an attempt's rate (progress per second) is compared with the rates of all attempts of its
stage, including ended attempts, since otherwise the last two stragglers would be compared only with each
other; a task is copied once, so that failing copies cannot use up its attempts; a reduce is copied only when
all maps are done, since before that it waits for maps.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any, NamedTuple

from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.models.time_left import percentile, time_left_s
from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.specs import NodeId, TaskKind

NEWEST = 0.3  # the weight of the newest attempt in a node's speed
_SLOWER = 1 - 1e-9  # Factor for limits: equal rates that differ only by rounding are not slow.


class SlowAttempt(NamedTuple):
    """An attempt that was slow at the last tick.

    `left_s`: expected remaining seconds. `serial`: launch number. `why`: the reason, as text.
    """

    left_s: float
    serial: int
    attempt: AttemptView
    why: str


class Late:
    """A speculation method for any policy: proposes copies of slow tasks for slots that the policy leaves
    free.

    `cap`: share of the slots that its copies may hold, at least one slot. `slow_task`: percentile (0 to 100) of
    the rates in a stage below which a task is slow. `slow_node`: percentile of the nodes' speeds below which
    a node receives no copies. `min_runtime_s`: seconds that an attempt must run before it can be called slow.
    """

    def __init__(
        self,
        *,
        cap: float = 0.1,
        slow_task: float = 25.0,
        slow_node: float = 25.0,
        min_runtime_s: float = 60.0,
    ) -> None:
        self._cap, self._slow_task, self._slow_node = cap, slow_task, slow_node
        self._min_runtime_s = min_runtime_s
        self.admission: Any = None  # The policy's admission, if it has one.
        # Tasks with a live copy that this object has proposed. The policy may propose others.
        self._copies: dict[TaskKind, dict[str, None]] = {kind: {} for kind in TaskKind}
        self._copied: dict[str, dict[str, None]] = {}  # tasks, by job
        self._rates: dict[tuple[str, TaskKind], list[float]] = {}  # of attempts that succeeded, sorted
        # By node, from attempts that run or ended there; 1 is the median.
        self._speeds: dict[NodeId, float] = {}
        self._slow: dict[NodeId, None] = {}
        self._candidates: dict[TaskKind, list[SlowAttempt]] = {kind: [] for kind in TaskKind}

    # ---------------------------------------------------------------- hooks

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: record the rate of a successful attempt, and update the speed of its node."""
        task, started_s = attempt.task, attempt.started_s
        if attempt.speculative:
            self._copies[task.kind].pop(task.task, None)
        if attempt.state == "succeeded" and started_s is not None and task.job.active:
            rates = self._rates.setdefault((task.job.job, task.kind), [])
            rate = _weight(task) / max(1e-3, attempt.end_s - started_s)
            insort(rates, rate)
            node, usual = attempt.node.node, percentile(rates, 50)
            before = self._speeds.get(node, 1.0)
            self._speeds[node] = before + NEWEST * (rate / usual - before)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: discard the rates of the job's attempts and the list of its copied tasks."""
        self._copied.pop(job.job, None)
        for kind in TaskKind:
            self._rates.pop((job.job, kind), None)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: find the slow tasks and the slow nodes."""
        found: dict[TaskKind, list[SlowAttempt]] = {kind: [] for kind in TaskKind}
        relative: dict[NodeId, list[float]] = {}
        for job in view.jobs.values():
            running: dict[TaskKind, list[AttemptView]] = {}
            for attempt in job.attempts.values():
                if self._is_judged(view, attempt):
                    running.setdefault(attempt.task.kind, []).append(attempt)
            for kind, attempts in running.items():
                if _may_copy(job, kind):
                    found[kind] += self._judge(view, job, kind, attempts, relative)
        for kind, candidates in found.items():
            self._candidates[kind] = sorted(candidates, key=lambda each: (-each.left_s, each.serial))
        self._find_slow_nodes(view, relative)

    def _is_judged(self, view: View, attempt: AttemptView) -> bool:
        started_s = attempt.started_s
        return (
            attempt.state == "running"
            and started_s is not None
            and view.now_s - started_s >= self._min_runtime_s
            and view.now_s > started_s
        )

    def _judge(
        self,
        view: View,
        job: JobView,
        kind: TaskKind,
        attempts: Iterable[AttemptView],
        relative: dict[NodeId, list[float]],
    ) -> Iterable[SlowAttempt]:
        """Yield a stage's slow attempts. Adds each rate over the stage's median to its node in `relative`."""
        rates = {id(each): _rate(each, view.now_s) for each in attempts}
        known = sorted([*self._rates.get((job.job, kind), ()), *rates.values()])
        limit, usual = percentile(known, self._slow_task), percentile(known, 50)
        copied = self._copied.get(job.job, {})
        for attempt in attempts:
            rate, task = rates[id(attempt)], attempt.task
            if usual > 0:
                relative.setdefault(attempt.node.node, []).append(rate / usual)
            if (
                rate < limit * _SLOWER
                and not attempt.speculative
                and len(task.attempts) == 1
                and task.task not in copied
            ):
                elapsed_s = view.now_s - (attempt.started_s or 0.0)
                left_s = time_left_s(attempt.progress, elapsed_s)
                why = f"{attempt.progress:.0%} after {elapsed_s:.1f} s, {left_s:.1f} s left"
                yield SlowAttempt(left_s, attempt.serial, attempt, why)

    def _find_slow_nodes(self, view: View, relative: dict[NodeId, list[float]]) -> None:
        """Find slow nodes by the mean of `relative` rates.

        A node without attempts keeps its last speed, since a copy may have ended its slow attempt.
        """
        for name, values in relative.items():
            self._speeds[name] = sum(values) / len(values)
        speeds = {name: speed for name, speed in self._speeds.items() if view.nodes[name].alive}
        self._slow = {}
        if speeds:
            limit = percentile(sorted(speeds.values()), self._slow_node)
            self._slow = {name: None for name, speed in speeds.items() if speed < limit * _SLOWER}

    # --------------------------------------------------------------- copies

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Speculation.copy`: the slow task that ends last, unless the node is slow or `cap` is reached."""
        candidates = self._candidates[kind]
        if not candidates or node.node in self._slow:
            return None
        if len(self._copies[kind]) >= max(1, int(self._cap * view.slots(kind))):
            return None
        for place, candidate in enumerate(candidates):
            attempt = candidate.attempt
            task = attempt.task
            if attempt.state != "running" or len(task.attempts) != 1 or attempt.node is node:
                continue
            if not (_may_copy(task.job, kind) and has_room(view, node, task.job, kind, self.admission)):
                continue
            del candidates[place]
            self._copies[kind][task.task] = None
            self._copied.setdefault(task.job.job, {})[task.task] = None
            return Proposal(
                task, f"copy of {attempt.attempt} on {attempt.node.node}: {candidate.why}", speculative=True
            )
        return None


def has_room(view: View, node: NodeView, job: JobView, kind: TaskKind, admission: Any) -> bool:
    """Return whether a copy of such a task may start on the node. `admission` is the policy's, or None."""
    if view.avoids(job, node, kind) or not view.fits(node, job.stage(kind)):
        return False
    return admission is None or (admission.room(node, kind) and admission.refuses(node, job, kind) is None)


def _may_copy(job: JobView, kind: TaskKind) -> bool:
    """Return whether tasks may be copied: reduces only after all maps, which run again if outputs are lost."""
    return kind is TaskKind.MAP or job.maps.done == job.maps.total


def _rate(attempt: AttemptView, now_s: float) -> float:
    started_s = attempt.started_s
    assert started_s is not None
    return attempt.progress * _weight(attempt.task) / (now_s - started_s)


def _weight(task: TaskView) -> float:
    """Return the size relative to a whole map, as parts would seem fast because they are small."""
    return task.part.share if task.part is not None else 1.0

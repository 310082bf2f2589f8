"""Sits between the driver and its core: keeps a journal of all events, and delivers some messages twice.

A late repetition comes right after a newer heartbeat of the same node, so that it must not change anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Reply, Reregister
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler import driver
from schedbed.scheduler.core.core import Core, Discard, JobEnded
from schedbed.scheduler.core.unchanged import UnchangedHeartbeats
from schedbed.scheduler.hooks import hook
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.heartbeats import HeartbeatSchedule
from schedbed.scheduler.simulate.tracked_nodes import SimNode
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, NodeId
from tests.search.oracles.avoidance_rule import AvoidanceRule
from tests.search.oracles.core_rules import CoreRules
from tests.search.oracles.replies_rule import RepliesRule
from tests.search.story import Story
from tests.search.violation import hold

Event = tuple[float, str, tuple[Any, ...]]
HEARD, PASSED = "heard", "passed"
"""Journal entries that are not methods of the core: the time of each node's last heartbeat (before a tick), and
a skipped heartbeat that delay scheduling awaits."""


class Postman:
    """Passes the driver's calls to its core and repeats some of them.

    `journal` has every event of the core, repeated events included.
    """

    def __init__(self, story: Story, *, audits: bool = False) -> None:
        self._rule = RepliesRule() if audits else None
        self.audits = audits
        self.rules = CoreRules()
        self.avoidance = AvoidanceRule()
        self.news: list[Any] = []  # Rows of attempts that the last event ended.
        self._story = story
        self._zombies = not story.lost_orders  # With lost orders, kills of strays could get lost as well.
        self._late: dict[
            str, list[tuple[int, str, tuple[Any, ...]]]
        ] = {}  # By node, with the number of heartbeats to wait.
        self._messages = 0
        self.journal: list[Event] = []
        self._told: dict[str, dict[str, AttemptReport]] = {}  # All reports so far, by node.
        self.strays = 0
        self.repeated = 0
        self.replays = False  # True during a replay of the journal: events pass unchanged.

    def do(self, core: Core, now_s: float, kind: str, *arguments: Any) -> Any:
        """Pass a call to the core and return the answer; sometimes repeat the call."""
        if self.replays:
            return getattr(Core, kind)(core, now_s, *arguments)
        if kind == "heartbeat" and self._story.strays:
            answer = self._tell_again(core, now_s, arguments[0])
        else:
            answer = self._pass_on(core, now_s, kind, arguments)
        if self._story.repeats and kind in (
            "heartbeat",
            "register",
            "committed",
            "commit_failed",
            "node_lost",
        ):
            self._messages += 1
            luck = chance(self._story.seed, "repeat", self._messages)
            if luck.random() < self._story.repeats:
                self._repeat(core, now_s, kind, arguments, answer, luck.randint(0, 3))
        if kind == "heartbeat" and self._late:
            known = not any(isinstance(action, Reregister) for action in answer.actions)
            self._deliver_late(core, now_s, arguments[0], known)
        return answer

    def _tell_again(self, core: Core, now_s: float, heartbeat: Heartbeat) -> Reply:
        """Pass on a heartbeat, sometimes with additional reports of attempts that ended long before.

        The only allowed effects of such reports are that the attempts' uncommitted files are deleted, and
        that attempts listed as running are killed.
        """
        told, node = self._told.setdefault(heartbeat.node, {}), core.ledger.nodes.get(heartbeat.node)
        old = [report for name, report in told.items() if node is None or name not in node.attempts]
        luck = chance(self._story.seed, "stray", heartbeat.node, heartbeat.incarnation, heartbeat.sequence)
        told |= {report.attempt: report for report in heartbeat.finished}
        known = node is not None and node.alive and node.incarnation == heartbeat.incarnation
        news = known and node is not None and heartbeat.sequence > node.sequence
        if not old or not news or luck.random() >= self._story.strays:
            return self._pass_on(core, now_s, "heartbeat", (heartbeat,))
        old = luck.sample(old, min(len(old), 3))
        self.strays += len(old)
        unwanted = {report.attempt: is_unwanted(core, report.attempt) for report in old}
        zombies = [
            AttemptStatus(report.attempt, 0.5, "map")
            for report in old
            if self._zombies and luck.random() < 0.3
        ]
        heartbeat = replace(
            heartbeat, finished=(*heartbeat.finished, *old), running=(*heartbeat.running, *zombies)
        )
        reply = self._pass_on(core, now_s, "heartbeat", (heartbeat,))
        dropped = {effect.attempt for effect in core.ledger.effects if isinstance(effect, Discard)}
        ended = {effect.job for effect in core.ledger.effects if isinstance(effect, JobEnded)}
        for attempt, wanted in unwanted.items():
            # Another report of the heartbeat may end the job, which discards all its files at once.
            alone = wanted and attempt.rsplit("_", 3)[0] not in ended
            hold((attempt in dropped) is alone, "a stray report discards what nobody wants", attempt)
        return reply

    def _pass_on(self, core: Core, now_s: float, kind: str, arguments: tuple[Any, ...]) -> Any:
        if kind == "tick":
            heard = tuple((node.node, node.heard_s) for node in core.ledger.nodes.values())
            self.journal.append((now_s, HEARD, heard))
        self.journal.append((now_s, kind, arguments))
        rule, ledger = self._rule, core.ledger
        if rule is None:
            return getattr(Core, kind)(core, now_s, *arguments)
        node = ledger.nodes.get(arguments[0].node) if kind == "heartbeat" else None
        again = node is not None and node.reply is not None and arguments[0].sequence <= node.sequence
        self.news.clear()
        fresh = self.rules.before(core, kind, arguments)
        if fresh and kind == "heartbeat":
            self.avoidance.heartbeat(arguments[0].node, full=arguments[0].disk_full)
        elif fresh and kind == "register":
            self.avoidance.heartbeat(arguments[0].node, full=False)
        answer = getattr(Core, kind)(core, now_s, *arguments)
        rule.discarded(core, self.news)
        self.rules.after(core, now_s, kind, arguments, fresh)
        if kind == "heartbeat" and not again:
            rule.answered(core, arguments[0], answer, self.news)
        elif kind == "replicas_changed":
            rule.moved(core, *arguments)
        elif kind == "submit" and arguments[0].job in ledger.jobs:
            rule.check_hosts(core, ledger.jobs[arguments[0].job])
        return answer

    def _repeat(
        self, core: Core, now_s: float, kind: str, arguments: tuple[Any, ...], answer: Any, heartbeats: int
    ) -> None:
        """Repeat a message, at once or after some heartbeats, and check that the answer is the same.

        For a message of a node, only heartbeats of this node count.
        """
        if heartbeats and kind != "node_lost":
            node = arguments[0].node if kind in ("heartbeat", "register") else ""
            self._late.setdefault(node, []).append((heartbeats, kind, arguments))
            return
        self.repeated += 1
        again = self._pass_on(core, now_s, kind, arguments)
        hold(again == answer, "a repeat is answered alike", f"{kind} at {now_s}: {again} after {answer}")

    def _deliver_late(self, core: Core, now_s: float, heartbeat: Heartbeat, known: bool) -> None:
        for whose in (heartbeat.node, ""):
            waiting = [(heartbeats - 1, kind, told) for heartbeats, kind, told in self._late.pop(whose, [])]
            keep = [entry for entry in waiting if entry[0] > 0]
            if keep:
                self._late[whose] = keep
            for heartbeats, kind, arguments in waiting:
                if heartbeats <= 0 and _is_old(kind, arguments, heartbeat, known):
                    self.repeated += 1
                    self._pass_on(core, now_s, kind, arguments)


def is_unwanted(core: Core, attempt: str) -> bool:
    """Return whether an attempt's output file is not needed.

    The attempt belongs to a running job, writes a file, and is not the winner of its task.
    """
    job_name, kind, index, _ = attempt.rsplit("_", 3)
    job = core.ledger.jobs.get(job_name)
    if job is None or (kind == "m" and job.reduces.total):
        return False
    task = (job.maps if kind == "m" else job.reduces).tasks[int(index)]
    return task.winner is None or task.winner.attempt != attempt


def _is_old(kind: str, arguments: tuple[Any, ...], heartbeat: Heartbeat, known: bool) -> bool:
    """Return whether a message is older than a heartbeat that was just received.

    `known` is whether the core knows the heartbeat's incarnation.
    """
    if kind == "heartbeat":
        late: Heartbeat = arguments[0]
        return (late.incarnation, late.sequence) <= (heartbeat.incarnation, heartbeat.sequence)
    return kind != "register" or (known and arguments[1] <= heartbeat.incarnation)


class WatchedCore(Core):
    """A core whose events pass through a `Postman`."""

    def __init__(self, postman: Postman, *arguments: Any, **named: Any) -> None:
        self._postman = postman
        super().__init__(*arguments, **named)
        if postman.audits:
            for name in ("_on_tick", "_preempt", "_decide"):
                setattr(self, name, _settled(getattr(self, name)))

    def heartbeat(self, now_s: float, heartbeat: Heartbeat) -> Reply:
        """Implement `Core.heartbeat`: pass the heartbeat to the `Postman`, which may repeat it."""
        return self._postman.do(self, now_s, "heartbeat", heartbeat)

    def register(self, now_s: float, node: NodeSpec, incarnation: int) -> None:
        """Implement `Core.register`: pass the registration to the `Postman`, which may repeat it."""
        self._postman.do(self, now_s, "register", node, incarnation)

    def node_lost(self, now_s: float, node: NodeId) -> None:
        """Implement `Core.node_lost`: pass the loss of a node to the `Postman`, which may repeat it."""
        self._postman.do(self, now_s, "node_lost", node)

    def tick(self, now_s: float) -> None:
        """Implement `Core.tick`: pass the tick to the `Postman`, which adds it to the journal."""
        self._postman.do(self, now_s, "tick")

    def kill_job(self, now_s: float, job: str, reason: str) -> None:
        """Implement `Core.kill_job`: pass the order to the `Postman`, which adds it to the journal."""
        self._postman.do(self, now_s, "kill_job", job, reason)

    def submit(self, now_s: float, job: JobSpec) -> None:
        """Implement `Core.submit`: pass the job to the `Postman`, which adds it to the journal."""
        self._postman.do(self, now_s, "submit", job)

    def committed(self, now_s: float, attempt: str) -> None:
        """Implement `Core.committed`: pass the commit to the `Postman`, which may repeat it."""
        self._postman.do(self, now_s, "committed", attempt)

    def commit_failed(self, now_s: float, attempt: str, reason: str) -> None:
        """Implement `Core.commit_failed`: pass the failure to the `Postman`, which may repeat it."""
        self._postman.do(self, now_s, "commit_failed", attempt, reason)

    def replicas_changed(self, now_s: float, block: str, hosts: Iterable[NodeId]) -> None:
        """Implement `Core.replicas_changed`: pass a block's holders to the `Postman`, which journals them."""
        self._postman.do(self, now_s, "replicas_changed", block, tuple(hosts))


def _settled(hook: Any) -> Any:
    """Wrap a policy's hook with a check that all changes were reported before (`Hooks.changed`)."""

    def call(view: Any, *arguments: Any) -> Any:
        hold(not view.unsettled, "a policy is told what changed before it is asked", f"{view.now_s}: {hook}")
        return hook(view, *arguments)

    return hook and call


@contextmanager
def carried_by(postman: Postman) -> Iterator[None]:
    """Make simulations that start in this context pass their core's events through a `Postman`.

    All heartbeats are then complete messages, also those that report no change.
    """

    def make(*arguments: Any, **named: Any) -> WatchedCore:
        return WatchedCore(postman, *arguments, **named)

    inner = HeartbeatSchedule.tell_passed

    def tell_passed(schedule: HeartbeatSchedule, now_s: float, node: SimNode) -> None:
        postman.journal.append((now_s, PASSED, (node.node,)))
        inner(schedule, now_s, node)

    with (
        patch.object(driver, "Core", make),
        patch.object(HeartbeatSchedule, "tell_passed", tell_passed),
        patch.object(UnchangedHeartbeats, "take", lambda *_: False),
    ):
        yield


def replay(journal: Iterable[Event], core: Core, policy: Policy) -> None:
    """Apply the journal's events to a new core with a new policy."""
    ledger, nodes, beat = core.ledger, core.ledger.nodes, hook(policy, "beat")
    for now_s, kind, arguments in journal:
        if kind == HEARD:
            for name, heard_s in arguments:
                nodes[name].heard_s = heard_s
        elif kind == PASSED:
            ledger.now_s = now_s
            beat(ledger, nodes[arguments[0]])
        else:
            getattr(core, kind)(now_s, *arguments)
        core.take_effects()

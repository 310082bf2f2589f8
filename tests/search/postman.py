"""Stands between the driver and its core: keeps a journal, and delivers some messages a second time, at once or late.

A late one comes right after a newer heartbeat of its node, so that it tells the JobTracker of no life that
it does not know of; then nothing at all may come of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from schedbed.cluster.messages import Heartbeat, Reply, Reregister
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler import driver
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.elision import Awaits
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, NodeId
from tests.search.story import Story
from tests.search.violation import hold

Event = tuple[float, str, tuple[Any, ...]]
HEARD, PASSED = "heard", "passed"
"""In the journal, but no methods of the core. The driver says when each node was last heard of (before a tick) and
tells delay scheduling of a heartbeat that it awaits, where these need not be played."""


class Postman:
    """Carries the driver's calls to its core. `journal` has every event that the core took, repeats too."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._late: dict[str, list[tuple[int, str, tuple[Any, ...]]]] = {}  # by node, with beats to go
        self._messages = 0
        self.journal: list[Event] = []
        self.repeated = 0
        self.replays = False  # while a JobTracker replays its own journal nothing is touched

    def do(self, core: Core, now_s: float, kind: str, *arguments: Any) -> Any:
        """One call."""
        if self.replays:
            return getattr(Core, kind)(core, now_s, *arguments)
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

    def _pass_on(self, core: Core, now_s: float, kind: str, arguments: tuple[Any, ...]) -> Any:
        if kind == "tick":
            heard = tuple((node.node, node.heard_s) for node in core.ledger.nodes.values())
            self.journal.append((now_s, HEARD, heard))
        self.journal.append((now_s, kind, arguments))
        return getattr(Core, kind)(core, now_s, *arguments)

    def _repeat(
        self, core: Core, now_s: float, kind: str, arguments: tuple[Any, ...], answer: Any, beats: int
    ) -> None:
        """The same message comes again, at once or after so many heartbeats (of its node, if it has one)."""
        if beats and kind != "node_lost":
            node = arguments[0].node if kind in ("heartbeat", "register") else ""
            self._late.setdefault(node, []).append((beats, kind, arguments))
            return
        self.repeated += 1
        again = self._pass_on(core, now_s, kind, arguments)
        hold(again == answer, "a repeat is answered alike", f"{kind} at {now_s}: {again} after {answer}")

    def _deliver_late(self, core: Core, now_s: float, beat: Heartbeat, known: bool) -> None:
        for whose in (beat.node, ""):
            waiting = [(beats - 1, kind, told) for beats, kind, told in self._late.pop(whose, [])]
            keep = [entry for entry in waiting if entry[0] > 0]
            if keep:
                self._late[whose] = keep
            for beats, kind, arguments in waiting:
                if beats <= 0 and _is_old(kind, arguments, beat, known):
                    self.repeated += 1
                    self._pass_on(core, now_s, kind, arguments)


def _is_old(kind: str, arguments: tuple[Any, ...], beat: Heartbeat, known: bool) -> bool:
    """Does it come from the past of the life that has just been heard of (and is `known`)?"""
    if kind == "heartbeat":
        late: Heartbeat = arguments[0]
        return (late.incarnation, late.sequence) <= (beat.incarnation, beat.sequence)
    return kind != "register" or (known and arguments[1] <= beat.incarnation)


class WatchedCore(Core):
    """A core whose events go through a postman."""

    def __init__(self, postman: Postman, *arguments: Any, **named: Any) -> None:
        self._postman = postman
        super().__init__(*arguments, **named)

    def heartbeat(self, now_s: float, beat: Heartbeat) -> Reply:
        """As in `Core`."""
        return self._postman.do(self, now_s, "heartbeat", beat)

    def register(self, now_s: float, node: NodeSpec, incarnation: int) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "register", node, incarnation)

    def node_lost(self, now_s: float, node: NodeId) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "node_lost", node)

    def tick(self, now_s: float) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "tick")

    def submit(self, now_s: float, job: JobSpec) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "submit", job)

    def committed(self, now_s: float, attempt: str) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "committed", attempt)

    def commit_failed(self, now_s: float, attempt: str, reason: str) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "commit_failed", attempt, reason)

    def replicas_changed(self, now_s: float, block: str, hosts: Iterable[NodeId]) -> None:
        """As in `Core`."""
        self._postman.do(self, now_s, "replicas_changed", block, tuple(hosts))


@contextmanager
def carried_by(postman: Postman) -> Iterator[None]:
    """Simulations that are made and played here have cores whose events this postman carries."""

    def make(*arguments: Any, **named: Any) -> WatchedCore:
        return WatchedCore(postman, *arguments, **named)

    inner = Awaits.pass_beat

    def pass_beat(awaits: Awaits, view: View, node: NodeView) -> None:
        postman.journal.append((view.now_s, PASSED, (node.node,)))
        inner(awaits, view, node)

    with patch.object(driver, "Core", make), patch.object(Awaits, "pass_beat", pass_beat):
        yield


def replay(journal: Iterable[Event], core: Core, policy: Policy) -> None:
    """Plays the events on a fresh core with a fresh policy."""
    ledger, nodes, awaits = core.ledger, core.ledger.nodes, Awaits(policy)
    for now_s, kind, arguments in journal:
        if kind == HEARD:
            for name, heard_s in arguments:
                nodes[name].heard_s = heard_s
        elif kind == PASSED:
            ledger.now_s = now_s
            awaits.pass_beat(ledger, nodes[arguments[0]])
        else:
            getattr(core, kind)(now_s, *arguments)
        core.take_effects()

"""Simulated nodes, each a tracker with timers, and rings: nodes in the order of their next timers."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.entities import Node


class SimNode(Tracker):
    """A node's tracker and timers. `base_s` is the time at which its timer's heartbeat number 0 is served; others
    follow every `heartbeat_s`."""

    __slots__ = (
        "always",
        "base_s",
        "blocks",
        "counted",
        "due",
        "event_s",
        "free_map",
        "free_reduce",
        "frozen",
        "grid_s",
        "held",
        "index",
        "join_s",
        "late",
        "phase_s",
        "rates",
        "reduces",
        "resend_s",
        "sent",
        "spec",
        "start_s",
        "timer_s",
        "timers",
        "up",
    )

    def __init__(self, index: int, spec: NodeSpec, start_s: float) -> None:
        super().__init__(spec.node, 0)
        self.index = index
        self.spec = spec
        self.start_s = start_s  # from the service of a heartbeat to the first line of an attempt's code
        self.always = False  # each of its heartbeats is simulated
        self.phase_s = 0.0  # from its joining to its timer's first heartbeat
        self.base_s = 0.0
        self.timer_s = -1.0  # no timer goes before that, as far as anybody has looked
        self.grid_s = -1.0  # when the next timer's heartbeat must be simulated; negative if none must
        self.event_s = -1.0  # when a heartbeat is served that an event has set off
        self.resend_s = -1.0  # when a heartbeat is sent again that was not answered
        self.due = False  # another one is to follow it
        self.timers = 0  # simulated in this incarnation
        self.sent = 0  # heartbeats that could have been lost
        self.late = -1  # the heartbeat that a fault has delayed, and that is served next
        self.join_s = -1.0  # when it joins next
        self.up = False
        self.frozen = False
        self.rates = (1.0, 1.0, 1.0)
        self.reduces = 0  # that run, as far as heartbeats have said
        self.counted = -1  # the last heartbeat whose reports were counted
        self.held: Node | None = None  # the core's object of this life
        self.free_map = self.free_reduce = False  # whether it is in the rings of nodes with free slots
        self.blocks: list[dict[str, Any]] | None = None  # on its disk, when the NameNode has given it up

    def boot(self, base_s: float) -> None:
        """Boot the node and prepare it to join as a new incarnation."""
        self.up, self.frozen = True, False
        self.base_s = base_s
        self.timers = 0
        self.rates = (1.0, 1.0, 1.0)
        self.join_again()

    def join_again(self) -> None:
        """Start the next incarnation, with no heartbeat on the way and no timer scheduled."""
        self.begin_life(self.incarnation + 1)
        self.timer_s = -1.0
        self.grid_s = self.event_s = self.resend_s = -1.0
        self.due = False
        self.reduces = 0
        self.counted = self.late = -1


class Ring:
    """A set of nodes in the order of their timers within one heartbeat interval."""

    __slots__ = ("_interval_s", "_members", "_nodes")

    def __init__(self, nodes: list[SimNode], interval_s: float) -> None:
        self._nodes = nodes
        self._interval_s = interval_s
        self._members: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._members)

    def _key(self, node: SimNode) -> tuple[float, int]:
        return (node.base_s % self._interval_s, node.index)

    def add(self, node: SimNode) -> None:
        """Add a node that is not a member."""
        insort(self._members, self._key(node))

    def remove(self, node: SimNode) -> None:
        """Remove a node, if it is a member. Its `base_s` must not have changed since it was added."""
        place = bisect_left(self._members, self._key(node))
        if place < len(self._members) and self._members[place][1] == node.index:
            del self._members[place]

    def members(self) -> list[SimNode]:
        """Return all members in order."""
        return [self._nodes[index] for _, index in self._members]

    def after(self, now_s: float, passed: int) -> tuple[float, SimNode] | None:
        """Return the first timer of a member from now on, and the member.

        At the very time `now_s`, nodes with an index up to `passed` have had their timers.
        """
        members = self._members
        if not members:
            return None
        place = bisect_left(members, (now_s % self._interval_s, -1))
        best: tuple[float, int] | None = None
        count = len(members)
        # Rounding may put a timer on the wrong side of the cut: its neighbors are looked at, too.
        for near in range(place - 1, place + 2):
            node = self._nodes[members[near % count][1]]
            at_s = next_grid_s(node, now_s, self._interval_s, passed)
            if best is None or (at_s, node.index) < best:
                best = (at_s, node.index)
        assert best is not None
        return best[0], self._nodes[best[1]]


def next_grid_s(node: SimNode, now_s: float, interval_s: float, passed: int) -> float:
    """Return the node's first timer from now on. Its very first is one interval after the start of the
    incarnation."""
    base_s = node.base_s
    number = int((now_s - base_s) / interval_s)
    if number < 1:
        number = 1
    at_s = base_s + number * interval_s
    while at_s < now_s or (at_s == now_s and node.index <= passed):
        number += 1
        at_s = base_s + number * interval_s
    return at_s

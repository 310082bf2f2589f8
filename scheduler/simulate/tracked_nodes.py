"""Simulated nodes with their heartbeat timers, and rings of nodes in the order of their timers."""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf
from typing import Any, Protocol

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.entities import Node
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, Effect, JobRow, NoSink, Sink
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.policy import HostedPolicy, Policy
from schedbed.scheduler.simulate.setup import Rows, Setup


class SimNode(Tracker):
    """A simulated node: its TaskTracker's state, and a timer.

    The JobTracker processes regular heartbeat k (k = 1, 2, ...) k intervals after `base_s`.
    """

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
        "tells",
        "timer_s",
        "timers",
        "up",
    )

    def __init__(self, index: int, spec: NodeSpec, start_s: float) -> None:
        super().__init__(spec.node, 0)
        self.index = index
        self.spec = spec
        self.start_s = start_s  # from the service of a heartbeat to the first line of an attempt's code
        self.always = False  # Whether all its heartbeats are simulated.
        self.tells = False  # Whether its heartbeats contain the progress of its attempts.
        self.phase_s = 0.0  # Seconds from joining to the timer's first heartbeat.
        self.base_s = 0.0
        self.timer_s = -1.0  # No timer fires before this time, as of the last check.
        self.grid_s = -1.0  # Time of the next timer to simulate; negative if there is none.
        self.event_s = -1.0  # Time at which a heartbeat caused by an event is served.
        self.resend_s = -1.0  # Time at which an unanswered heartbeat is sent again.
        self.due = False  # Whether another heartbeat must follow the unanswered one.
        self.timers = 0  # Number of timers simulated in this incarnation.
        self.sent = 0  # Number of messages that a fault could have lost.
        self.late = -1  # Sequence of a heartbeat that a fault has delayed; served next.
        self.join_s = -1.0  # Time of the next registration.
        self.up = False
        self.frozen = False
        self.rates = (1.0, 1.0, 1.0)
        self.reduces = 0  # Number of running reduces, by the heartbeats so far.
        self.counted = -1  # Sequence of the last heartbeat whose reports were counted.
        self.held: Node | None = None  # The core's object of this incarnation.
        self.free_map = self.free_reduce = False  # Membership in the rings of free slots.
        # Blocks on the node's disk, if the NameNode has given up the node.
        self.blocks: list[dict[str, Any]] | None = None

    @property
    def as_known(self) -> Node | None:
        """Return the core's node if the next heartbeat reports no change of attempts or disk, or else None."""
        held = self.held
        if held is None or self.tells or self.finished or self.fetch_failures:
            return None
        return held if held.incarnation == self.incarnation and held.disk_full is self.disk_full else None

    def boot(self, base_s: float) -> None:
        """Begin a new incarnation, whose timer first fires one interval after `base_s`."""
        self.up, self.frozen = True, False
        self.base_s = base_s
        self.timers = 0
        self.rates = (1.0, 1.0, 1.0)
        self.join_again()

    def join_again(self) -> None:
        """Start a new incarnation (life) of the node, without pending heartbeats or scheduled timers."""
        self.begin_life(self.incarnation + 1)
        self.timer_s = -1.0
        self.grid_s = self.event_s = self.resend_s = -1.0
        self.due = False
        self.reduces = 0
        self.counted = self.late = -1


class HeartbeatFaults(Protocol):
    """The attributes and methods of `virtual_faults.Faults` that concern heartbeats."""

    touch_heartbeats: bool

    def delay_s(self, node: SimNode) -> float: ...

    def passes(self, now_s: float, node: SimNode, kind: str) -> bool: ...


class Ring:
    """A set of nodes, in the order in which their heartbeat timers fire within one heartbeat interval."""

    __slots__ = ("_interval_s", "_members", "_next", "_nodes")

    def __init__(self, nodes: list[SimNode], interval_s: float) -> None:
        self._nodes = nodes
        self._interval_s = interval_s
        self._members: list[tuple[float, int]] = []
        # The last result of `after` and its `now_s`, if no node was added or removed since then.
        self._next: tuple[float, float, SimNode] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def _key(self, node: SimNode) -> tuple[float, int]:
        return (node.base_s % self._interval_s, node.index)

    def add(self, node: SimNode) -> None:
        """Add a node that is not in the ring."""
        insort(self._members, self._key(node))
        self._next = None

    def remove(self, node: SimNode) -> None:
        """Remove a node if it is in the ring. The node's `base_s` must not have changed since the node was added."""
        place = bisect_left(self._members, self._key(node))
        if place < len(self._members) and self._members[place][1] == node.index:
            del self._members[place]
            self._next = None

    def members(self) -> list[SimNode]:
        """Return the ring's nodes in order."""
        return [self._nodes[index] for _, index in self._members]

    def after(self, now_s: float, passed: int) -> tuple[float, SimNode] | None:
        """Return the next timer and its node, or None. At `now_s`, those of nodes up to `passed` have fired."""
        members = self._members
        if not members:
            return None
        known = self._next
        if known is not None and known[0] < now_s < known[1]:
            return known[1], known[2]
        place, count = bisect_left(members, (now_s % self._interval_s, -1)), len(members)
        best_s, best = inf, -1
        # Rounding can put a timer on the wrong side of the cut, so both neighbors are checked as well.
        for near in range(place - 1, place - 1 + min(3, count)):
            index = members[near % count][1]
            at_s = next_grid_s(self._nodes[index], now_s, self._interval_s, passed)
            if at_s < best_s or (at_s == best_s and index < best):
                best_s, best = at_s, index
        self._next = now_s, best_s, self._nodes[best]
        return best_s, self._nodes[best]


def next_grid_s(node: SimNode, now_s: float, interval_s: float, passed: int) -> float:
    """Return when the node's timer fires next; at `now_s`, those of nodes up to `passed` have fired."""
    base_s = node.base_s
    number = int((now_s - base_s) / interval_s)
    if number < 1:
        number = 1
    at_s = base_s + number * interval_s
    while at_s < now_s or (at_s == now_s and node.index <= passed):
        number += 1
        at_s = base_s + number * interval_s
    return at_s


# The simulated JobTracker: the `Driver` of live runs, which a fault may stop and restart.


class Gate:
    """Passes rows on to `target`, which drops them during a replay: they are written already."""

    def __init__(self, target: Sink) -> None:
        self.target: Sink = target

    def decision(self, row: DecisionRow) -> None:
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        self.target.job(row)


class Master(Driver):
    """The JobTracker of a simulation, with a journal only if a fault crashes it.

    While `is_up` is false, its methods must not be called.
    """

    def __init__(self, setup: Setup, policy: Policy, rows: Rows) -> None:
        self._rows = rows
        self._gate = Gate(rows)
        self.journals = any(fault.kind == "crash_jobtracker" for fault in setup.faults)
        self.is_up = True
        self._relay = policy.relay if isinstance(policy, HostedPolicy) else None
        self.relays = self._relay is not None
        if self.relays:
            vars(self)["do"] = self._do_relayed
        super().__init__(
            setup.framework.core_config(
                setup.cluster.heartbeat_s, setup.sizes, records_skips=setup.skip_rows
            ),
            setup.policy,
            self._gate if self.journals else rows,
            seed=setup.seed,
            journal=EventList(setup.snapshot_every) if self.journals else None,
            policy=policy,
            end_delay_s=setup.framework.cleanup_takes_s(setup.cluster.heartbeat_s),
        )

    def _do_relayed(self, now_s: float, kind: str, *arguments: Any) -> Any:
        if self._relay is not None:
            if kind == "tick":  # Skipped heartbeats count as heard here.
                latest_s = now_s - self.core.config.silence_s
                nodes = self.ledger.nodes.values()
                silent = tuple(node.node for node in nodes if node.alive and node.heard_s < latest_s)
                self._relay(now_s, "heard", (silent,))
            self._relay(now_s, kind, arguments)
        return super().do(now_s, kind, *arguments)

    def crash(self) -> None:
        """Stop the JobTracker. Only what is in the journal can be recovered."""
        self.is_up = False

    def recover(self, now_s: float) -> list[Effect]:
        """Implement `Driver.recover`, without the rows of the replay, which are in the tables."""
        self._gate.target = NoSink()
        effects = super().recover(now_s)
        self._gate.target = self._rows
        self.is_up = True
        return effects

"""The schedule of regular heartbeats, which leaves out those that would have no effect.

If none is skipped, each node's timer fires in each interval. Otherwise it is simulated while the node could
be offered a task that might start, or an order waits. When tasks become ready, a chain wakes the nodes with
free slots in the order of their timers, until all have sent a heartbeat or no task is ready.
"""

from __future__ import annotations

from collections.abc import Callable

from schedbed.scheduler.core.core_tables import CoreTables
from schedbed.scheduler.core.entities import Node
from schedbed.scheduler.hooks import Quiet, quiet_of
from schedbed.scheduler.policy import HeartbeatWatch, HostedPolicy, Policy
from schedbed.scheduler.simulate.event_queue import TIMER, EventQueue
from schedbed.scheduler.simulate.tracked_nodes import Ring, SimNode, next_grid_s
from schedbed.tasks.specs import NodeId

# Wake-ups and skipped heartbeats
#
# A node of a large cluster sends a heartbeat every few seconds, and nearly all of them find nothing to do.
# Simulating each one would cost more than everything else together. A heartbeat may be left out if nobody
# could tell: it reports nothing new, the node receives no action, and the policy would launch nothing. The
# third condition is the hard one, since a policy may decide by anything that it can read.
#
# So the question is turned around: which events could change the answer? These are the events of the core
# (a task became ready, an attempt ended, a job was submitted, a block moved), the passing of time for
# policies that wait, and the values that heartbeats themselves carry. The core reports the first as
# wake-ups: a node that rests is woken and sends its next heartbeat at the time at which it would have sent
# it anyway, on its own grid of times, so that nothing shifts. A policy that waits for time says so
# (`Hooks.quiet`). For the third, a user's policy is watched: the first read of such a
# value raises HeartbeatRead, and the simulation starts again with every heartbeat. The rows of a run are
# the same bytes either way, which tests/search checks with generated runs.


def is_quiet(policy: Policy) -> bool:
    """Return whether heartbeats without changes do not matter (`Hooks.quiet`)."""
    quiet = quiet_of(policy)
    return quiet is not None and not quiet.counts


def watch_of(policy: Policy) -> HeartbeatWatch | None:
    """Watch a user's policy for reads of values from heartbeats; None for a shipped one."""
    return policy.watch_heartbeats() if isinstance(policy, HostedPolicy) else None


class Chain:
    """Wakes the nodes of a ring, a set in the order of timers, each timer scheduling the next.

    It ends after one interval, or when `goes_on` returns false.
    """

    __slots__ = ("_goes_on", "_interval_s", "_timers", "_until_s", "at", "ring")

    def __init__(
        self, timers: TimerSchedule, ring: Ring, interval_s: float, goes_on: Callable[[], bool]
    ) -> None:
        self._timers = timers
        self.ring = ring
        self._interval_s = interval_s
        self._goes_on = goes_on
        self._until_s = -1.0
        self.at: tuple[float, int] | None = None  # The timer (time, node index) that continues the chain.

    def start(self, now_s: float) -> None:
        """Start to wake the ring's nodes for one interval."""
        self._until_s = now_s + self._interval_s
        self.advance(now_s)

    def advance(self, now_s: float) -> None:
        """Schedule the next timer of the ring, unless the interval is over or `goes_on` returns false."""
        self.at = None
        if self._goes_on():
            found = self.ring.after(now_s, self._timers.queue.passed)
            if found is not None and found[0] <= self._until_s:
                self._timers.want(now_s, found[1])
                self.at = (found[0], found[1].index)
                self._timers.pointers.setdefault(self.at, []).append(self)


class TimerSchedule:
    """All regular heartbeats. Unless `elides`, all timers are simulated, without rings and chains."""

    def __init__(self, queue: EventQueue, nodes: list[SimNode], interval_s: float, *, elides: bool) -> None:
        self.queue = queue
        self._nodes = nodes
        self._interval_s = interval_s
        self.elides = elides
        self.everyone = Ring(nodes, interval_s)
        self._free = (Ring(nodes, interval_s), Ring(nodes, interval_s))
        self._tables: CoreTables | None = None
        self._chains = (
            Chain(self, self._free[0], interval_s, self._maps_wait),
            Chain(self, self._free[1], interval_s, self._reduces_wait),
        )
        self._typed = True
        self._feeds: dict[str, Chain] = {}
        self.pointers: dict[tuple[float, int], list[Chain]] = {}  # Chains by the timer that continues them.
        self._maps_ready = self._reduces_ready = False
        self._quiet = Quiet()
        # Of the last look at resting nodes: `Quiet.turn`, and the map and reduce slots.
        self._rest_turn = (0, 0, 0)
        # By index; includes nodes that no longer rest.
        self._resting: dict[int, SimNode] = {}
        self._stirred: dict[NodeId, None] = {}

    def follow(self, tables: CoreTables, policy: Policy) -> None:
        """Use this core and policy from now on, at the start or restart of the JobTracker."""
        self._tables = tables
        self._quiet = (self.elides and quiet_of(policy)) or Quiet()
        self._typed = tables.limits.slots
        if self.elides:
            tables.watch_kills(self._stir)

    def _stir(self, node: NodeId) -> None:
        """Record that the core wants to kill an attempt on the node, so the node's next heartbeat is simulated."""
        self._stirred[node] = None

    def _maps_wait(self) -> bool:
        return self._tables is not None and self._tables.ready_maps > 0

    def _reduces_wait(self) -> bool:
        return self._tables is not None and self._tables.ready_reduces > 0

    # ----------------------------------------------------------------- nodes

    def joined(self, node: SimNode) -> None:
        """Start a registered node's timer."""
        self.everyone.add(node)

    def left(self, node: SimNode) -> None:
        """Remove the timer of a stopped or frozen node. Call before its `base_s` changes."""
        self.everyone.remove(node)
        for ring in self._free:
            ring.remove(node)
        node.free_map = node.free_reduce = False
        self._resting.pop(node.index, None)
        for chain in self._feeds.values():
            chain.ring.remove(node)
        node.grid_s = -1.0

    def restart(self, now_s: float, node: SimNode) -> None:
        """Let the node's timer fire one interval from now on (NodeStatusUpdaterImpl's wait, Hadoop 3.4.1)."""
        self.left(node)
        node.base_s = now_s
        self.joined(node)

    def want(self, now_s: float, node: SimNode) -> None:
        """Schedule the next firing of the node's timer, unless one is scheduled."""
        if node.grid_s < 0.0 and node.up and not node.frozen:
            node.grid_s = next_grid_s(node, now_s, self._interval_s, self.queue.passed)
            self.queue.push(node.grid_s, TIMER, node.index)

    def want_until(self, now_s: float, node: SimNode, until_s: float) -> None:
        """Schedule the node's next timer if it fires by `until_s`, its next out-of-band heartbeat."""
        node.timer_s = next_grid_s(node, now_s, self._interval_s, self.queue.passed)
        if node.timer_s <= until_s:
            self.want(now_s, node)

    def heard(self, now_s: float) -> None:
        """Note a heartbeat of all live nodes whose heartbeats may be skipped."""
        for node in self._nodes:
            if node.held is not None and node.up and not node.always:
                node.held.heard_s = now_s

    def want_any(self, now_s: float) -> None:
        """Schedule the next timer of any node, whichever fires first."""
        found = self.everyone.after(now_s, self.queue.passed)
        if found is not None:
            self.want(now_s, found[1])

    # ---------------------------------------------------------------- heartbeats

    def advance_waiting(self, now_s: float, at: tuple[float, int]) -> None:
        """Continue the chains that wait for the timer `at`, (time, node), even if the node has stopped."""
        for chain in self.pointers.pop(at, ()):
            if chain.at == at:
                chain.advance(now_s)

    def served(self, now_s: float, node: SimNode) -> None:
        """Update the rings after a heartbeat of the node, and schedule its next timer if that will have an effect."""
        held, tables = node.held, self._tables
        if not self.elides or held is None or tables is None:
            self.want(now_s, node)
            return
        maps_ready, reduces_ready = tables.ready_maps > 0, tables.ready_reduces > 0
        if self._stirred or maps_ready is not self._maps_ready or reduces_ready is not self._reduces_ready:
            self.changed(now_s)
        if self._quiet.rests is not None:
            self._end_rests(now_s, tables)
        self._place(now_s, node, held, tables)

    def _place(self, now_s: float, node: SimNode, held: Node, tables: CoreTables) -> None:
        """Put the node into the rings of free slots or take it out, and schedule its timer if a task may
        start.

        A node that rests (`Quiet.rests`) is in no ring.
        """
        rests = self._quiet.rests is not None and self._quiet.rests(tables, held)
        if rests:
            self._resting[node.index] = node
        typed = self._typed
        free_map = not rests and (not typed or held.free_maps > 0)
        free_reduce = not rests and (not typed or held.free_reduces > 0)
        if free_map is not node.free_map:
            node.free_map = free_map
            self._offer(node, self._free[0], free_map)
        if free_reduce is not node.free_reduce:
            node.free_reduce = free_reduce
            self._offer(node, self._free[1], free_reduce)
        if node.always or (free_map and self._maps_ready) or (free_reduce and self._reduces_ready):
            self.want(now_s, node)

    def _end_rests(self, now_s: float, tables: CoreTables) -> None:
        """Place resting nodes again if `Quiet.turn` or the cluster's slots have changed since the last call."""
        turn = (self._quiet.turn(), tables.map_slots, tables.reduce_slots)
        if turn != self._rest_turn:
            self._rest_turn = turn
            resting, self._resting = self._resting, {}
            for node in resting.values():
                if node.held is not None:
                    self._place(now_s, node, node.held, tables)

    @staticmethod
    def _offer(node: SimNode, ring: Ring, free: bool) -> None:
        if free:
            ring.add(node)
        else:
            ring.remove(node)

    def changed(self, now_s: float) -> None:
        """Wake nodes with free slots if tasks became ready, and those where an attempt is to die."""
        tables = self._tables
        assert tables is not None
        if self._stirred:
            stirred, self._stirred = self._stirred, {}
            for node in self._nodes:
                if node.spec.node in stirred:
                    self.want(now_s, node)
        ready = tables.ready_maps > 0
        if ready is not self._maps_ready:
            self._maps_ready = ready
            if ready:
                self._chains[0].start(now_s)
        ready = tables.ready_reduces > 0
        if ready is not self._reduces_ready:
            self._reduces_ready = ready
            if ready:
                self._chains[1].start(now_s)
        if self._quiet.rests is not None:
            self._end_rests(now_s, tables)

    # ---------------------------------------------------------------- feeds

    def reducer(self, job: str, node: SimNode, runs: bool) -> None:
        """Note whether the node runs reduces of the job."""
        chain = self._feeds.get(job)
        if runs:
            if chain is None:
                ring = Ring(self._nodes, self._interval_s)
                chain = self._feeds[job] = Chain(self, ring, self._interval_s, lambda: True)
            chain.ring.add(node)
        elif chain is not None:
            chain.ring.remove(node)
            if not len(chain.ring):
                del self._feeds[job]

    def fed(self, now_s: float, job: str) -> None:
        """Wake the nodes with reduces of the job: replies will list new map outputs."""
        chain = self._feeds.get(job)
        if chain is not None:
            chain.start(now_s)

    def fed_all(self, now_s: float) -> None:
        """Wake all nodes with reduces: replies may list new map outputs."""
        for chain in self._feeds.values():
            chain.start(now_s)

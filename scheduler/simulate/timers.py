"""Whose timers have to be played: each node's own, and those of whole rings of nodes, one after the other.

Where all heartbeats are played every node is always wanted. Else a node's timer is wanted while it could be
offered a task, and when an order waits for it. When tasks become ready, the nodes with free slots are woken in
the order of their timers by a chain: each plays the next one's, until all have had theirs or nothing is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from schedbed.scheduler.core.books import Books
from schedbed.scheduler.simulate.event_queue import TIMER, EventQueue
from schedbed.scheduler.simulate.tracked_nodes import Ring, SimNode, next_grid_s
from schedbed.tasks.specs import NodeId


class Chain:
    """Plays the timers of a ring for one heartbeat interval, as long as `goes_on` says."""

    __slots__ = ("_goes_on", "_interval_s", "_until_s", "_wakes", "at", "ring")

    def __init__(self, wakes: Wakes, ring: Ring, interval_s: float, goes_on: Callable[[], bool]) -> None:
        self._wakes = wakes
        self.ring = ring
        self._interval_s = interval_s
        self._goes_on = goes_on
        self._until_s = -1.0
        self.at: tuple[float, int] | None = None  # the timer with which it goes on

    def start(self, now_s: float) -> None:
        """From now on, for an interval."""
        self._until_s = now_s + self._interval_s
        self.advance(now_s)

    def advance(self, now_s: float) -> None:
        """The next timer."""
        self.at = None
        if self._goes_on():
            found = self.ring.after(now_s, self._wakes.queue.passed)
            if found is not None and found[0] <= self._until_s:
                self._wakes.want(now_s, found[1])
                self.at = (found[0], found[1].index)
                self._wakes.pointers.setdefault(self.at, []).append(self)


class Wakes:
    """The timers' schedule. With `elides` false all are played and nothing here needs to be asked."""

    def __init__(self, queue: EventQueue, nodes: list[SimNode], interval_s: float, *, elides: bool) -> None:
        self.queue = queue
        self._nodes = nodes
        self._interval_s = interval_s
        self.elides = elides
        self.everyone = Ring(nodes, interval_s)
        self._free = (Ring(nodes, interval_s), Ring(nodes, interval_s))
        self._books: Books | None = None
        self._chains = (
            Chain(self, self._free[0], interval_s, self._maps_wait),
            Chain(self, self._free[1], interval_s, self._reduces_wait),
        )
        self._typed = True
        self._feeds: dict[str, Chain] = {}
        self.pointers: dict[tuple[float, int], list[Chain]] = {}  # chains by the timer with which they go on
        self._maps_ready = self._reduces_ready = False
        self._stirred: dict[NodeId, None] = {}

    def follow(self, books: Books) -> None:
        """The core's books are these from now on."""
        self._books = books
        self._typed = books.limits.slots
        if self.elides:
            books.watch_kills(self._stir)

    def _stir(self, node: NodeId) -> None:
        """Note a node for which an order to kill waits."""
        self._stirred[node] = None

    def _maps_wait(self) -> bool:
        return self._books is not None and self._books.ready_maps > 0

    def _reduces_wait(self) -> bool:
        return self._books is not None and self._books.ready_reduces > 0

    # ----------------------------------------------------------------- nodes

    def joined(self, node: SimNode) -> None:
        """A node's timer runs from now on."""
        self.everyone.add(node)

    def left(self, node: SimNode) -> None:
        """A node's timer stands still; its `base_s` is still what it was."""
        self.everyone.remove(node)
        for ring in self._free:
            ring.remove(node)
        node.free_map = node.free_reduce = False
        for chain in self._feeds.values():
            chain.ring.remove(node)
        node.grid_s = -1.0

    def want(self, now_s: float, node: SimNode) -> None:
        """The node's next timer is to be played."""
        if node.grid_s < 0.0 and node.up and not node.frozen:
            node.grid_s = next_grid_s(node, now_s, self._interval_s, self.queue.passed)
            self.queue.push(node.grid_s, TIMER, node.index)

    def want_until(self, now_s: float, node: SimNode, until_s: float) -> None:
        """The node's next timer is to be played if it goes by that time: there will be something to report."""
        node.timer_s = next_grid_s(node, now_s, self._interval_s, self.queue.passed)
        if node.timer_s <= until_s:
            self.want(now_s, node)

    def heard(self, now_s: float) -> None:
        """Nodes whose heartbeats are not played have been heard all the same."""
        for node in self._nodes:
            if node.held is not None and node.up and not node.always:
                node.held.heard_s = now_s

    def want_any(self, now_s: float) -> None:
        """The next timer of all is to be played."""
        found = self.everyone.after(now_s, self.queue.passed)
        if found is not None:
            self.want(now_s, found[1])

    def any_s(self, now_s: float) -> float:
        """Return when the next timer of all goes."""
        found = self.everyone.after(now_s, self.queue.passed)
        return found[0] if found is not None else inf

    # ---------------------------------------------------------------- beats

    def played(self, now_s: float, at: tuple[float, int]) -> None:
        """A timer was played, or would have been if its node were still there: chains go on."""
        for chain in self.pointers.pop(at, ()):
            if chain.at == at:
                chain.advance(now_s)

    def served(self, now_s: float, node: SimNode) -> None:
        """A heartbeat of the node was answered: is its next one to be played?"""
        held, books = node.held, self._books
        if not self.elides or held is None or books is None:
            self.want(now_s, node)
            return
        maps_ready, reduces_ready = books.ready_maps > 0, books.ready_reduces > 0
        if self._stirred or maps_ready is not self._maps_ready or reduces_ready is not self._reduces_ready:
            self.changed(now_s)
        typed = self._typed
        free_map, free_reduce = not typed or held.free_maps > 0, not typed or held.free_reduces > 0
        if free_map is not node.free_map:
            node.free_map = free_map
            self._offer(node, self._free[0], free_map)
        if free_reduce is not node.free_reduce:
            node.free_reduce = free_reduce
            self._offer(node, self._free[1], free_reduce)
        if node.always or (free_map and maps_ready) or (free_reduce and reduces_ready):
            self.want(now_s, node)

    @staticmethod
    def _offer(node: SimNode, ring: Ring, free: bool) -> None:
        if free:
            ring.add(node)
        else:
            ring.remove(node)

    def changed(self, now_s: float) -> None:
        """The core has taken an event: tasks may have become ready, orders may wait."""
        books = self._books
        assert books is not None
        if self._stirred:
            stirred, self._stirred = self._stirred, {}
            for node in self._nodes:
                if node.spec.node in stirred:
                    self.want(now_s, node)
        ready = books.ready_maps > 0
        if ready is not self._maps_ready:
            self._maps_ready = ready
            if ready:
                self._chains[0].start(now_s)
        ready = books.ready_reduces > 0
        if ready is not self._reduces_ready:
            self._reduces_ready = ready
            if ready:
                self._chains[1].start(now_s)

    # ---------------------------------------------------------------- feeds

    def reducer(self, job: str, node: SimNode, runs: bool) -> None:
        """The first reduce of a job has started on the node, or its last has ended there."""
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
        """There is news of the job's map outputs: the nodes of its reduces are to hear it."""
        chain = self._feeds.get(job)
        if chain is not None:
            chain.start(now_s)

    def fed_all(self, now_s: float) -> None:
        """There may be news of any job."""
        for chain in self._feeds.values():
            chain.start(now_s)

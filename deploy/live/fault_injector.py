"""Faults on a live cluster at their times: they become calls to TaskTrackers and masters, and rows of faults.parquet.

Faults of a run are planned before it; others may be added by hand while it goes on, from any thread.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from schedbed.cluster.faults import BLOWS, MASTERS, USUAL, Conditions, PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.specs import NodeId

Row = tuple[float, str, str, float | None]
"""Of faults.parquet: t, kind, target, until."""

ONCE = (*BLOWS, *MASTERS)  # done at once; who is killed so comes back by himself
ENDS = {"kill": "restart", "freeze": "thaw"}
UNTOUCHED = {**{kind: {"on": False} for kind in ENDS}, **USUAL}
"""What a node need not be told."""

STEP_S = 0.2  # until a node that did not answer is tried again


class Hands(Protocol):
    """What a fault takes to be done. Each may raise MasterGone when who is to do it is down."""

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Has the node's TaskTracker apply a fault; what it has hit."""
        ...

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Ask the NameNode for a replica to harm: see `NameNodeDoor.pick_replica`."""
        ...

    def kill_actor(self, name: str) -> None:
        """Kills the process of `jobtracker`, `namenode` or a node's TaskTracker, which comes back by itself."""
        ...

    def hold(self, name: str, for_s: float) -> None:
        """Keeps an actor that was killed from serving for so long."""
        ...


class FaultPlan:
    """Plays faults; `advance` is called often and does what is due.

    A node is told its whole state at each change, and again when it was not there to hear it. What is `always` in force
    is no event: it has no row.
    """

    def __init__(
        self,
        faults: Iterable[PlannedFault],
        nodes: Iterable[NodeId],
        hands: Hands,
        always: Sequence[PlannedFault] = (),
    ) -> None:
        self._nodes = list(nodes)
        self._hands = hands
        self._conditions = Conditions(self._nodes, always)
        self._told: dict[NodeId, Mapping[str, Any]] = dict.fromkeys(self._nodes, UNTOUCHED)
        self._due: list[tuple[float, int, PlannedFault, bool]] = []
        self._changed = bool(always)  # some node may not know its state
        self._anew: dict[NodeId, None] = {}  # nodes that know nothing
        self._serial = 0
        self._lock = threading.Lock()
        for fault in faults:
            self.add(fault)

    def add(self, fault: PlannedFault) -> None:
        """One more; it is played by the first `advance` at or after its time."""
        self._push(fault.at_s, fault, True)

    def _push(self, at_s: float, fault: PlannedFault, begins: bool) -> None:
        with self._lock:
            self._serial += 1
            heapq.heappush(self._due, (at_s, self._serial, fault, begins))

    def _next_due(self, now_s: float) -> tuple[PlannedFault, bool] | None:
        with self._lock:
            if not self._due or self._due[0][0] > now_s:
                return None
            return heapq.heappop(self._due)[2:]

    def advance(self, now_s: float) -> list[Row]:
        """Does what is due; the rows of what has begun. A fault that begins late lasts as long as it was to."""
        rows: list[Row] = []
        while due := self._next_due(now_s):
            fault, begins = due
            self._changed = True
            if begins:
                rows.append(self._begin(now_s, fault))
            elif fault.kind not in ONCE:
                self._conditions.end(fault)
        with self._lock:
            anew, self._anew = self._anew, {}
        self._told |= dict.fromkeys(anew, UNTOUCHED)
        if self._changed or anew:
            told = [self._tell(node) for node in self._nodes]
            self._changed = not all(told)
        return rows

    def _begin(self, now_s: float, fault: PlannedFault) -> Row:
        until_s = None if fault.until_s is None else now_s + fault.until_s - fault.at_s
        hit = ""
        if fault.kind in ONCE:
            try:
                hit = self._strike(fault)
            except MasterGone:
                hit = "nobody there"
        else:
            self._conditions.begin(fault)
        if until_s is not None:
            self._push(until_s, fault, False)
        return now_s, fault.kind, hit or fault.shown, until_s

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """The TaskTrackers of these nodes have begun anew and know nothing: they are told at the next `advance`.

        From any thread.
        """
        with self._lock:
            self._anew |= dict.fromkeys(nodes)

    def next_s(self) -> float:
        """When something is due next; infinite when nothing is."""
        with self._lock:
            return self._due[0][0] if self._due else float("inf")

    @property
    def more_to_come(self) -> bool:
        """Whether a fault, or the end of one, is still ahead."""
        return self.next_s() < float("inf")

    # ---------------------------------------------------------------- nodes

    def _tell(self, node: NodeId) -> bool:
        """Brings the node to what it should be; False when it cannot hear that now and is to be told later."""
        wanted = {kind: {"on": self._conditions.has(kind, node)} for kind in ENDS}
        wanted |= self._conditions.orders(node)
        for kind, arguments in wanted.items():
            if arguments == self._told[node][kind]:
                continue
            try:
                if kind in ENDS:
                    self._hands.on_node(node, kind if arguments["on"] else ENDS[kind], {})
                else:
                    self._hands.on_node(node, kind, arguments)
            except MasterGone:
                return False
            self._told[node] = {**self._told[node], kind: arguments}
        return True

    def thaw(self) -> None:
        """At the end: who still stands still goes on, so that what lies there can be read."""
        for node in self._nodes:
            if self._told[node]["freeze"]["on"]:
                with suppress(MasterGone):
                    self._hands.on_node(node, "thaw", {})

    # ---------------------------------------------------------------- blows

    def _strike(self, fault: PlannedFault) -> str:
        """Does what is over at once; what was hit, "" when there was nothing of the kind."""
        hands = self._hands
        match fault.kind:
            case "kill_tracker":
                for node in fault.nodes:
                    hands.kill_actor(node)
                self.renew(fault.nodes)
            case "restart_namenode":
                hands.kill_actor("namenode")
            case "crash_jobtracker":
                if fault.until_s is not None:
                    hands.hold("jobtracker", fault.until_s - fault.at_s)
                hands.kill_actor("jobtracker")
            case "kill_attempt":
                return self._kill_attempt(fault)
            case _:
                return self._harm_replica(fault)
        return ""

    def _kill_attempt(self, fault: PlannedFault) -> str:
        nodes = [node for node in self._nodes if fault.hits(node) and self._is_up(node)]
        first = int(fault.luck * len(nodes))
        for node in (*nodes[first:], *nodes[:first]):
            hit = self._hands.on_node(node, "kill_attempt", {"target": fault.target, "luck": fault.luck})
            if hit:
                return hit
        return ""

    def _harm_replica(self, fault: PlannedFault) -> str:
        up = [node for node in self._nodes if self._is_up(node)]
        found = self._hands.pick_replica(up, fault.target, fault.nodes, fault.luck)
        if found is None:
            return ""
        block, node = found
        kind = "corrupt_block" if fault.kind == "corrupt_replica" else "delete_block"
        self._hands.on_node(node, kind, {"block": block})
        return f"{block} on {node}"

    def _is_up(self, node: NodeId) -> bool:
        return not any(self._conditions.has(kind, node) for kind in ("kill", "freeze"))


@contextmanager
def playing(plan: FaultPlan, now_s: Callable[[], float]) -> Iterator[Callable[[], list[Row]]]:
    """Plays the plan in a thread of its own, so that faults come in time whatever else is waited for.

    Gives a function for the rows of what has begun since its last call; it raises what `advance` has raised.
    """
    over, rows, errors = threading.Event(), [], []

    def play() -> None:
        try:
            while not over.wait(min(STEP_S, max(0.0, plan.next_s() - now_s()))):
                rows.extend(plan.advance(now_s()))
        except Exception as error:
            errors.append(error)

    def take() -> list[Row]:
        if errors:
            raise errors[0]
        count = len(rows)
        taken = rows[:count]
        del rows[:count]
        return taken

    thread = threading.Thread(target=play, name="faults", daemon=True)
    thread.start()
    try:
        yield take
    finally:
        over.set()
        thread.join()
        plan.thaw()

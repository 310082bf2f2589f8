"""Faults in virtual time, which `cluster.fault_plan` begins and ends.

Live counterparts are `deploy/live/fault_injector.py` and, for faults that last, `cluster/conditions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from schedbed.cluster.conditions import Conditions, by_nature, foreground_slowdowns
from schedbed.cluster.fault_plan import FaultPlan
from schedbed.cluster.faults import KINDS, PlannedFault
from schedbed.cluster.virtual.node_model import Emulation
from schedbed.scheduler.simulate.event_queue import FAULT, EventQueue
from schedbed.scheduler.simulate.heartbeats import HeartbeatSchedule
from schedbed.scheduler.simulate.replication_upkeep import Upkeep
from schedbed.scheduler.simulate.setup import Rows, Setup
from schedbed.scheduler.simulate.skipping import TimerSchedule
from schedbed.scheduler.simulate.storage import Storage
from schedbed.scheduler.simulate.tracked_nodes import Master, SimNode
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import NodeId


class FaultySimulation(Protocol):
    """The attributes and methods of a simulation that this module uses."""

    setup: Setup
    rows: Rows
    queue: EventQueue
    nodes: list[SimNode]
    interval_s: float
    storage: Storage
    emulation: Emulation
    timers: TimerSchedule

    @property
    def node_by_name(self) -> Mapping[NodeId, SimNode]: ...

    @property
    def heartbeats(self) -> HeartbeatSchedule: ...

    @property
    def upkeep(self) -> Upkeep: ...

    @property
    def master(self) -> Master: ...

    def is_alive(self, node: NodeId) -> bool: ...

    def join_at(self, at_s: float, node: SimNode) -> None: ...

    def want_tick(self) -> None: ...

    def recover(self, now_s: float) -> None: ...


class Faults:
    """All faults of a simulation. `silenced` are nodes that one will keep from sending heartbeats."""

    def __init__(self, simulation: FaultySimulation, faults: Sequence[PlannedFault]) -> None:
        self.simulation = simulation
        self._check(faults)
        self._always = by_nature(node.spec for node in simulation.nodes)
        self.conditions = Conditions([node.spec.node for node in simulation.nodes], self._always)
        loads = foreground_slowdowns(node.spec for node in simulation.nodes)
        self._plan = FaultPlan(faults, self.conditions, self, loads)
        self.slow_nodes = bool(loads)
        self.touch_heartbeats = any(
            EFFECTS[fault.kind].touches_heartbeats for fault in (*faults, *self._always)
        )
        silent = [fault for fault in faults if EFFECTS[fault.kind].silences]
        self.silenced = {name: None for fault in silent for name in fault.nodes}

    def _check(self, faults: Sequence[PlannedFault]) -> None:
        for fault in faults:
            if fault.kind not in KINDS:
                raise BadInput(f"fault {fault.kind!r}: expected {', '.join(KINDS)}")
            for name in fault.nodes:
                if name not in self.simulation.node_by_name:
                    raise BadInput(f"fault {fault.kind}: there is no node {name!r}")

    def start(self) -> None:
        """Schedule the first fault, and apply the permanent delays and losses declared in the specs of nodes."""
        if self._always:
            disturb(self, 0.0)
        self._want_next()

    def _want_next(self) -> None:
        next_s = self._plan.next_s()
        if next_s < inf:
            self.simulation.queue.push(next_s, FAULT, 0)

    def inject(self, now_s: float, _: int) -> None:
        """Begin or end the fault that is due at `now_s`, and schedule the next begin or end of a fault."""
        row = self._plan.step(now_s)
        if row is not None:
            self.simulation.rows.fault(row)
        self._want_next()

    @property
    def more_to_come(self) -> bool:
        return self._plan.more_to_come

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply a fault. Return its target if it was chosen at random, or ""."""
        return EFFECTS[fault.kind].begin(self, now_s, fault) or ""

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Undo the effect of a fault that ends."""
        end = EFFECTS[fault.kind].end
        if end is not None:
            end(self, now_s, fault)

    def nodes_of(self, fault: PlannedFault) -> list[SimNode]:
        return [self.simulation.node_by_name[name] for name in fault.nodes]

    def joined(self, now_s: float, node: SimNode) -> None:
        """Apply the faults that are in force for a node (slow rates, full disk) to the node after it has booted."""
        name = node.spec.node
        if self.conditions.has("slow", name):
            _set_rates(self, now_s, node)
        if self.conditions.has("fill_disk", name):
            _set_disk(self, now_s, node)

    def registered(self, now_s: float, node: SimNode) -> None:
        """Freeze a node that has restarted while it was frozen."""
        if self.conditions.has("freeze", node.spec.node) and not node.frozen:
            _freeze(self, now_s, node)

    # -------------------------------------------------------------- messages

    def is_cut_off(self, node: SimNode) -> bool:
        return self.conditions.has("cut_off", node.spec.node)

    def keeps_down(self, name: NodeId) -> bool:
        """Return whether any fault in force keeps the node with the name `name` down."""
        if any(self.conditions.has("kill_host", each) for each in self.simulation.node_by_name):
            return True
        return any(self.conditions.has(kind, name) for kind in ("kill", "kill_tracker"))

    def delay_s(self, node: SimNode) -> float:
        return self.conditions.delay_s(node.spec.node)

    def passes(self, now_s: float, node: SimNode, kind: str) -> bool:
        """Return whether a message arrives: not if cut off, else by chance. `kind` is the fault that loses it."""
        if self.is_cut_off(node):
            return False
        share = self.conditions.share(kind, node.spec.node)
        if not share:
            return True
        node.sent += 1
        luck = chance(self.simulation.setup.seed, kind, node.spec.node, node.sent)
        return luck.random() >= share


# -------------------------------------------------------------------- effects


def kill(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Stop the nodes that the fault names, and all attempts on them. The blocks on their disks remain."""
    simulation = faults.simulation
    for node in faults.nodes_of(fault):
        node.join_s = -1.0
        if not node.up:
            continue
        if node.blocks is None:
            node.blocks = simulation.storage.blocks_on(node.spec.node)
        simulation.timers.left(node)
        simulation.heartbeats.forget(node)
        simulation.emulation.node_down(now_s, node.spec.node)
        node.up = node.frozen = False
        simulation.want_tick()


def restart(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Boot the nodes that the fault names again, unless another fault keeps them down."""
    simulation = faults.simulation
    for node in faults.nodes_of(fault):
        name = node.spec.node
        if node.up or faults.keeps_down(name):
            continue
        phase = chance(simulation.setup.seed, "phase", name, node.incarnation).random()
        node.phase_s = phase * simulation.interval_s
        simulation.join_at(now_s + simulation.setup.timing.boot_s, node)


def _on_its_host(faults: Faults, fault: PlannedFault) -> PlannedFault:
    """Return the fault on all nodes, since a simulation has only one host."""
    return replace(fault, nodes=tuple(faults.simulation.node_by_name))


def kill_host(faults: Faults, now_s: float, fault: PlannedFault) -> str:
    """Stop all nodes of the simulation's only host. Return their names, separated by commas."""
    every = _on_its_host(faults, fault)
    kill(faults, now_s, every)
    return ",".join(every.nodes)


def restart_host(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Boot all nodes of the only host, unless another fault keeps them down."""
    restart(faults, now_s, _on_its_host(faults, fault))


def freeze(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Freeze the nodes that the fault names: their attempts pause, and they send no heartbeats."""
    for node in faults.nodes_of(fault):
        if node.up and not node.frozen:
            _freeze(faults, now_s, node)


def _freeze(faults: Faults, now_s: float, node: SimNode) -> None:
    faults.simulation.timers.left(node)
    node.frozen = True
    faults.simulation.emulation.set_rates(now_s, node.spec.node, 0.0, 0.0, 0.0)


def thaw(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Thaw nodes that no other fault freezes. Each sends a heartbeat, as its timer may have fired."""
    simulation = faults.simulation
    for node in faults.nodes_of(fault):
        if node.up and node.frozen and not faults.conditions.has("freeze", node.spec.node):
            node.frozen = False
            simulation.emulation.set_rates(now_s, node.spec.node, *node.rates)
            simulation.timers.joined(node)
            node.event_s = -1.0
            if node.resend_s >= 0.0:
                node.resend_s = -1.0
            simulation.heartbeats.set_off(now_s, node)
            simulation.timers.want(now_s, node)


def slow(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Set nodes' rates to what all faults in force leave."""
    for node in faults.nodes_of(fault):
        _set_rates(faults, now_s, node)


def _set_rates(faults: Faults, now_s: float, node: SimNode) -> None:
    rates = faults.conditions.rates(node.spec.node)
    node.rates = rates["cpu"], rates["disk"], rates["network"]
    if node.up and not node.frozen:
        faults.simulation.emulation.set_rates(now_s, node.spec.node, *node.rates)


def partition(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Separate the groups of all partitions in force."""
    faults.simulation.emulation.partition(now_s, faults.conditions.groups())


def disturb(faults: Faults, now_s: float, fault: PlannedFault | None = None) -> None:
    """Set nodes' delays to the sum, and losses to the largest, of all active faults."""
    conditions = faults.conditions
    faults.simulation.emulation.disturb(now_s, conditions.delays(), conditions.losses())


def fill_disk(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Fill the nodes' disks, or empty them if no fault in force fills them."""
    for node in faults.nodes_of(fault):
        _set_disk(faults, now_s, node)


def _set_disk(faults: Faults, now_s: float, node: SimNode) -> None:
    node.disk_full = faults.conditions.has("fill_disk", node.spec.node)
    faults.simulation.emulation.fill_disk(now_s, node.spec.node, node.disk_full)


def kill_attempt(faults: Faults, now_s: float, fault: PlannedFault) -> str:
    """Kill a random running attempt that matches the fault. Return its id, or "" if there is none."""
    simulation = faults.simulation
    running = [
        (node.spec.node, name)
        for node in simulation.nodes
        if node.up and not node.frozen and fault.hits(node.spec.node)
        for name in node.running
        if not fault.target or name == fault.target or name.startswith(f"{fault.target}_")
    ]
    if not running:
        return ""
    node, attempt = running[int(fault.luck * len(running))]
    simulation.emulation.crash(now_s, node, attempt)
    return attempt


def harm_replica(faults: Faults, now_s: float, fault: PlannedFault) -> str:
    """Mark a matching replica corrupt, or remove it. Return block and node as text, or "".

    The NameNode learns of a corrupt one at once, in a live run only when it is read.
    """
    simulation = faults.simulation
    names = simulation.storage.names
    up = [node.spec.node for node in simulation.nodes if simulation.is_alive(node.spec.node)]
    found = names.pick_replica(up, fault.target, fault.nodes, fault.luck)
    if found is None:
        return ""
    block, node = found
    event = "corrupt" if fault.kind == "corrupt_replica" else "removed"
    names.block_event(now_s, node, event, block, 0)
    simulation.upkeep.stir()
    return f"{block} on {node}"


def crash_jobtracker(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Stop the JobTracker, which loses all but its journal."""
    faults.simulation.master.crash()


def recover_jobtracker(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    faults.simulation.recover(now_s)


def restart_namenode(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Restart the NameNode, and let all running nodes report their blocks to it."""
    simulation = faults.simulation
    storage = simulation.storage
    held = {node.index: storage.blocks_on(node.spec.node) for node in simulation.nodes}
    storage.restart(now_s)
    for node in simulation.nodes:
        if node.up and node.blocks is None:
            storage.register(now_s, node.spec.node, node.spec.rack, held[node.index])
    simulation.upkeep.stir()


def only_messages(faults: Faults, now_s: float, fault: PlannedFault) -> None:
    """Do nothing: `Faults.passes` applies such faults to each message."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The functions that begin (returning a random target) and end a fault.

    `touches_heartbeats`: messages may be late or lost, so no node's heartbeat is skipped. `silences`: the
    fault's nodes send none, and none of theirs is skipped before and after it.
    """

    begin: Callable[[Faults, float, PlannedFault], str | None]
    end: Callable[[Faults, float, PlannedFault], None] | None = None
    touches_heartbeats: bool = False
    silences: bool = False


EFFECTS: dict[str, Effect] = {
    "kill": Effect(kill, restart, silences=True),
    "freeze": Effect(freeze, thaw, silences=True),
    "slow": Effect(slow, slow),
    "partition": Effect(partition, partition),
    "cut_off": Effect(only_messages, touches_heartbeats=True),
    "delay": Effect(disturb, disturb, touches_heartbeats=True),
    "loss": Effect(disturb, disturb, touches_heartbeats=True),
    "lose_requests": Effect(only_messages, touches_heartbeats=True),
    "lose_replies": Effect(only_messages, touches_heartbeats=True),
    "fill_disk": Effect(fill_disk, fill_disk),
    "kill_attempt": Effect(kill_attempt),
    "corrupt_replica": Effect(harm_replica),
    "delete_replica": Effect(harm_replica),
    "kill_tracker": Effect(kill, restart, silences=True),
    "kill_host": Effect(kill_host, restart_host, silences=True),
    "crash_jobtracker": Effect(crash_jobtracker, recover_jobtracker, touches_heartbeats=True),
    "restart_namenode": Effect(restart_namenode),
}
"""The effects by kind of fault."""

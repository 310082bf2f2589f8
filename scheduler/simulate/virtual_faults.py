"""Faults at their times, on nodes and on masters; each begins a row of the faults table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbed.cluster.faults import KINDS, LIVES, Conditions, PlannedFault, by_nature
from schedbed.scheduler.simulate.event_queue import FAULT
from schedbed.scheduler.simulate.tracked_nodes import SimNode
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.simulation import Simulation

TOUCH_HEARTBEATS = ("lose_requests", "lose_replies", "loss", "delay", "cut_off", "crash_jobtracker")
SILENCE = (*LIVES, "kill_tracker")


@dataclass(frozen=True, slots=True)
class _Step:
    fault: PlannedFault
    begins: bool


class Faults:
    """Plays a setup's faults. `silenced` are the nodes that one of them makes silent."""

    def __init__(self, simulation: Simulation, faults: Sequence[PlannedFault]) -> None:
        self._simulation = simulation
        self._faults = list(faults)
        self._check()
        self._steps: list[_Step] = []
        self._always = by_nature(node.spec for node in simulation.nodes)
        self._conditions = Conditions([node.spec.node for node in simulation.nodes], self._always)
        self.touch_heartbeats = any(fault.kind in TOUCH_HEARTBEATS for fault in (*faults, *self._always))
        self.silenced = {name: None for fault in faults if fault.kind in SILENCE for name in fault.nodes}
        self._last_s = max((fault.back_s or fault.at_s for fault in faults), default=-1.0)

    def _check(self) -> None:
        for fault in self._faults:
            if fault.kind not in KINDS:
                raise BadInput(f"fault {fault.kind!r}: expected {', '.join(KINDS)}")
            for name in fault.nodes:
                if name not in self._simulation.node_by_name:
                    raise BadInput(f"fault {fault.kind}: there is no node {name!r}")

    def start(self) -> None:
        """Puts all into the queue; what is always in force begins."""
        if self._always:
            self._disturb(0.0)
        for fault in self._faults:
            self._push(fault.at_s, _Step(fault, True))
            if (fault.back_s or 0.0) > fault.at_s:
                self._push(fault.back_s or 0.0, _Step(fault, False))

    def _push(self, at_s: float, step: _Step) -> None:
        self._steps.append(step)
        self._simulation.queue.push(at_s, FAULT, len(self._steps) - 1)

    def more_to_come(self, now_s: float) -> bool:
        """Whether a fault, or the end of one, is still ahead."""
        return now_s <= self._last_s

    def play(self, now_s: float, number: int) -> None:
        """A fault begins or ends."""
        fault, begins = self._steps[number].fault, self._steps[number].begins
        shown = self._strike(now_s, fault) if begins else ""
        if begins:
            self._conditions.begin(fault)
            self._simulation.rows.fault((fault.at_s, fault.kind, shown or fault.shown, fault.until_s))
        else:
            self._conditions.end(fault)
        nodes = [self._simulation.node_by_name[name] for name in fault.nodes]
        match fault.kind:
            case "kill" | "kill_tracker":
                for node in nodes:
                    self._kill(now_s, node) if begins else self._restart(now_s, node)
            case "freeze":
                for node in nodes:
                    self._freeze(now_s, node) if begins else self._thaw(now_s, node)
            case "slow":
                for node in nodes:
                    self._slow(now_s, node)
            case "partition":
                self._simulation.emulation.partition(now_s, self._conditions.groups())
            case "delay" | "loss":
                self._disturb(now_s)
            case "fill_disk":
                for node in nodes:
                    full = self._conditions.has("fill_disk", node.spec.node)
                    self._simulation.emulation.fill_disk(now_s, node.spec.node, full)
            case "crash_jobtracker":
                self._simulation.master.crash() if begins else self._simulation.recover(now_s)
            case "restart_namenode":
                self._restart_names(now_s)

    def _disturb(self, now_s: float) -> None:
        conditions = self._conditions
        self._simulation.emulation.disturb(now_s, conditions.delays(), conditions.losses())

    # ----------------------------------------------------------------- nodes

    def _kill(self, now_s: float, node: SimNode) -> None:
        node.join_s = -1.0
        if not node.up:
            return
        simulation = self._simulation
        if node.blocks is None:
            node.blocks = simulation.storage.blocks_on(node.spec.node)
        simulation.wakes.left(node)
        simulation.beats.forget(node)
        simulation.emulation.node_down(now_s, node.spec.node)
        node.up = node.frozen = False
        simulation.want_tick()

    def _restart(self, now_s: float, node: SimNode) -> None:
        if node.up or any(self._conditions.has(kind, node.spec.node) for kind in ("kill", "kill_tracker")):
            return
        phase = chance(self._simulation.setup.seed, "phase", node.spec.node, node.incarnation).random()
        node.phase_s = phase * self._simulation.interval_s
        self._simulation.join_at(now_s + self._simulation.setup.timing.boot_s, node)

    def joined(self, now_s: float, node: SimNode) -> None:
        """A node has booted: what holds of it is put into force again."""
        name = node.spec.node
        if self._conditions.has("slow", name):
            self._slow(now_s, node)
        if self._conditions.has("fill_disk", name):
            self._simulation.emulation.fill_disk(now_s, name, True)

    def _freeze(self, now_s: float, node: SimNode) -> None:
        if node.up and not node.frozen:
            self._simulation.wakes.left(node)
            node.frozen = True
            self._simulation.emulation.set_rates(now_s, node.spec.node, 0.0, 0.0, 0.0)

    def _thaw(self, now_s: float, node: SimNode) -> None:
        """It goes on as if nothing had been, and its timer goes at once."""
        if node.up and node.frozen and not self._conditions.has("freeze", node.spec.node):
            node.frozen = False
            self._simulation.emulation.set_rates(now_s, node.spec.node, *node.rates)
            self._simulation.wakes.joined(node)
            node.event_s = -1.0
            if node.resend_s >= 0.0:
                node.resend_s = -1.0
            self._simulation.beats.set_off(now_s, node)
            self._simulation.wakes.want(now_s, node)

    def _slow(self, now_s: float, node: SimNode) -> None:
        rates = self._conditions.rates(node.spec.node)
        node.rates = rates["cpu"], rates["disk"], rates["network"]
        if node.up and not node.frozen:
            self._simulation.emulation.set_rates(now_s, node.spec.node, *node.rates)

    # ----------------------------------------------------------------- blows

    def _strike(self, now_s: float, fault: PlannedFault) -> str:
        """Does what is over at once; what was hit, "" when there was nothing."""
        match fault.kind:
            case "kill_attempt":
                return self._kill_attempt(now_s, fault)
            case "corrupt_replica" | "delete_replica":
                return self._harm_replica(now_s, fault)
        return ""

    def _kill_attempt(self, now_s: float, fault: PlannedFault) -> str:
        running = [
            (node.spec.node, name)
            for node in self._simulation.nodes
            if node.up and not node.frozen and fault.hits(node.spec.node)
            for name in node.running
            if not fault.target or name == fault.target or name.startswith(f"{fault.target}_")
        ]
        if not running:
            return ""
        node, attempt = running[int(fault.luck * len(running))]
        self._simulation.emulation.strike(now_s, node, attempt)
        return attempt

    def _harm_replica(self, now_s: float, fault: PlannedFault) -> str:
        """A corrupt replica is found at once here (live when it is read)."""
        names = self._simulation.storage.names
        up = [node.spec.node for node in self._simulation.nodes if self._simulation.is_alive(node.spec.node)]
        found = names.pick_replica(up, fault.target, fault.nodes, fault.luck)
        if found is None:
            return ""
        block, node = found
        event = "corrupt" if fault.kind == "corrupt_replica" else "removed"
        names.block_event(now_s, node, event, block, 0)
        self._simulation.upkeep.stir()
        return f"{block} on {node}"

    # --------------------------------------------------------------- masters

    def _restart_names(self, now_s: float) -> None:
        simulation = self._simulation
        storage = simulation.storage
        held = {node.index: storage.blocks_on(node.spec.node) for node in simulation.nodes}
        storage.restart(now_s)
        for node in simulation.nodes:
            if node.up and node.blocks is None:
                storage.register(now_s, node.spec.node, node.spec.rack, held[node.index])
        simulation.upkeep.stir()

    # -------------------------------------------------------------- messages

    def is_cut_off(self, node: SimNode) -> bool:
        """Whether it cannot reach the masters."""
        return self._conditions.has("cut_off", node.spec.node)

    def delay_s(self, node: SimNode) -> float:
        """What each of its messages takes longer."""
        return self._conditions.delay_s(node.spec.node)

    def passes(self, now_s: float, node: SimNode, kind: str) -> bool:
        """Whether a message gets through; each has a coin of its own."""
        if self.is_cut_off(node):
            return False
        share = self._conditions.share(kind, node.spec.node)
        if not share:
            return True
        node.sent += 1
        luck = chance(self._simulation.setup.seed, kind, node.spec.node, node.sent)
        return luck.random() >= share

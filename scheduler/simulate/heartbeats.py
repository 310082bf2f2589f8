"""Heartbeats in virtual time: when nodes send them, what they contain, and what their replies change.

One is read when the JobTracker processes it, `request_s` after its cause. The reply's delay is part of
launches' latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappush
from typing import Protocol

from schedbed.cluster.messages import (
    Action,
    AttemptReport,
    FetchFailure,
    ForgetJob,
    Heartbeat,
    KillAttempt,
    Launch,
    MapOutputs,
    Reregister,
    Usage,
)
from schedbed.cluster.virtual.node_model import Emulation
from schedbed.scheduler.core.entities import MAP
from schedbed.scheduler.core.unchanged import UnchangedHeartbeats
from schedbed.scheduler.framework_steps import FrameworkSteps
from schedbed.scheduler.hooks import hook, quiet_of
from schedbed.scheduler.simulate.event_queue import (
    EVENT,
    NUMBERS,
    REPLY,
    RESEND,
    SHIFT,
    EventQueue,
)
from schedbed.scheduler.simulate.launch_plans import Plans
from schedbed.scheduler.simulate.setup import Rows, Setup, Statistics
from schedbed.scheduler.simulate.skipping import TimerSchedule
from schedbed.scheduler.simulate.storage import Copies
from schedbed.scheduler.simulate.tracked_nodes import HeartbeatFaults, Master, SimNode
from schedbed.tasks.specs import NodeId, job_of


class HeartbeatSimulation(Protocol):
    """The attributes and methods of a simulation that `HeartbeatSchedule` uses."""

    setup: Setup
    rows: Rows
    queue: EventQueue
    nodes: list[SimNode]
    emulation: Emulation
    master: Master
    timers: TimerSchedule
    statistics: Statistics
    plans: Plans
    copies: Copies | None
    steps: FrameworkSteps | None
    due_s: float

    @property
    def node_by_name(self) -> Mapping[NodeId, SimNode]: ...

    @property
    def faults(self) -> HeartbeatFaults: ...

    def submit_due(self, now_s: float) -> None: ...

    def do_effects(self, now_s: float) -> None: ...

    def register(self, now_s: float, node: SimNode) -> None: ...


class HeartbeatSchedule:
    """The heartbeats of all nodes, and the actions in replies.

    Of a node whose heartbeats may be skipped, those that report an end or start a task have a row, and others
    only if faults may lose or delay heartbeats.
    """

    def __init__(self, simulation: HeartbeatSimulation) -> None:
        self._simulation = simulation
        self._queue, self._heap = simulation.queue, simulation.queue.heap
        self._nodes, self._node_by_name = simulation.nodes, simulation.node_by_name
        self._emulation = simulation.emulation
        self._master = simulation.master
        self._timers = simulation.timers
        self._faults = simulation.faults
        self._statistics = simulation.statistics
        self._plans, self._copies, self._steps = simulation.plans, simulation.copies, simulation.steps
        self._poll_s = simulation.setup.framework.news_after_s
        self._out_of_band = simulation.setup.framework.out_of_band
        self._restarts_timers = simulation.setup.framework.am_heartbeat_s > 0.0
        self._lossy = simulation.faults.touch_heartbeats
        self._rows = simulation.rows if simulation.setup.heartbeat_rows else None
        self._request_s = simulation.setup.timing.request_s
        self._decision_s = simulation.setup.timing.decision_s
        self._reply_s = simulation.setup.timing.reply_s + self._decision_s
        self._resend_s = simulation.setup.timing.resend_s
        self._all_news = simulation.setup.contention
        self._replies: dict[int, tuple[SimNode, int, list[Action]]] = {}
        self._serial = 0
        self._reducers: dict[tuple[str, int], int] = {}  # running reduces by job and node
        self.follow()

    def follow(self) -> None:
        """Use the JobTracker's current core from now on. Call this method after each JobTracker restart."""
        policy = self._master.policy
        self._ledger, self._beat = self._master.ledger, hook(policy, "beat")
        quiet = quiet_of(policy) if self._timers.elides else None
        self._awaits = None if quiet is None else quiet.awaits_beat
        self._passes = not (self._master.journals or self._simulation.setup.faults)
        self._waits_since: tuple[float, int] | None = (
            None  # A timer after which the policy hears any heartbeat.
        )
        self._unchanged = UnchangedHeartbeats(self._ledger, self._master.policy)
        master = self._master
        special = self._timers.elides, self._lossy, self._steps, master.journals, master.relays
        self._takes_unchanged = not any(special)

    # -------------------------------------------------------- causes of heartbeats

    def take(self, now_s: float) -> None:
        """Queue the reports of attempts that ended by `now_s`, and schedule heartbeats of their nodes."""
        for name, what in self._emulation.advance(now_s):
            node = self._node_by_name[name]
            if isinstance(what, FetchFailure):
                node.on_fetch_failed(what)
            elif node.on_ended(what):
                if self._copies is not None:
                    self._copies.ended(now_s, name, what)
            else:
                continue  # From an incarnation that was given up.
            if node.event_s < now_s and self._out_of_band:
                self.set_off(now_s, node)

    def set_off(self, now_s: float, node: SimNode) -> None:
        """Schedule an out-of-band heartbeat of the node, unless one is already scheduled."""
        if node.event_s >= now_s or not node.up or node.frozen:
            return
        at_s = node.event_s = now_s + self._request_s
        heappush(self._heap, (at_s, EVENT << SHIFT | node.index))
        if node.grid_s < 0.0 and node.timer_s <= at_s:
            self._timers.want_until(now_s, node, at_s)

    def on_event(self, now_s: float, index: int) -> None:
        """Process an out-of-band heartbeat of node number `index`, triggered by an event such as an end."""
        node = self._nodes[index]
        if node.event_s == now_s:
            node.event_s = -1.0
            if node.up and not node.frozen:
                if self._restarts_timers and node.finished:
                    self._timers.restart(now_s, node)
                self._heartbeat(now_s, node)

    def on_timer(self, now_s: float, index: int) -> None:
        """Process the regular heartbeat of node number `index`, which the node's timer triggers at `now_s`."""
        node = self._nodes[index]
        self._queue.pass_timers(index)
        if node.grid_s == now_s:
            node.grid_s = -1.0
            node.timers += 1
            self._heartbeat(now_s, node)
        if self._timers.elides:
            self._timers.advance_waiting(now_s, (now_s, index))

    def on_resend(self, now_s: float, index: int) -> None:
        """Send a heartbeat of the node with the number `index` again, since there was no answer."""
        self._queue.pass_timers(NUMBERS)
        node = self._nodes[index]
        if node.resend_s == now_s and node.up and not node.frozen:
            node.resend_s = -1.0
            self._heartbeat(now_s, node)

    # ------------------------------------------------------------- the heartbeat

    def _heartbeat(self, now_s: float, node: SimNode) -> None:
        """Pass a heartbeat to the JobTracker, and its reply to the node. A fault may lose or delay either."""
        if node.resend_s >= 0.0:  # The last heartbeat is unanswered: the next one follows its reply.
            node.due = True
            self._timers.served(now_s, node)
            return
        if node.unanswered is None:
            self._look(now_s, node)
            if self._takes_unchanged and self._take_unchanged(now_s, node):
                return
        heartbeat = node.heartbeat()
        if self._lossy and self._is_late(now_s, node, heartbeat):
            return
        if self._lossy and not (self._master.is_up and self._faults.passes(now_s, node, "lose_requests")):
            self._resend(now_s, node)
            return
        simulation = self._simulation
        if simulation.due_s <= now_s:
            simulation.submit_due(now_s)
        self._statistics.heartbeats += 1
        if self._waits_since is not None:
            self._pass(now_s, *self._waits_since)
        if self._steps is not None:
            self._statistics.events += self._steps.heartbeat(now_s, node.node)
        reply = self._master.do(now_s, "heartbeat", heartbeat)
        if heartbeat.finished or heartbeat.fetch_failures:
            self._count(now_s, node, heartbeat)
        if node.always or self._lossy:
            self._note(now_s, node, heartbeat.usage)
        elif self._rows is not None and (
            heartbeat.finished or any(isinstance(action, Launch) for action in reply.actions)
        ):
            self._note(now_s, node, self._emulation.usage(now_s, node.node))
        if self._lossy and not self._faults.passes(now_s, node, "lose_replies"):
            self._resend(now_s, node)
        else:
            actions = node.on_reply(reply)
            if actions:
                self._act(now_s, node, actions)
            if node.due:
                node.due = False
                self.set_off(now_s, node)
        if self._ledger.effects:
            simulation.do_effects(now_s)
        self._timers.served(now_s, node)
        if self._awaits is not None and self._awaits():
            if self._passes:
                self._waits_since = now_s, self._queue.passed
            else:
                self._timers.want_any(now_s)

    def _take_unchanged(self, now_s: float, node: SimNode) -> bool:
        """Process a heartbeat that reports no change, and return True. Else return False and do nothing."""
        held = None if self._simulation.due_s <= now_s else node.as_known
        if held is None or not self._unchanged.take(now_s, held, node.sequence + 1, node.usage):
            return False
        node.sequence += 1
        self._statistics.heartbeats += 1
        self._note(now_s, node, node.usage)
        self._timers.served(now_s, node)
        return True

    def note(self, now_s: float, node: SimNode) -> None:
        """Write a row without a heartbeat when a node joins or the run ends: idle time would be missing."""
        if self._rows is not None and self._timers.elides and not node.always:
            self._note(now_s, node, self._emulation.usage(now_s, node.spec.node))

    def _note(self, now_s: float, node: SimNode, usage: Usage) -> None:
        if self._rows is not None:
            maps = len(node.running) - node.reduces
            utils = (usage.cpu_util, usage.disk_util, usage.net_util, usage.memory_bytes)
            self._rows.heartbeat((now_s, node.spec.node, maps, node.reduces, *utils, self._decision_s))

    def _pass(self, now_s: float, since_s: float, index: int) -> None:
        """Tell the policy about the skipped heartbeats before `now_s`, until it waits for no more.

        They are those of timers after the one at `since_s` of the node with this index. With faults or a journal,
        no heartbeat is skipped while the policy waits: a fault could lose the heartbeat or stop its timer, and a
        journal must contain it.
        """
        self._waits_since = None
        awaits = self._awaits
        while awaits is not None and awaits():
            found = self._timers.everyone.after(since_s, index)
            if found is None or found[0] >= now_s:
                return
            since_s, node = found
            index = node.index
            if node.held is not None:
                self.tell_passed(since_s, node)

    def tell_passed(self, now_s: float, node: SimNode) -> None:
        """Tell the policy about a heartbeat that was skipped."""
        self._ledger.now_s = now_s
        self._beat(self._ledger, node.held)

    def _look(self, now_s: float, node: SimNode) -> None:
        """Update the progress and resource use that the node will report, unless nothing reads them."""
        name = node.node
        if node.tells:
            node.on_running(self._emulation.statuses(now_s, name))
        if node.always or self._lossy:
            node.usage = self._emulation.usage(now_s, name)

    def _is_late(self, now_s: float, node: SimNode, heartbeat: Heartbeat) -> bool:
        """Return whether a fault delays this heartbeat, and schedule it if so.

        The delay is doubled for the reply, which is then not delayed, nor the heartbeat again.
        """
        delay_s = 0.0 if node.late == heartbeat.sequence else 2 * self._faults.delay_s(node)
        node.late = heartbeat.sequence if delay_s else -1
        if delay_s:
            self._resend(now_s, node, delay_s)
        return delay_s > 0

    def _resend(self, now_s: float, node: SimNode, after_s: float = 0.0) -> None:
        node.resend_s = now_s + (after_s or self._resend_s)
        self._queue.push(node.resend_s, RESEND, node.index)
        self._timers.served(now_s, node)

    def _count(self, now_s: float, node: SimNode, heartbeat: Heartbeat) -> None:
        """Count reported ends, unless the heartbeat is a repeated one, and wake nodes that need outputs."""
        if heartbeat.sequence == node.counted:
            return
        node.counted = heartbeat.sequence
        self._statistics.ends += len(heartbeat.finished)
        self._statistics.events += len(heartbeat.finished)
        if self._reducers:
            for report in heartbeat.finished:
                self._reported(now_s, node, report)
        if heartbeat.fetch_failures and self._timers.elides:
            for job in dict.fromkeys(job_of(failure.map_attempt) for failure in heartbeat.fetch_failures):
                self._timers.fed(now_s, job)

    def _reported(self, now_s: float, node: SimNode, report: AttemptReport) -> None:
        job, kind, _, _ = report.attempt.rsplit("_", 3)
        if kind == "r":
            node.reduces -= 1
            self._reduce_ended(job, node)
        elif report.state == "succeeded" and self._timers.elides:
            known = self._ledger.jobs.get(job)
            if known is not None and (self._all_news or known.maps_all_done):
                self._timers.fed(now_s, job)

    # ----------------------------------------------------------------- the reply

    def _act(self, now_s: float, node: SimNode, actions: tuple[Action, ...]) -> None:
        late: list[Action] = []
        name, plans, launch, launches = node.spec.node, self._plans, self._emulation.launch, 0
        core_speed = node.spec.core_speed
        for action in actions:
            if isinstance(action, Launch):
                if action.kind is not MAP:
                    node.reduces += 1
                    self._reduce_starts(action.job, node)
                start_s = node.start_s
                if self._steps is not None:
                    start_s = self._steps.start_s(now_s, action.job, name, start_s)
                plan = plans.of(action, start_s, core_speed)
                if plan is not None:
                    launch(now_s, name, plan)
                    if self._copies is not None:
                        self._copies.launched(name, plan)
                launches += 1
            elif isinstance(action, ForgetJob):
                self._emulation.forget_job(now_s, name, action.job)
            else:
                late.append(action)
        self._statistics.launches += launches
        self._statistics.events += launches
        if late and self._poll_s:
            self._reply(now_s + self._poll_s, node, [each for each in late if isinstance(each, MapOutputs)])
            late = [action for action in late if not isinstance(action, MapOutputs)]
        self._reply(now_s, node, late)

    def _reply(self, now_s: float, node: SimNode, actions: list[Action]) -> None:
        """Schedule the arrival of a reply's actions."""
        if actions:
            self._serial += 1
            self._replies[self._serial] = (node, node.incarnation, actions)
            self._queue.push(now_s + self._reply_s, REPLY, self._serial)

    def on_reply(self, now_s: float, serial: int) -> None:
        """Carry out the actions of the reply with the number `serial`, which has reached its node."""
        node, incarnation, actions = self._replies.pop(serial)
        if not node.up or node.incarnation != incarnation:
            return
        for action in actions:
            match action:
                case KillAttempt():
                    self._emulation.kill(now_s, node.spec.node, action.attempt, action.reason)
                case MapOutputs():
                    self._emulation.map_outputs(now_s, node.spec.node, action)
                case Reregister():
                    self._start_over(now_s, node)

    def _start_over(self, now_s: float, node: SimNode) -> None:
        """Kill all attempts of a node whose incarnation was given up, and register a new one."""
        for attempt in tuple(node.running):
            self._emulation.kill(now_s, node.spec.node, attempt, "its node was given up")
        for job in tuple(node.jobs):
            self._emulation.forget_job(now_s, node.spec.node, job)
        self.forget(node)
        self._timers.left(node)
        node.join_again()
        self._simulation.register(now_s, node)

    # ------------------------------------------------------------------- reduces

    def _reduce_starts(self, job: str, node: SimNode) -> None:
        key = (job, node.index)
        count = self._reducers.get(key, 0)
        self._reducers[key] = count + 1
        if not count and self._timers.elides:
            self._timers.reducer(job, node, runs=True)

    def _reduce_ended(self, job: str, node: SimNode) -> None:
        key = (job, node.index)
        count = self._reducers.pop(key, 0)
        if count > 1:
            self._reducers[key] = count - 1
        elif count and self._timers.elides:
            self._timers.reducer(job, node, runs=False)

    def forget(self, node: SimNode) -> None:
        """Forget the node's running reduces."""
        for key in [key for key in self._reducers if key[1] == node.index]:
            del self._reducers[key]

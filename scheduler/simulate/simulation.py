"""The main loop of a simulation: processes heartbeats, attempts and faults with the core in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop
from math import inf
from typing import Any

from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.node_model import Emulation, Store
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import (
    AttemptRow,
    Commit,
    DecisionRow,
    Discard,
    Effect,
    JobEnded,
    JobRow,
    NodeLost,
)
from schedbed.scheduler.driver import Plan
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.framework_steps import CleanUps, FrameworkSteps
from schedbed.scheduler.hooks import acts_on_ticks, hook, quiet_of
from schedbed.scheduler.policies.keeper_choice import keeping_of
from schedbed.scheduler.policy import HeartbeatRead, PolicyError
from schedbed.scheduler.simulate import event_queue as kinds
from schedbed.scheduler.simulate.event_queue import NUMBERS, SHIFT, EventQueue
from schedbed.scheduler.simulate.heartbeats import HeartbeatSchedule
from schedbed.scheduler.simulate.launch_plans import Plans
from schedbed.scheduler.simulate.replication_upkeep import Upkeep
from schedbed.scheduler.simulate.row_frames import Column, as_rows, count_of, last_of, put_columns
from schedbed.scheduler.simulate.setup import Rows, Setup, Statistics, Stuck
from schedbed.scheduler.simulate.skipping import TimerSchedule, is_quiet, watch_of
from schedbed.scheduler.simulate.storage import Copies, PlacedInputs, place_inputs
from schedbed.scheduler.simulate.tracked_nodes import Master, SimNode
from schedbed.scheduler.simulate.virtual_faults import Faults
from schedbed.tasks.chance import array_chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import JobSpec, NodeId

QUIET_LIMIT_S = 60.0
"""Seconds without any live node or coming fault after which a run fails, as in live runs."""
IDLE_LIMIT_S = 86_400.0
"""Seconds without a task, a coming fault or a coming job after which a run fails, since its jobs wait for ever."""

MASTERS_LIMIT_S = 3_600.0
"""The same where ApplicationMasters run, which may hold the room that their own tasks need."""

OnProgress = Callable[["Simulation"], None]


class Simulation:
    """A simulation of `setup`: call `run`, or `step` until it returns False. Rows go to `rows` as they occur.

    If the policy reads a value that skipped heartbeats change, it starts again without skipping, and without
    repeating rows. `placed` is that of `place_inputs` for this setup or one that differs only in the policy;
    it is changed, so use it once.
    """

    def __init__(self, setup: Setup, rows: Rows, placed: PlacedInputs | None = None) -> None:
        self._begin(setup, rows, placed or place_inputs(setup))

    def _begin(self, setup: Setup, rows: Rows, placed: PlacedInputs) -> None:
        self.setup = setup
        framework = setup.framework
        self.statistics = Statistics()
        self.interval_s = setup.cluster.heartbeat_s
        self.queue = EventQueue()
        reply_s = setup.timing.decision_s + setup.timing.reply_s
        self.nodes = [
            SimNode(index, spec, reply_s + setup.latencies.launch(spec.core_speed))
            for index, spec in enumerate(setup.cluster.nodes)
        ]
        self.node_by_name = {node.spec.node: node for node in self.nodes}
        self.storage, self._jobs, self.task_tables = placed
        self.storage.alive = self.is_alive
        self.storage.takes_blocks = self._takes_blocks
        self.emulation = (setup.emulation or make_emulation)(setup, self.storage)
        self.faults = Faults(self, setup.faults)
        policy = setup.policy()
        if why := framework.refuses(policy):
            raise BadInput(why)
        all_heartbeats = setup.process_all_heartbeats or self.faults.touch_heartbeats or not framework.is_none
        # After a change, a node that rested may be offered jobs.
        all_heartbeats = all_heartbeats or bool(setup.changes and hook(policy, "change"))
        elides = is_quiet(policy) and not all_heartbeats
        self._all_tell = all_heartbeats or quiet_of(policy) is None
        self._watch = watch_of(policy) if elides else None
        self.noted = NotedRows(rows)
        rows = rows if self._watch is None else self.noted
        self._cleaned = CleanedRows(rows, framework, self.interval_s)
        self.rows = rows if framework.is_none else self._cleaned
        self.master = Master(setup, policy, self.rows)
        self.steps = (
            None if framework.is_none else FrameworkSteps(self.master, framework, self._call_later, self.wake)
        )
        self.timers = TimerSchedule(self.queue, self.nodes, self.interval_s, elides=elides)
        self.timers.follow(self.master.ledger, policy)
        self._ticks = not elides or acts_on_ticks(policy) or bool(setup.faults)
        self.plans = Plans(setup, self.master)
        self.upkeep = Upkeep(self)
        keeping = keeping_of(policy, setup.cluster.blocks)
        self.copies: Copies | None = None
        if keeping is not None:
            self.copies = Copies(keeping, setup.seed, self.storage, self.upkeep.keep)
        self.heartbeats = HeartbeatSchedule(self)
        self.due_s = inf  # Submit time of the next job.
        self._tick_at_s = -1.0
        self._commits: dict[int, Commit] = {}
        self._serial, self._alive_s, self._busy_s = 0, 0.0, 0.0
        self._ended = False
        self._handlers = self._make_handlers()
        self._start()

    def _make_handlers(self) -> list[Callable[[float, int], None]]:
        handlers: dict[int, Callable[[float, int], None]] = {
            kinds.FAULT: self.faults.inject,
            kinds.JOIN: self._join,
            kinds.DUE: self._on_due,
            kinds.BLOCKS: self.upkeep.follow_blocks,
            kinds.NAMES: self.upkeep.heartbeats,
            kinds.COPIED: self.upkeep.copied,
            kinds.COMMIT: self._on_commit,
            kinds.REPLY: self.heartbeats.on_reply,
            kinds.EVENT: self.heartbeats.on_event,
            kinds.TIMER: self.heartbeats.on_timer,
            kinds.RESEND: self.heartbeats.on_resend,
            kinds.TICK: self._on_tick,
            kinds.SET_UP: self._on_set_up,
            kinds.READS: self.upkeep.note_reads,
            kinds.ALLOCATE: self._on_allocate,
        }
        return [handlers[kind] for kind in range(len(handlers))]

    # ----------------------------------------------------------------- start

    def _start(self) -> None:
        repeat = (self.setup.repeat,) if self.setup.repeat else ()
        phases = array_chance(self.setup.seed, "phases", *repeat).random(len(self.nodes))
        for node, phase in zip(self.nodes, phases.tolist(), strict=True):
            silenced = node.spec.node in self.faults.silenced
            node.always, node.tells = not self.timers.elides or silenced, self._all_tell or silenced
            node.phase_s = phase * self.interval_s
            self.join_at(self.setup.timing.begin_s, node)
        self.faults.start()
        self.upkeep.start()
        self.master.do(0.0, "plan", Plan(jobs=tuple(self._jobs), files={}, changes=tuple(self.setup.changes)))
        self._look_for_jobs()
        if self._ticks:
            self.want_tick()

    def join_at(self, at_s: float, node: SimNode) -> None:
        """Schedule the node's registration, in place of an earlier schedule."""
        node.join_s = at_s
        self.queue.push(at_s, kinds.JOIN, node.index)

    def _join(self, now_s: float, index: int) -> None:
        """Boot the node with the number `index`, register it, and schedule its first heartbeat."""
        node = self.nodes[index]
        if node.join_s != now_s:
            return
        if node.up:  # The JobTracker did not answer the last time.
            self.register(now_s, node)
            return
        # The timer first fires `phase_s` from now, as number 1; number 0 is one interval earlier.
        node.boot(now_s + self.setup.timing.request_s + node.phase_s - self.interval_s)
        self.emulation.node_up(now_s, node.spec)
        self.faults.joined(now_s, node)
        self.register(now_s, node)

    def report_blocks(self, now_s: float, node: SimNode) -> None:
        """Report the node's blocks to the NameNode, if the NameNode had declared the node lost."""
        if node.blocks is not None:
            self.storage.register(now_s, node.node, node.spec.rack, node.blocks)
            node.blocks = None
            self.upkeep.stir()

    def register(self, now_s: float, node: SimNode) -> None:
        """Report the node's blocks, and register it at the JobTracker. Schedule another try without an answer."""
        if not self.faults.is_cut_off(node):
            self.report_blocks(now_s, node)
        if not self.master.is_up or self.faults.is_cut_off(node):
            self.join_at(now_s + self.setup.timing.resend_s, node)
            return
        self.master.do(now_s, "register", node.spec, node.incarnation)
        node.held = self.master.ledger.nodes[node.spec.node]
        self.timers.joined(node)
        if not self.setup.framework.am_heartbeat_s:  # YARN's nodes were up before, at times of their own.
            self.heartbeats.set_off(now_s, node)
        self.heartbeats.note(now_s, node)
        self.core_changed(now_s)
        if node.always:
            self.timers.want(now_s, node)
        self.faults.registered(now_s, node)

    # ------------------------------------------------------------------ run

    @property
    def now_s(self) -> float:
        return self.queue.now_s

    @property
    def core(self) -> Core:
        """Return the JobTracker's core, a new one after a restart."""
        return self.master.core

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def jobs(self) -> Sequence[JobSpec]:
        return self._jobs

    def _takes_blocks(self, node: NodeId) -> bool:
        return self.is_alive(node) and not self.node_by_name[node].disk_full

    def is_alive(self, node: NodeId) -> bool:
        """Return whether the node runs and is not frozen."""
        return (known := self.node_by_name[node]).up and not known.frozen

    def run(self, on_progress: OnProgress | None = None, *, every: int = 20_000) -> None:
        """Simulate all jobs, with `on_progress` after each `every` events. Raises Stuck."""
        while not self._ended:
            self._run_or_begin_again(every)
            if on_progress is not None:
                on_progress(self)

    def step(self) -> bool:
        """Simulate one event. Return False when all jobs have ended. Raises Stuck if no event is left."""
        if not self._ended:
            self._run_or_begin_again(1)
        return not self._ended

    def _run_or_begin_again(self, count: int) -> None:
        """Simulate, or begin again if the policy reads what skipped heartbeats change."""
        try:
            self._run(count)
        except HeartbeatRead:
            self.begin_again(replace(self.setup, process_all_heartbeats=True))

    def begin_again(self, setup: Setup) -> None:
        """Begin again with `setup`, without repeating rows."""
        self._begin(setup, RestOfRows(self.noted), place_inputs(setup))

    def _run(self, count: int) -> None:
        """Simulate `count` events, or fewer if the simulation ends."""
        queue, heap, handlers = self.queue, self.queue.heap, self._handlers
        next_s, take = self.emulation.next_s, self.heartbeats.take
        for number in range(count):
            emulated_s = next_s()
            if heap and heap[0][0] < emulated_s:
                now_s, code = heappop(heap)
                queue.now_s = now_s
                handlers[code >> SHIFT](now_s, code & NUMBERS)
            elif emulated_s == inf:
                raise Stuck(f"at {queue.now_s:.3f} s nothing is left to happen, but jobs wait")
            else:
                if emulated_s > queue.now_s:
                    queue.now_s = emulated_s
                take(queue.now_s)
            if self.due_s == inf and self.master.is_up and self.core.all_ended() and not self._are_held():
                self.statistics.steps += number + 1
                self._finish()
                return
        self.statistics.steps += count

    def _are_held(self) -> bool:
        return self.steps is not None and self.steps.holds_jobs

    def _finish(self) -> None:
        self.queue.now_s = max(self.now_s, self._cleaned.clean_ups.last_s)
        for node in self.nodes:
            if node.up and not node.always:
                self.heartbeats.note(self.now_s, node)
        if isinstance(self.emulation, FluidEmulation):
            self.statistics.solved = self.emulation.solved
        self.close()

    def close(self) -> None:
        """End the simulation: write the rows of the remaining replicas, and count the skipped heartbeats."""
        self._ended = True
        if self._watch is not None:
            self._watch.is_over = True
        self.upkeep.close()
        for node in self.nodes:
            if node.up and not node.always:
                passed = int((self.now_s - node.base_s) / self.interval_s)
                self.statistics.heartbeats_elided += max(0, passed - node.timers)

    # ------------------------------------------------------------------ jobs

    def _look_for_jobs(self) -> None:
        """Schedule an event at the next submit time, after which a heartbeat or tick submits."""
        self.due_s = self.master.next_due_s
        if self.due_s < inf:
            self.queue.push(max(self.due_s, self.queue.now_s), kinds.DUE, 0)

    def _on_due(self, now_s: float, _: int) -> None:
        if self.due_s <= now_s:
            self.timers.want_any(now_s)
            self.want_tick(now_too=True)

    def submit_due(self, now_s: float) -> None:
        """Submit the jobs whose submit time is at or before `now_s`."""
        if self.steps is None:
            self.statistics.events += self.master.submit_due(now_s)
        else:
            self.master.change_due(now_s)
            waiting = self.master.waiting
            while waiting and waiting[0].submit_s <= now_s:
                self.steps.take([waiting.popleft()])
        self._look_for_jobs()

    def _on_set_up(self, now_s: float, index: int) -> None:
        """Schedule a heartbeat of a node whose set-up task has ended."""
        self.heartbeats.set_off(now_s, self.nodes[index])

    def _on_allocate(self, now_s: float, number: int) -> None:
        if self.steps is not None:
            self.steps.masters.on_allocate(now_s, number)
            self.do_effects(now_s)

    def _call_later(self, at_s: float, number: int) -> None:
        self.queue.push(at_s, kinds.ALLOCATE, number)

    def wake(self, at_s: float, node: NodeId) -> None:
        """Schedule a heartbeat of a node: for an order of the JobTracker, or at the end of a set-up task."""
        known = self.node_by_name[node]
        if at_s <= self.now_s:
            self.heartbeats.set_off(at_s, known)
        else:
            self.queue.push(at_s, kinds.SET_UP, known.index)

    # ----------------------------------------------------------------- ticks

    def want_tick(self, *, now_too: bool = False) -> None:
        """Schedule the next tick (a periodic check), if none is scheduled. `now_too`: even at this time."""
        if self._tick_at_s < 0.0:
            number = max(1, int(self.now_s / self.interval_s))
            while (at_s := number * self.interval_s) < self.now_s or (at_s == self.now_s and not now_too):
                number += 1
            self._tick_at_s = number * self.interval_s
            self.queue.push(self._tick_at_s, kinds.TICK, 0)

    def _on_tick(self, now_s: float, _: int) -> None:
        self.queue.pass_timers(NUMBERS)
        self._tick_at_s = -1.0
        if self._ticks:
            self.want_tick()
        self._check_alive(now_s)
        if not self.master.is_up:
            return
        if self.due_s <= now_s:
            self.submit_due(now_s)
        if self.timers.elides:
            self.timers.heard(now_s)
        self.master.do(now_s, "tick")
        self.core_changed(now_s)

    def _check_alive(self, now_s: float) -> None:
        if self.faults.more_to_come or any(node.up and not node.frozen for node in self.nodes):
            self._alive_s = now_s
        elif now_s - self._alive_s > QUIET_LIMIT_S:
            raise Stuck(f"no node is alive since {QUIET_LIMIT_S:.0f} s and none is to come back")
        masters = 0 if self.steps is None else self.steps.masters.count
        limit_s = MASTERS_LIMIT_S if masters else IDLE_LIMIT_S
        if self.faults.more_to_come or self.due_s < inf or self.master.ledger.live_attempts > masters:
            self._busy_s = now_s
        elif now_s - self._busy_s > limit_s:
            jobs = ", ".join(job.job for job in self.master.ledger.jobs.values() if job.active)
            held = f", and {masters} ApplicationMasters hold room" if masters else ""
            raise Stuck(f"no task runs since {limit_s:.0f} s, but {jobs} wait{held}")

    # --------------------------------------------------------------- effects

    def core_changed(self, now_s: float) -> None:
        """Carry out the core's effects, such as commits, and schedule heartbeats that are now necessary."""
        self.do_effects(now_s)
        if self.timers.elides:
            self.timers.changed(now_s)

    def do_effects(self, now_s: float) -> None:
        """Carry out the effects that the core requested. Effects are, for example, commits of outputs."""
        for effect in self.master.take_effects():
            if isinstance(effect, JobEnded):
                self.statistics.events += 1
                self.statistics.jobs += 1
                if self.master.next_due_s < self.due_s:  # A job that waited for this one.
                    self._look_for_jobs()
            self._set_off(now_s, effect)

    def _set_off(self, now_s: float, effect: Effect) -> None:
        match effect:
            case Commit():
                self._serial += 1
                self._commits[self._serial] = effect
                self.queue.push(now_s + self.setup.timing.commit_s, kinds.COMMIT, self._serial)
            case Discard():
                self.storage.discard(now_s, effect.job, effect.attempt)
            case NodeLost():
                node = self.node_by_name[effect.node]
                if node.blocks is None:
                    node.blocks = self.storage.blocks_on(effect.node)
                self.storage.names.node_lost(now_s, effect.node)
                self.timers.fed_all(now_s)
            case JobEnded():
                self.storage.job_ended(now_s, effect.job)
            case _:
                pass
        if self.steps is not None:
            self.steps.follow(now_s, effect)
        if not isinstance(effect, Commit):
            self.master.carried_out(effect)
        self.upkeep.stir()

    def _on_commit(self, now_s: float, serial: int) -> None:
        effect = self._commits.pop(serial)
        if not self.master.is_up:
            return  # The restarted JobTracker asks again.
        trouble = self.storage.commit(now_s, effect.job, effect.attempt, effect.index)
        if trouble:
            self.master.do(now_s, "commit_failed", effect.attempt, f"commit failed: {trouble}")
        else:
            self.master.do(now_s, "committed", effect.attempt)
        self.core_changed(now_s)

    def recover(self, now_s: float) -> None:
        """Restart the JobTracker from its journal, and repeat commits that may be unfinished."""
        unfinished = self.master.recover(now_s)
        self.timers.follow(self.master.ledger, self.master.policy)
        self.heartbeats.follow()
        for node in self.nodes:
            node.held = self.master.ledger.nodes.get(node.spec.node)
        for effect in unfinished:
            if isinstance(effect, Commit):
                self._set_off(now_s, effect)
            else:  # It was carried out at once, and a lost node may be back since then.
                self.master.carried_out(effect)
        self.do_effects(now_s)


def make_emulation(setup: Setup, store: Store) -> Emulation:
    """Return the simulator of attempts. With `contention`, attempts share the resources of a node.

    With AMs, an end is known at once, without the latency of schedbed's live nodes.
    """
    if setup.contention:
        fetch_bps, latencies = setup.framework.fetch_rate, setup.latencies
        if setup.framework.am_heartbeat_s:
            latencies = replace(latencies, end_s=0.0, end_cpu_s=0.0)
        return FluidEmulation(store, latencies, setup.cluster.links, fetch_bps=fetch_bps)
    return ExactEmulation(store)


class CleanedRows:
    """Passes rows on, with the framework's clean-up added to jobs' ends."""

    def __init__(self, rows: Rows, framework: Framework, heartbeat_s: float) -> None:
        self.clean_ups = CleanUps(framework, heartbeat_s)
        self._rows = rows
        self.decision = rows.decision
        self.heartbeat = rows.heartbeat
        self.block = rows.block
        self.fault = rows.fault

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink.attempt`."""
        self.clean_ups.note(row)
        self._rows.attempt(row)

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`."""
        self._rows.job(self.clean_ups.cleaned(row))


# Receivers of rows for a simulation that may have to start again from the beginning, which happens if the
# policy reads a value that a skipped heartbeat would have changed.
#
# Rows that were written in the first try are not written again.


class NotedRows:
    """Passes rows on to `target`, and remembers what `RestOfRows` needs if the simulation starts again.

    That is each table's number of rows and last row, and each node's last heartbeat. `takes_columns` passes
    columns too.
    """

    def __init__(self, target: Rows) -> None:
        self.target = target
        self.takes_columns = False
        self.counts: dict[str, int] = dict.fromkeys(("decision", "attempt", "job", "block", "fault"), 0)
        self.last: dict[str, tuple[object, ...]] = {}
        self.heartbeats_s: dict[object, object] = {}

    def _note(self, table: str, row: tuple[object, ...]) -> None:
        self.counts[table] += 1
        self.last[table] = row

    def decision(self, row: DecisionRow) -> None:
        """Implement `Sink.decision`."""
        self._note("decision", row)
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink.attempt`."""
        self._note("attempt", row)
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`."""
        self._note("job", row)
        self.target.job(row)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`."""
        self.heartbeats_s[row[1]] = row[0]
        self.target.heartbeat(row)

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`."""
        self._note("block", row)
        self.target.block(row)

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`."""
        self._note("fault", row)
        self.target.fault(row)

    def pass_columns(self, table: str, data: dict[str, Column]) -> None:
        """Count rows that are given as columns and pass them on. `table` is the table's name."""
        if table == "heartbeats":
            self.heartbeats_s.update(zip(data["node"], data["t"].tolist(), strict=True))
        elif count := count_of(data):
            self.counts[table[:-1]] += count
            [self.last[table[:-1]]] = as_rows(table, last_of(data))
        put_columns(self.target, table, data)


class RestOfRows:
    """Drops the rows that `NotedRows` has passed on, for a simulation that has started again.

    PolicyError means that the last one differs: the policy has answered differently.
    """

    def __init__(self, noted: NotedRows) -> None:
        self._noted = noted
        target = noted.target
        self.decision = self._rest("decision", target.decision)
        self.attempt = self._rest("attempt", target.attempt)
        self.job = self._rest("job", target.job)
        self.block = self._rest("block", target.block)
        self.fault = self._rest("fault", target.fault)

    def _rest(self, table: str, target: Any) -> Any:
        left = self._noted.counts[table]
        last = self._noted.last.get(table)

        def take(row: tuple[object, ...]) -> None:
            nonlocal left
            if left == 0:
                target(row)
                return
            left -= 1
            if left == 0 and row != last:
                raise PolicyError(
                    f"the policy cannot be repeated: first {tuple(last or ())}, then {tuple(row)}"
                )

        return take

    def heartbeat(self, row: tuple[Any, ...]) -> None:
        """Implement `Rows.heartbeat`."""
        if row[0] > self._noted.heartbeats_s.get(row[1], -1.0):  # type: ignore[operator]
            self._noted.target.heartbeat(row)

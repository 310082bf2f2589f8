"""The scheduler as a state machine without I/O: events go in; replies, table rows and effects come out.

Effects are actions for the driver, such as commits. As in JobTracker.heartbeat of Hadoop MRv1, a repeated
heartbeat gets the same reply, and an unknown incarnation of a node must register again. An attempt occupies
its slot as soon as the reply that launches it is made. The state is in `scheduler.core.ledger`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from schedbed.cluster.messages import (
    Action,
    AttemptReport,
    FetchFailure,
    Heartbeat,
    KillAttempt,
    Launch,
    MapOutputs,
    Reply,
    Reregister,
)
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.entities import LIVE, MAP, REDUCE, Job, Node, Stage, Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.rows import Commit, Discard, Effect, JobEnded, NodeLost, Sink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.core.states import (
    ASSIGNED,
    KILLED,
    KILLING,
    LOST,
    RUNNING,
    TASK_DONE,
    JobState,
    TaskState,
)
from schedbed.scheduler.hooks import Speculation, hook
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import JobSpec, NodeId, TaskKind, task_of

__all__ = ["Commit", "Core", "CoreConfig", "Discard", "Effect", "JobEnded", "NodeLost", "Sink"]


class Core:
    """The scheduler of one JobTracker. Each method with `now_s`, which never decreases, processes one event."""

    def __init__(self, config: CoreConfig, policy: Policy, sink: Sink, *, seed: int = 0) -> None:
        self.config = config
        self._decide = policy.decide
        self._silence_s = config.silence_s
        self._most_maps, self._most_reduces = config.maps_per_heartbeat, config.reduces_per_heartbeat
        self._heard_s = 0.0  # No live node's last heartbeat was earlier.
        self._hears_full_nodes = bool(hook(policy, "hears_full_nodes"))
        self._on_heartbeat = hook(policy, "beat")
        self._on_tick = hook(policy, "tick")
        self._preempt = hook(policy, "preempt")
        self._speculation: Speculation | None = hook(policy, "speculation")
        self._ledger = Ledger(config, policy, sink, seed)

    @property
    def ledger(self) -> Ledger:
        """Return the core's state, which callers only read."""
        return self._ledger

    # Nodes

    def register(self, now_s: float, node: NodeSpec, incarnation: int) -> None:
        """Register a node. A higher `incarnation` loses all of its earlier life; a lower one is ignored."""
        ledger = self._ledger
        ledger.now_s = now_s
        known = ledger.nodes.get(node.node)
        if known is not None and known.alive:
            if incarnation <= known.incarnation:
                return
            ledger.remove_node(known, "node restarted")
        elif known is not None and incarnation < known.incarnation:
            return
        ledger.add_node(node, incarnation)

    def node_lost(self, now_s: float, node: NodeId) -> None:
        """Mark a live node, its attempts and its map outputs as lost."""
        self._ledger.now_s = now_s
        known = self._ledger.nodes.get(node)
        if known is not None and known.alive:
            self._lose(known, "node lost")

    def _lose(self, node: Node, reason: str) -> None:
        self._ledger.remove_node(node, reason)
        self._ledger.effects.append(NodeLost(node.node))

    def recovered(self, now_s: float) -> None:
        """Reset the live nodes' heartbeat times: none could arrive while the JobTracker was down."""
        self._ledger.now_s = now_s
        for node in self._ledger.nodes.values():
            if node.alive:
                node.heard_s = now_s

    def tick(self, now_s: float) -> None:
        """Lose nodes without heartbeats, and preempt attempts. Called about once per heartbeat interval."""
        ledger = self._ledger
        ledger.now_s = now_s
        self._expire(now_s - self._silence_s)
        if self._on_tick is not None:
            ledger.settle()
            self._on_tick(ledger)
        if self._speculation is not None:
            self._speculation.tick(ledger)
        if self._preempt is not None:
            ledger.settle()
            for proposal in self._preempt(ledger):
                ledger.preempt(proposal)

    def _expire(self, latest_s: float) -> None:
        """Lose the nodes not heard of since `latest_s`, unless the earliest time, which is stored, is later."""
        if self._heard_s < latest_s:
            for node in self._ledger.nodes.values():
                if node.heard_s < latest_s and node.alive:
                    self._lose(node, "tracker silent")
            heard_s = (node.heard_s for node in self._ledger.nodes.values() if node.alive)
            self._heard_s = min(heard_s, default=latest_s)

    def replicas_changed(self, now_s: float, block: str, hosts: Iterable[NodeId]) -> None:
        """Record a block's replicas. Unstarted maps that read it are then node-local there."""
        self._ledger.now_s = now_s
        self._ledger.move_block(block, tuple(hosts))

    # Jobs

    def submit(self, now_s: float, job: JobSpec) -> None:
        """Add a job, submitted at `job.submit_s` for policies and tables. Raises ValueError for a known id."""
        self._ledger.now_s = now_s
        self._ledger.add_job(job)

    def kill_job(self, now_s: float, job: str, reason: str) -> None:
        """End the job in the state killed, and stop its attempts. Jobs that are unknown or have ended are ignored."""
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job)
        if known is not None:
            self._ledger.end_job(known, JobState.KILLED, reason)

    def ask(self, now_s: float, job: str, kind: TaskKind, asked: int, meant: int | None = None) -> None:
        """Let policies see `asked` unstarted tasks of a job, which may be more than it has (`EmptyTask`), or fewer."""
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job)
        if known is not None:
            self._ledger.ask(known.stage(kind), asked, meant)

    def release(self, now_s: float, job: str, attempt: str) -> None:
        """End an attempt of an empty task. One that has ended is ignored."""
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job) or self._ledger.ended.get(job)
        held = None if known is None else known.attempts.get(attempt)
        if held is not None:
            self._ledger.release_empty(held)

    def stop(self, now_s: float, job: str, attempt: str, reason: str) -> None:
        """Order a node to stop an attempt of a job, whose task then runs again. One that has ended is ignored."""
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job)
        held = None if known is None else known.attempts.get(attempt)
        if held is not None:
            self._ledger.kill(held, reason)

    def start_inside(self, now_s: float, job: str) -> None:
        """Let a job's master, which holds a container, run the tasks inside it. The next heartbeat starts one."""
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job)
        if known is not None and known.master is not None and known.master.running:
            known.master.tasks[0].attempts[0].node.inside[job] = known

    def _run_inside(self, node: Node) -> None:
        """Start the next task of each job whose master runs its tasks on the node."""
        for job in list(node.inside.values()):
            if job.active:
                self._ledger.run_inside(job)
            else:
                del node.inside[job.job]

    def committed(self, now_s: float, attempt: str) -> None:
        """Process the report that the attempt's output was committed. A repeated call changes nothing."""
        self._ledger.now_s = now_s
        task = self._committing(attempt)
        if task is not None:
            self._ledger.commit_succeeded(task)

    def commit_failed(self, now_s: float, attempt: str, reason: str) -> None:
        """Fail an attempt whose commit failed; its task runs again."""
        self._ledger.now_s = now_s
        task = self._committing(attempt)
        if task is not None:
            self._ledger.commit_failed(task, reason)

    def _committing(self, attempt: str) -> Task | None:
        return self._ledger.committing.get(attempt)

    def _task_of(self, attempt: str) -> Task | None:
        job = self._job_of(attempt)
        if job is None:
            return None
        name = task_of(attempt)
        kind, _, index = name[len(job.job) + 1 :].partition("_")
        tasks = job.maps.tasks if kind == "m" else job.reduces.tasks
        place = int(index) if index.isdecimal() else -1
        return tasks[place] if 0 <= place < len(tasks) and tasks[place].task == name else None

    def _job_of(self, attempt: str) -> Job | None:
        # Split from the right, because a job's id may have any form.
        return self._ledger.jobs.get(attempt.rsplit("_", 3)[0])

    # Heartbeats

    def heartbeat(self, now_s: float, heartbeat: Heartbeat) -> Reply:
        """Return the reply to a node's heartbeat, the last one again if the sequence number is not new."""
        ledger = self._ledger
        node = ledger.nodes.get(heartbeat.node)
        sequence = heartbeat.sequence
        if node is None or not node.alive or node.incarnation != heartbeat.incarnation:
            return Reply(sequence, (Reregister(),))
        if sequence <= node.sequence and node.reply is not None:
            node.heard_s = now_s
            return node.reply
        ledger.now_s = node.heard_s = now_s
        ledger.beats += 1
        node.sequence = sequence
        node.usage = heartbeat.usage
        if heartbeat.disk_full is not node.disk_full:
            ledger.note_disk(node.node, full=heartbeat.disk_full)
        for report in heartbeat.finished:
            attempt = node.attempts.get(report.attempt)
            if attempt is not None:
                ledger.reported(attempt, report)
            else:
                self._discard_stray(report)
        if node.calm != node.turn or node.listed is not heartbeat.running:
            node.calm, node.listed = node.turn, heartbeat.running
            if node.listed or node.attempts:
                self._take_statuses(node, heartbeat)
        for failure in heartbeat.fetch_failures:
            self._fetch_failed(failure)
        if node.inside:
            self._run_inside(node)
        actions: list[Action] = node.outbox
        node.outbox = []
        if self._on_heartbeat is not None:
            self._on_heartbeat(ledger, node)
        if ledger.ready_maps > 0:
            self._offer(node, MAP, actions)
        if ledger.ready_reduces > 0:
            self._offer(node, REDUCE, actions)
        if self._speculation is not None:
            self._offer_copies(self._speculation, node, actions)
        if node.feeds:
            _feed(node, actions)
        reply = node.reply = Reply(sequence, tuple(actions))
        return reply

    def _take_statuses(self, node: Node, heartbeat: Heartbeat) -> None:
        held = node.attempts.get
        missing = len(node.attempts) - len(heartbeat.running)
        for listed in heartbeat.running:
            attempt = held(listed.attempt)
            if attempt is None:
                missing += 1
                node.outbox.append(KillAttempt(attempt=listed.attempt, reason="unknown to the JobTracker"))
                continue
            if attempt.status is not listed:
                attempt.status = listed
                attempt.started_s = listed.started_s
                if attempt.state is ASSIGNED:
                    attempt.state = RUNNING
            if attempt.state is KILLING:
                node.calm = -1
                if heartbeat.sequence > attempt.killed + 1:
                    node.outbox.append(KillAttempt(attempt=attempt.attempt, reason=attempt.reason))
        if missing:
            node.calm = -1
            self._miss_attempts(node, heartbeat)

    def _miss_attempts(self, node: Node, heartbeat: Heartbeat) -> None:
        """End attempts that the heartbeat should list, which those of the last reply need not be yet."""
        listed = {status.attempt for status in heartbeat.running}
        for attempt in list(node.attempts.values()):
            if attempt.task.is_empty:
                continue
            if attempt.attempt not in listed and heartbeat.sequence > attempt.sequence + 1:
                if attempt.state is KILLING:
                    self._ledger.end_attempt(attempt, KILLED, attempt.reason)
                    self._ledger.forget_outputs(attempt)
                else:
                    self._ledger.end_attempt(attempt, LOST, "the node does not have it")

    def _discard_stray(self, report: AttemptReport) -> None:
        """Order the deletion of an unknown attempt's output, unless it won its task or its outputs are
        shuffled.

        A report may arrive twice, or after the core has given up the attempt.
        """
        task = self._task_of(report.attempt)
        if task is None or task.stage.shuffled:
            return
        if task.winner is None or task.winner.attempt != report.attempt:
            self._ledger.effects.append(Discard(task.job.job, report.attempt))

    def _fetch_failed(self, failure: FetchFailure) -> None:
        task = self._task_of(failure.map_attempt)
        if task is None or task.winner is None or task.winner.attempt != failure.map_attempt:
            return
        if task.stage.shuffled and task.state is TASK_DONE:
            task.fetch_failures += 1
            if task.fetch_failures >= self.config.fetch_failures_to_rerun:
                self._ledger.lose_output(task)

    def _offer(self, node: Node, kind: TaskKind, actions: list[Action]) -> None:
        ledger, decide = self._ledger, self._decide
        typed, is_map = ledger.limits.slots, kind is MAP
        most = self._most_maps if is_map else self._most_reduces
        granted = 0
        while (ledger.ready_maps if is_map else ledger.ready_reduces) > 0:
            if ledger.pooled and not (self._hears_full_nodes or ledger.has_room(node)):
                return
            if typed and node.free_slots(kind) <= 0:
                return
            if most and granted >= most:
                return
            if ledger.unsettled:
                ledger.settle()
            proposal = decide(ledger, node, kind)
            if proposal is None:
                return
            attempt = ledger.launch(node, kind, proposal)
            task = attempt.task
            granted += 1
            if not task.is_empty:
                stage = task.stage
                actions.append(Launch(attempt.attempt, stage.job.job, stage.kind, task.index, task.part))

    def _offer_copies(self, speculation: Speculation, node: Node, actions: list[Action]) -> None:
        """Offer the slots left free to `speculation`, and append the launches of its copies."""
        ledger = self._ledger
        for kind in (MAP, REDUCE):
            while not ledger.limits.slots or node.free_slots(kind) > 0:
                proposal = speculation.copy(ledger, node, kind)
                if proposal is None:
                    break
                attempt = ledger.launch(node, kind, proposal)
                task = attempt.task
                actions.append(Launch(attempt.attempt, task.stage.job.job, kind, task.index, task.part))

    # Queries of the driver

    def take_effects(self) -> list[Effect]:
        """Return the effects (actions for the driver) that arose since the last call, in order."""
        effects = self._ledger.effects
        if effects:
            self._ledger.effects = []
        return effects

    def status(self) -> dict[str, Any]:
        """Return jobs, nodes and recent decisions as JSON values for the live display."""
        return status(self._ledger)

    def active_jobs(self) -> list[str]:
        """Return the ids of jobs that have not ended, in order of submission."""
        return list(self._ledger.jobs)

    def all_ended(self) -> bool:
        return not self._ledger.jobs and not self._ledger.live_attempts

    def state(self) -> dict[str, Any]:
        """Return a dictionary of the attributes that events can change, for a snapshot. The values are not copied."""
        return {**self._ledger.state(), "heard_s": self._heard_s}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the attributes that the method `state` returned."""
        self._heard_s = state["heard_s"]
        self._ledger.restore(state)

    def forget_block(self, block: str) -> None:
        """Forget a moved block's replicas. All jobs that read it must have ended."""
        self._ledger.moved.pop(block, None)

    def check_tables(self) -> None:
        """Raise AssertionError if the state is inconsistent, in time proportional to nodes and tasks."""
        check_tables(self._ledger)


def _feed(node: Node, actions: list[Action]) -> None:
    """Append to `actions` the announcements of new map outputs for the reduces that run on the node."""
    for feed in node.feeds.values():
        job = feed.job
        done = job.maps.done == job.maps.total
        if feed.cursor < len(job.outputs) or done is not feed.all_done:
            outputs = tuple(job.outputs[feed.cursor :])
            feed.cursor = len(job.outputs)
            feed.all_done = done
            actions.append(MapOutputs(job=job.job, outputs=outputs, all_done=done))


# Checks that the core's state is consistent. The checks change nothing.


def check_tables(ledger: Ledger) -> None:
    """Raise AssertionError if resources of nodes, counters, indices or task states are inconsistent."""
    for node in ledger.nodes.values():
        _check_node(ledger, node)
    for job in ledger.jobs.values():
        _check_job(job)
    _check_totals(ledger)


def _check_node(ledger: Ledger, node: Node) -> None:
    spec, held = node.spec, list(node.attempts.values())
    maps = [attempt for attempt in held if attempt.task.kind is MAP]
    reduces = [attempt for attempt in held if attempt.task.kind is not MAP]
    demands = [attempt.task.stage.demand for attempt in held]
    assert (node.running_maps, node.running_reduces) == (len(maps), len(reduces)), node.node
    assert node.free_maps + len(maps) == spec.map_slots, (node.node, node.free_maps, len(maps))
    assert node.free_reduces + len(reduces) == spec.reduce_slots, (node.node, node.free_reduces)
    assert node.free_memory_bytes + sum(d.memory_bytes for d in demands) == spec.memory_bytes, node.node
    assert node.free_vcores + sum(d.vcores for d in demands) == spec.cores, node.node
    limits = ledger.limits
    assert not limits.slots or min(node.free_maps, node.free_reduces) >= 0, node.node
    assert not limits.memory or node.free_memory_bytes >= 0, node.node
    assert not limits.vcores or node.free_vcores >= 0, node.node
    assert node.alive or not (held or node.feeds or node.outbox), node.node
    for attempt in held:
        assert attempt.state in LIVE and attempt.node is node, attempt.attempt
        assert attempt.task.stage.job.attempts[attempt.attempt] is attempt, attempt.attempt
    for job_id, feed in node.feeds.items():
        running = [attempt for attempt in reduces if attempt.task.stage.job is feed.job]
        assert feed.job.job == job_id and feed.reduces == len(running) > 0, (node.node, job_id)


def _check_job(job: Job) -> None:
    assert job.state is JobState.RUNNING, job.job
    for stage in job.stages:
        _check_stage(stage)
    if job.reduces.total:
        winners = [task.winner for task in job.maps.tasks if task.winner is not None]
        assert all(winner.node.alive and winner.node.node in job.nodes for winner in winners), job.job
        told = {output.index: output for output in job.outputs}
        there = [(output.attempt, output.node) for output in told.values() if not output.lost]
        assert sorted(there) == sorted((winner.attempt, winner.node.node) for winner in winners), job.job


def _check_stage(stage: Stage) -> None:
    job, tasks = stage.job.job, stage.tasks
    live = [attempt for task in tasks for attempt in task.attempts]
    held = [attempt for attempt in stage.job.attempts.values() if attempt.task.stage is stage]
    live += [attempt for attempt in held if attempt.task.is_empty and attempt not in live]
    states = [task.state for task in tasks]
    assert len(tasks) == stage.total, job
    unstarted = states.count(TaskState.UNSTARTED) + stage.excess - stage.hidden
    assert stage.unstarted == unstarted, (job, stage.label)
    assert stage.done == states.count(TaskState.DONE), (job, stage.label)
    assert stage.running == len(live), (job, stage.label)
    assert stage.killing == sum(attempt.state == "killing" for attempt in live), (job, stage.label)
    asks = stage.job.stages if stage is stage.job.maps and stage.job.master is not None else (stage,)
    assert stage.ready == any(each.open and each.unstarted > 0 for each in asks), job
    if stage is stage.job.maps:
        _check_parts(stage)
    for task in tasks:
        _check_task(task)
    for attempt in live:
        assert attempt.node.attempts[attempt.attempt] is attempt, attempt.attempt


def _check_parts(stage: Stage) -> None:
    """Assert that the tasks of the stage's job read each split once: one whole task or exactly two parts."""
    splits, tasks = stage.job.spec.splits, stage.tasks
    rests: dict[int, Task] = {}
    for task in tasks[len(splits) :]:
        assert task.part is not None and task.after is not None and task.after not in rests, task.task
        rests[task.after] = task
    for split, task in zip(splits, tasks, strict=False):
        ends = [task.split.offset + task.split.length]
        rest = rests.pop(split.index, None)
        assert (rest is None) == (task.part is None) and task.after is None, task.task
        if rest is not None:
            assert rest.split.offset == ends[0] and min(rest.split.length, task.split.length) > 0, rest.task
            ends.append(rest.split.offset + rest.split.length)
        assert (task.split.offset, ends[-1]) == (split.offset, split.offset + split.length), task.task
    assert not rests, list(rests)


def _check_task(task: Task) -> None:
    state = task.state
    if state is TaskState.DONE and task.winner is not None and not task.attempts:
        return  # Most tasks of a job: the assertions below hold.
    won = state in (TaskState.DONE, TaskState.COMMITTING)
    assert won == (task.winner is not None), task.task
    assert all(attempt.task is task for attempt in task.attempts), task.task
    assert state is not TaskState.RUNNING or task.attempts, task.task
    assert state is TaskState.RUNNING or all(a.state == "killing" for a in task.attempts), task.task
    assert state is not TaskState.UNSTARTED or task.stage.index.holds(task), task.task


def _check_totals(ledger: Ledger) -> None:
    alive = [node for node in ledger.nodes.values() if node.alive]
    assert ledger.map_slots == sum(node.spec.map_slots for node in alive)
    assert ledger.reduce_slots == sum(node.spec.reduce_slots for node in alive)
    assert ledger.live_attempts == sum(len(node.attempts) for node in alive)
    jobs = [*ledger.jobs.values(), *ledger.ended.values()]
    assert ledger.ready_maps == sum(job.maps.ready for job in jobs)
    assert ledger.ready_reduces == (0 if ledger.pooled else sum(job.reduces.ready for job in jobs))
    asking = Counter(stage.demand for job in jobs for stage in job.stages if stage.ready and stage.asks)
    assert not ledger.pooled or ledger.asked == asking
    for kind in TaskKind:
        stages = [stage for job in jobs for stage in job.stages if ledger.pooled or stage.kind is kind]
        for (name, tally_kind), tally in [*ledger.users.items(), *ledger.queues.items()]:
            if tally_kind is kind:
                mine = [stage for stage in stages if stage.user is tally or stage.queue is tally]
                assert tally.running == sum(stage.running for stage in mine), name
                assert tally.killing == sum(stage.killing for stage in mine), name
                assert tally.unstarted == sum(stage.unstarted for stage in mine), name


# The core's state as JSON values for the live display.


def status(ledger: Ledger) -> dict[str, Any]:
    """Return jobs by submission with recently ended ones, nodes by name, and recent decisions but skips."""
    jobs = sorted([*ledger.ended.values(), *ledger.jobs.values()], key=lambda job: job.serial)
    return {
        "jobs": [_job(job) for job in jobs],
        "nodes": [_node(ledger.nodes[name]) for name in sorted(ledger.nodes)],
        "recent": [
            {key: value for key, value in row._asdict().items() if key != "kind"} for row in ledger.recent
        ],
    }


def _job(job: Job) -> dict[str, Any]:
    maps, reduces = job.maps, job.reduces
    return {
        "job": job.job,
        "name": job.spec.name,
        "user": job.user,
        "queue": job.queue,
        "state": job.state.value,
        "maps": maps.total,
        "maps_done": maps.done,
        "maps_running": maps.running,
        "reduces": reduces.total,
        "reduces_done": reduces.done,
        "reduces_running": reduces.running,
        "submit_s": job.submit_s,
        "finish_s": job.finish_s,
        "deadline_s": job.deadline_s,
        "reason": job.reason,
    }


def _node(node: Node) -> dict[str, Any]:
    usage = node.usage
    return {
        "node": node.node,
        "rack": node.rack,
        "state": "alive" if node.alive else "lost",
        "incarnation": node.incarnation,
        "cpu_util": usage.cpu_util,
        "disk_util": usage.disk_util,
        "net_util": usage.net_util,
        "memory_bytes": usage.memory_bytes,
        "map_slots": node.spec.map_slots,
        "reduce_slots": node.spec.reduce_slots,
        "running": list(node.attempts),
    }

"""The scheduler as a state machine without I/O: events go in; replies, table rows and effects come out.

Effects are actions for the driver, such as commits. Heartbeats follow JobTracker.heartbeat of Hadoop MRv1: a
repeated heartbeat receives the same reply, and a node with an unknown incarnation (life of a node) is ordered
to register again. An attempt occupies its slot as soon as the core has made the reply that launches it. The
state is in `scheduler.core.ledger`.
"""

from __future__ import annotations

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
from schedbed.scheduler.core.audit import check_tables
from schedbed.scheduler.core.entities import MAP, REDUCE, Job, Node, Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.records import Commit, Discard, Effect, JobEnded, NodeLost, Sink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.core.states import ASSIGNED, KILLED, KILLING, LOST, RUNNING, TASK_DONE, JobState
from schedbed.scheduler.core.status import status
from schedbed.scheduler.policy import Policy, Speculation
from schedbed.tasks.specs import JobSpec, NodeId, TaskKind, task_of

__all__ = ["Commit", "Core", "CoreConfig", "Discard", "Effect", "JobEnded", "NodeLost", "Sink"]


class Core:
    """The scheduler of one JobTracker, without I/O: each method that takes `now_s` processes one event.

    `now_s` is the time of the event in seconds since the run's start, and never decreases.
    """

    def __init__(self, config: CoreConfig, policy: Policy, sink: Sink, *, seed: int = 0) -> None:
        self.config = config
        self._decide = policy.decide
        self._silence_s = config.silence_s
        self._most_maps, self._most_reduces = config.maps_per_heartbeat, config.reduces_per_heartbeat
        self._heard_s = 0.0  # No live node's last heartbeat was earlier.
        self._on_heartbeat = getattr(policy, "beat", None)
        self._on_tick = getattr(policy, "tick", None)
        self._preempt = getattr(policy, "preempt", None)
        self._speculation: Speculation | None = getattr(policy, "speculation", None)
        self._ledger = Ledger(config, policy, sink, seed)

    @property
    def ledger(self) -> Ledger:
        """Return the object with the core's state. Callers may read it, but not change it."""
        return self._ledger

    # Nodes

    def register(self, now_s: float, node: NodeSpec, incarnation: int) -> None:
        """Register a new or restarted node.

        `incarnation` is the number of the node's life. If it is higher than the known number, all attempts
        and map outputs of the earlier life are lost. A lower number is ignored.
        """
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
        """Mark the node, its attempts and its map outputs as lost.

        A node that is unknown or already lost is ignored.
        """
        self._ledger.now_s = now_s
        known = self._ledger.nodes.get(node)
        if known is not None and known.alive:
            self._lose(known, "node lost")

    def _lose(self, node: Node, reason: str) -> None:
        self._ledger.remove_node(node, reason)
        self._ledger.effects.append(NodeLost(node.node))

    def recovered(self, now_s: float) -> None:
        """Set the last heartbeat time of every live node to `now_s`, after a restart of the JobTracker.

        Otherwise nodes would expire, because no heartbeat could arrive while the JobTracker was down.
        """
        self._ledger.now_s = now_s
        for node in self._ledger.nodes.values():
            if node.alive:
                node.heard_s = now_s

    def tick(self, now_s: float) -> None:
        """Mark nodes without recent heartbeats as lost, and stop attempts that the policy preempts.

        The driver calls this method about once per heartbeat interval.
        """
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
        """Mark the live nodes whose last heartbeat was before `latest_s` as lost.

        The method stores the earliest time of the nodes' last heartbeats. It does nothing if `latest_s` is
        not later than this time.
        """
        if self._heard_s < latest_s:
            for node in self._ledger.nodes.values():
                if node.heard_s < latest_s and node.alive:
                    self._lose(node, "tracker silent")
            heard_s = (node.heard_s for node in self._ledger.nodes.values() if node.alive)
            self._heard_s = min(heard_s, default=latest_s)

    def replicas_changed(self, now_s: float, block: str, hosts: Iterable[NodeId]) -> None:
        """Record that the block now has replicas on the nodes `hosts`.

        Unstarted maps that read the block are then node-local on these nodes.
        """
        self._ledger.now_s = now_s
        self._ledger.move_block(block, tuple(hosts))

    # Jobs

    def submit(self, now_s: float, job: JobSpec) -> None:
        """Add a submitted job. Raises ValueError if a job with this id was submitted before.

        Policies and result tables use `job.submit_s` as the job's submit time, not `now_s`.
        """
        self._ledger.now_s = now_s
        self._ledger.add_job(job)

    def kill_job(self, now_s: float, job: str, reason: str) -> None:
        """End the job in the state killed, and stop its attempts.

        Jobs that are unknown or have ended are ignored.
        """
        self._ledger.now_s = now_s
        known = self._ledger.jobs.get(job)
        if known is not None:
            self._ledger.end_job(known, JobState.KILLED, reason)

    def committed(self, now_s: float, attempt: str) -> None:
        """Process the report that the attempt's output was committed. A repeated call changes nothing."""
        self._ledger.now_s = now_s
        task = self._committing(attempt)
        if task is not None:
            self._ledger.commit_succeeded(task)

    def commit_failed(self, now_s: float, attempt: str, reason: str) -> None:
        """Process the report that the commit of an attempt's output failed.

        The attempt becomes failed, and its task runs again.
        """
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
        """Process a node's heartbeat and return the reply.

        If the heartbeat's sequence number is not new, return the last reply again.
        """
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
        """End the attempts that the node should run, but that the heartbeat does not list as running.

        Attempts that were launched in the reply to the node's previous heartbeat need not be listed yet.
        """
        listed = {status.attempt for status in heartbeat.running}
        for attempt in list(node.attempts.values()):
            if attempt.attempt not in listed and heartbeat.sequence > attempt.sequence + 1:
                if attempt.state is KILLING:
                    self._ledger.end_attempt(attempt, KILLED, attempt.reason)
                    self._ledger.forget_outputs(attempt)
                else:
                    self._ledger.end_attempt(attempt, LOST, "the node does not have it")

    def _discard_stray(self, report: AttemptReport) -> None:
        """Order the driver to delete the output of an attempt that the core does not know as running.

        This happens if a report arrives twice, or if the core has given up the attempt. The output is kept if
        the attempt was the first of its task to succeed. Map outputs for reduces are not deleted by this
        method.
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
        first = len(actions)
        while (ledger.ready_maps if is_map else ledger.ready_reduces) > 0:
            if typed and node.free_slots(kind) <= 0:
                return
            if most and len(actions) - first >= most:
                return
            if ledger.unsettled:
                ledger.settle()
            proposal = decide(ledger, node, kind)
            if proposal is None:
                return
            attempt = ledger.launch(node, kind, proposal)
            task = attempt.task
            actions.append(Launch(attempt.attempt, task.stage.job.job, kind, task.index, task.part))

    def _offer_copies(self, speculation: Speculation, node: Node, actions: list[Action]) -> None:
        """Offer the slots that the policy left free to `speculation`, and launch the copies that it proposes.

        The launches are appended to `actions`.
        """
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
        """Return the jobs, nodes and recent decisions as JSON values for the live display."""
        return status(self._ledger)

    def active_jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended, in order of submission."""
        return list(self._ledger.jobs)

    def all_ended(self) -> bool:
        """Return whether all jobs and all their attempts have ended."""
        return not self._ledger.jobs and not self._ledger.live_attempts

    def state(self) -> dict[str, Any]:
        """Return a dictionary of the attributes that events can change, for a snapshot.

        The values are not copied.
        """
        return {**self._ledger.state(), "heard_s": self._heard_s}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the attributes to the values in `state`, which the method `state` returned before a restart."""
        self._heard_s = state["heard_s"]
        self._ledger.restore(state)

    def forget_block(self, block: str) -> None:
        """Forget where the replicas of a moved block are.

        The caller ensures that all jobs that read the block have ended.
        """
        self._ledger.moved.pop(block, None)

    def check_tables(self) -> None:
        """Raise AssertionError if the core's state is inconsistent.

        The check takes time in proportion to the number of nodes and tasks.
        """
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

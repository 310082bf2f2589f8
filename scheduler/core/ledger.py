"""The core's state (`Ledger`): each change also updates counters and indices. `scheduler.core.core` has the events."""

from __future__ import annotations

from collections.abc import Sequence

from schedbed.cluster.messages import AttemptReport, ForgetJob, Launch, MapOutput
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler import hooks
from schedbed.scheduler import policy as policies
from schedbed.scheduler.core.core_tables import CoreTables, count
from schedbed.scheduler.core.entities import (
    MAP,
    NO_SPLIT,
    REDUCE,
    Attempt,
    Avoidance,
    Feed,
    Job,
    MasterTask,
    Node,
    Stage,
    Task,
)
from schedbed.scheduler.core.rows import Commit, Discard, JobEnded, MasterStarts, job_row
from schedbed.scheduler.core.states import (
    ASSIGNED,
    COMMITTING,
    FAILED,
    JOB_FAILED,
    JOB_RUNNING,
    KILLED,
    KILLING,
    LOST,
    RUNNING,
    SUCCEEDED,
    TASK_COMMITTING,
    TASK_DONE,
    TASK_RUNNING,
    TASK_UNSTARTED,
    AttemptState,
    JobState,
    Tally,
    TaskState,
    step,
)
from schedbed.tasks.errors import DISK_FULL
from schedbed.tasks.parts import cut
from schedbed.tasks.specs import JobSpec, NodeId, Split, TaskKind, task_id

# State changes of whole jobs: submission, start of reduces, loss of map outputs, and the end.

ENDED_KEPT = 1000
"""The number of ended jobs kept for the live display."""


class JobTables(CoreTables):
    """The part of the core's state for submission, completion and changes of jobs."""

    def add_job(self, spec: JobSpec) -> None:
        """Add a job. Raises ValueError for a known id, or splits not numbered 0, 1, 2 and so on."""
        if spec.job in self.used_ids:
            raise ValueError(f"job {spec.job} was submitted before")
        splits = list(spec.splits)
        if any(split.index != place for place, split in enumerate(splits)):
            raise ValueError(f"job {spec.job}: splits must be numbered from 0 without gaps")
        avoidance = Avoidance(self._node_failures)
        job = Job(spec, self.submissions, self.rack_by_node, avoidance, self._master)
        self.used_ids.add(spec.job)
        self.submissions += 1
        self.jobs[spec.job] = job
        for stage in job.stages:
            kind = MAP if self.pooled else stage.kind
            stage.user = self._tally(self.users, spec.user, kind)
            stage.queue = self._tally(self.queues, spec.queue, kind)
            if stage is job.master:
                stage.tasks = [MasterTask(stage, 0, f"{spec.job}_a_000000", NO_SPLIT)]
                stage.index.fill(stage.tasks)
            else:
                self._make_tasks(stage, splits if stage is job.maps else [NO_SPLIT] * stage.total)
                stage.hidden = stage.total if self.pooled else 0
            count(stage, 0, stage.total - stage.hidden)
        if self._on_submitted is not None:
            self._on_submitted(self, job)
        self._open_reduces(job)
        for stage in job.stages:
            self._changed(stage)
        self._end_if_done(job)

    @staticmethod
    def _tally(tallies: dict[tuple[str, TaskKind], Tally], name: str, kind: TaskKind) -> Tally:
        tally = tallies.get((name, kind))
        if tally is None:
            tally = tallies[name, kind] = Tally(name)
        return tally

    def _make_tasks(self, stage: Stage, splits: Sequence[Split]) -> None:
        prefix = task_id(stage.job.spec.job, stage.kind, 0)[:-6]
        stage.tasks = [
            Task(stage, index, f"{prefix}{index:06d}", split) for index, split in enumerate(splits)
        ]
        for task in stage.tasks if self.moved else ():
            task.hosts = self.moved.get(task.split.block or "", task.hosts)
        stage.index.fill(stage.tasks)

    def split_task(self, task: Task, share: float) -> Task:
        """Divide a map: it keeps the first `share` of the bytes. Return a task with the remaining bytes."""
        stage = task.stage
        job = stage.job
        parts = cut(task.split, share)
        assert parts is not None, task.task
        rest = Task(stage, stage.total, task_id(job.job, MAP, stage.total), task.split)
        task.be(parts[0])
        rest.be(parts[1])
        rest.move(task.hosts)
        stage.tasks.append(rest)
        stage.total += 1
        stage.index.add(rest)
        if job.blocks is not None and rest.split.block is not None:
            job.blocks.setdefault(rest.split.block, []).append(rest)
        count(stage, 0, 1)
        self._changed(stage)
        self._open_reduces(job)
        return rest

    def _open_reduces(self, job: Job) -> None:
        reduces = job.reduces
        if reduces.total:
            opened = self.pooled or job.maps.done >= self._slowstart * job.maps.total
            if opened is not reduces.open:
                reduces.open = opened
                self._changed(reduces)

    def _end_if_done(self, job: Job) -> None:
        last = job.reduces if job.reduces.total else job.maps
        if last.done == last.total:
            self.end_job(job, JobState.SUCCEEDED, "")

    def end_job(self, job: Job, state: JobState, reason: str) -> None:
        """End the job in the final state `state`, and kill its running attempts."""
        job.state = step(job.job, job.state, state)
        job.reason = reason
        job.finish_s = self.now_s
        del self.jobs[job.job]
        self.avoiding.pop(job, None)
        self._keep_ended(job)
        committing = [task for task in self.committing.values() if task.stage.job is job]
        for task in sorted(committing, key=lambda task: task.index):
            self._commit_ended(task, AttemptState.KILLED, f"job {state}")
        for stage in job.stages:
            count(stage, 0, -stage.unstarted)
            stage.excess = stage.hidden = 0
            self._changed(stage)
        for attempt in list(job.attempts.values()):
            if attempt.task.stage is job.master:
                continue  # The driver releases it.
            if attempt.task.is_empty:
                self.release_empty(attempt)
            else:
                self.kill(attempt, f"job {state}")
        for name in job.nodes:
            node = self.nodes[name]
            if node.alive:
                node.feeds.pop(job.job, None)
                node.outbox.append(ForgetJob(job=job.job))
        if self._writes_ends:
            self._sink.job(job_row(job))
        self.effects.append(JobEnded(job.job, state.value, reason))
        if self._on_finished is not None:
            self._on_finished(self, job)
        job.release()

    def release_empty(self, attempt: Attempt) -> None:
        """End an attempt of an empty task."""
        attempt.end_s, attempt.reason = self.now_s, "no task was left for it"
        self._release(attempt, LOST)  # As released containers in YARN, not killed ones.
        self._record(attempt)

    def _keep_ended(self, job: Job) -> None:
        self.ended[job.job] = job
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            if self.ended[oldest].attempts:  # Attempts being killed still count.
                return
            del self.ended[oldest]

    def lose_output(self, task: Task) -> None:
        """Record that a finished map's output is lost, inform the job's reduces, and run the map again."""
        winner = task.winner
        assert winner is not None
        job = task.stage.job
        output = MapOutput(task.index, winner.attempt, winner.node.node, lost=True, after=task.after)
        job.outputs.append(output)
        task.winner = None
        task.stage.done -= 1
        self._run_again(task)
        self._open_reduces(job)

    def _index_racks(self, host: NodeId) -> None:
        """Index maps by the rack of `host`, which is known since its registration."""
        for job in self.jobs.values():
            near = [task for task in job.maps.tasks if host in task.hosts]
            job.wholes = None
            for task in near:
                task.move(task.hosts)
            for task in near:
                job.maps.index.add_racks(task)

    def move_block(self, block: str, hosts: tuple[NodeId, ...]) -> None:
        """Record that the block's replicas are now on the nodes `hosts`, for maps of known and later jobs."""
        self.moved[block] = hosts
        for job in self.jobs.values():
            if job.blocks is None:
                job.blocks = {}
                for task in job.maps.tasks:
                    if task.split.block is not None:
                        job.blocks.setdefault(task.split.block, []).append(task)
            for task in job.blocks.get(block, ()):
                job.wholes = None
                task.move(hosts)
                if task.state is TaskState.UNSTARTED:
                    job.maps.index.add(task)


# Commit once
#
# Several attempts of one task may succeed: a speculative copy, or an attempt on a node that was lost and
# came back. The output must appear once. Each attempt therefore writes into a folder of its own, and the
# ledger names one winner: the first attempt whose success is reported while the task is still running. At
# this moment the task leaves the state RUNNING, so that each later success is "superseded" and its attempt
# counts as killed.
#
# The output of a map stays on its node, so the map is done at once. It can be lost with the node: then the
# task runs again, and reduces learn the new place. All other output goes to the NameNode, and the rename of
# the winner's folder is an effect outside of the core, which may fail or be interrupted. The task waits in
# the state COMMITTING for the answer. A rename that is requested twice after a crash finds the folder
# renamed and changes nothing; one that fails makes the attempt a failed one, and the task runs again.


class Ledger(JobTables):
    """The complete state of the core: adds the changes of nodes and attempts to those of jobs."""

    def add_node(self, spec: NodeSpec, incarnation: int) -> None:
        """Add a node that registered. The caller must have removed an earlier incarnation of the node."""
        self.note_disk(spec.node, full=False)
        node = Node(spec, incarnation, self.now_s)
        self.nodes[spec.node] = node
        self.map_slots += spec.map_slots
        self.reduce_slots += spec.reduce_slots
        if self.rack_by_node.get(spec.node) != spec.rack:
            self.rack_by_node[spec.node] = spec.rack
            self._index_racks(spec.node)

    def remove_node(self, node: Node, reason: str) -> None:
        """Remove a node, for the given reason, and mark its attempts and the map outputs on it as lost."""
        node.alive = False
        self.map_slots -= node.spec.map_slots
        self.reduce_slots -= node.spec.reduce_slots
        for attempt in list(node.attempts.values()):
            if attempt.attempt in node.attempts:  # A lost master releases containers.
                self.end_attempt(attempt, LOST, reason)
        for job in self.jobs.values():
            if node.node in job.nodes and job.reduces.total:
                self._lose_outputs(job, node)
        node.feeds = {}
        node.outbox = []

    def note_disk(self, node: NodeId, *, full: bool) -> None:
        """Record whether a disk is full. If it is not, jobs that avoided the node for it may return."""
        known = self.nodes.get(node)
        if known is not None:
            known.disk_full = full
        for job in () if full else list(self.avoiding):
            job.avoidance.freed(node)
            self._avoids_now(job)

    def launch(self, node: Node, kind: TaskKind, proposal: hooks.Proposal) -> Attempt:
        """Launch a task. Raises PolicyError if the proposal cannot be carried out."""
        task = proposal.task
        if not isinstance(task, Task) or task.stage.job.state is not JOB_RUNNING:
            raise policies.PolicyError(f"{task!r} is not a task of a running job")
        fault = None if proposal is self._possible else self.why_not(node, kind, task, proposal)
        self._possible = None
        if fault is not None:
            raise policies.PolicyError(f"{task.task} on {node.node} at {self.now_s:.3f} s: {fault}")
        stage = task.stage
        job = stage.job
        attempt = Attempt(f"{task.task}_{task.tries}", task, node, self.now_s, self.launches)
        if node.node in task.hosts:
            attempt.locality = "node"
        elif task.hosts and node.rack in task.racks:
            attempt.locality = "rack"
        self.launches += 1
        self.live_attempts += 1
        task.tries += 1
        task.attempts += (attempt,)
        task.state = TASK_RUNNING  # From UNSTARTED, or RUNNING for a copy; checked above.
        job.attempts[attempt.attempt] = attempt
        if job.start_s is None:
            job.start_s = self.now_s
        job.nodes[node.node] = None
        stage.said, stage.launched_s = None, self.now_s
        node.hold(attempt, stage)
        if stage is job.master:
            self.effects.append(MasterStarts(job.job, attempt.attempt))
        if stage.kind is REDUCE:
            self._feed(node, job).reduces += 1
        if proposal.speculative:
            attempt.speculative = True
            count(stage, 1, 0)
        else:
            count(stage, 1, -1)
            stage.grants += not task.is_empty
            if task.failed_on:
                self._retried(task)
            if stage.excess:
                stage.excess -= task.is_empty
                self._place_empty(stage)
        if proposal.split is None:
            self._decided(node.node, task, "launch", proposal.reason)
        else:
            rest = self.split_task(task, proposal.split)
            self._decided(node.node, task, "split", f"{proposal.reason}; the rest is {rest.task}")
        if not stage.unstarted or self._on_changed is not None:
            self._changed(stage)
        return attempt

    def _retried(self, task: Task) -> None:
        """Note that a failed task runs again, so that its job has less reason to avoid nodes."""
        job = task.stage.job
        for node in task.failed_on:
            job.avoidance.started(node, task.stage.kind)
        self._avoids_now(job)

    def why_not(self, node: Node, kind: TaskKind, task: Task, proposal: hooks.Proposal) -> str | None:
        """Return why a proposal cannot be launched. If None, `launch` does not check it again."""
        fault = self._fault(node, kind, task, proposal.speculative)
        if fault is None and proposal.split is not None:
            fault = self._uncut(task, proposal)
        self._possible = proposal if fault is None else None
        return fault

    @staticmethod
    def _feed(node: Node, job: Job) -> Feed:
        feed = node.feeds.get(job.job)
        if feed is None:
            feed = node.feeds[job.job] = Feed(job)
        return feed

    @staticmethod
    def _uncut(task: Task, proposal: hooks.Proposal) -> str | None:
        """Return the reason why the task cannot be split as proposed, or None if it can be split."""
        share, split = proposal.split, task.split
        assert share is not None
        if not task.stage.shuffled or not task.hosts:
            return "only maps with input whose output goes to reduces can be split"
        if task.part is not None:
            return "it is a part already"
        if task.tries or proposal.speculative:
            return "it was tried as a whole, so its output may have been read"
        if cut(split, share) is None:
            return f"{share} of {split.length} bytes leaves a part without any"
        return None

    def _fault(self, node: Node, kind: TaskKind, task: Task, copy: bool) -> str | None:
        stage = task.stage
        if stage.kind is not kind and not self.pooled:
            return f"a {stage.label} was proposed where a {kind.value} was asked for"
        if copy:
            if task.state is not TASK_RUNNING:
                return f"the task is {task.state}, so there is nothing to copy"
            if any(attempt.node is node for attempt in task.attempts):
                return "it runs there already"
        elif task.state is not TASK_UNSTARTED:
            return f"the task is {task.state}, not unstarted"
        if not stage.open:
            return "its reduces may not start yet"
        limits = self.limits
        if not limits.slots or limits.memory or limits.vcores or node.free_slots(kind) <= 0:
            lack = self._lack(node, stage)
            if lack is not None:
                return lack
        if stage.job.excluded and stage is not stage.job.master and self.avoids(stage.job, node, stage.kind):
            return "the job avoids the node after failures there"
        return None

    def preempt(self, proposal: hooks.Kill | hooks.TimeOut) -> None:
        """Kill an attempt or end a job. Raises PolicyError if it has ended, or the attempt is being killed."""
        if isinstance(proposal, hooks.TimeOut):
            self._time_out(proposal)
            return
        attempt = proposal.attempt
        if not isinstance(attempt, Attempt) or attempt.state not in (
            ASSIGNED,
            RUNNING,
        ):
            raise policies.PolicyError(f"{attempt.attempt} is {attempt.state}, it cannot be pre-empted")
        if attempt.task.stage is attempt.task.job.master:
            return  # Its job would begin again. YARN's schedulers take masters last of all.
        self._decided(attempt.node.node, attempt.task, "kill", proposal.reason)
        self.kill(attempt, proposal.reason)

    def _time_out(self, proposal: hooks.TimeOut) -> None:
        job = proposal.job
        if not isinstance(job, Job) or not job.active:
            raise policies.PolicyError(f"{job.job} is {job.state}, it cannot time out")
        for attempt in job.attempts.values():
            if attempt.state is not KILLING and attempt.task.stage is not job.master:
                self._decided(attempt.node.node, attempt.task, "kill", proposal.reason)
        self.end_job(job, JobState.TIMEOUT, proposal.reason)

    def reported(self, attempt: Attempt, report: AttemptReport) -> None:
        """Process the end of an attempt, as described by the node's report (state, times and counters)."""
        attempt.counters = report.counters
        attempt.started_s = report.start_s
        attempt.end_s = report.end_s
        if report.state == "succeeded":
            self._succeeded(attempt)
        elif report.state == "failed" and attempt.state is not KILLING:
            self.end_attempt(attempt, FAILED, report.reason)
        else:
            self.end_attempt(attempt, KILLED, attempt.reason or report.reason)

    def _succeeded(self, attempt: Attempt) -> None:
        task = attempt.task
        job = task.stage.job
        if job.state is not JOB_RUNNING:
            self.end_attempt(attempt, KILLED, attempt.reason or f"job {job.state}")
            self.forget_outputs(attempt)
        elif task.state is not TASK_RUNNING:
            self.end_attempt(attempt, KILLED, "superseded")
        elif task.stage.shuffled:
            self._map_done(attempt)
        else:
            self._commit(attempt)

    def _map_done(self, attempt: Attempt) -> None:
        task, node = attempt.task, attempt.node
        job = task.stage.job
        task.winner = attempt
        task.fetch_failures = 0
        task.state = TASK_DONE  # From RUNNING; checked in `_succeeded`.
        task.stage.done += 1
        output = MapOutput(task.index, attempt.attempt, node.node)
        if task.part is not None:
            output = MapOutput(task.index, attempt.attempt, node.node, after=task.after)
        job.outputs.append(output)
        attempt.reason = ""
        self._release(attempt, SUCCEEDED)
        self._record(attempt)
        if task.attempts:
            self._kill_others(task)
        self._open_reduces(job)

    @staticmethod
    def forget_outputs(attempt: Attempt) -> None:
        """Repeat the order to delete an ended job's map outputs, which the attempt may have written since."""
        stage = attempt.task.stage
        if stage.shuffled and not stage.job.active:
            attempt.node.outbox.append(ForgetJob(job=stage.job.job))

    def _lose_outputs(self, job: Job, node: Node) -> None:
        """Mark the job's map outputs on the node as lost, in the order in which the maps had ended."""
        for output in list(job.outputs):
            if output.node == node.node and not output.lost:
                task = job.maps.tasks[output.index]
                winner = task.winner
                if winner is not None and winner.attempt == output.attempt and winner.node is node:
                    self.lose_output(task)

    def _commit(self, attempt: Attempt) -> None:
        task = attempt.task
        task.winner = attempt
        self.committing[attempt.attempt] = task
        task.state = step(task.task, task.state, TASK_COMMITTING)
        self._release(attempt, COMMITTING)
        self._kill_others(task)
        self.effects.append(Commit(task.stage.job.job, task.task, attempt.attempt, task.index))

    @staticmethod
    def _others(task: Task) -> list[Attempt]:
        return [attempt for attempt in task.attempts if attempt.state is not AttemptState.KILLING]

    def _kill_others(self, task: Task) -> None:
        for other in self._others(task):
            self.kill(other, "superseded")

    def commit_succeeded(self, task: Task) -> None:
        """Mark the task as done, because its output was committed. If it is the last task, end the job."""
        winner = task.winner
        assert winner is not None
        job = task.stage.job
        task.state = step(task.task, task.state, TASK_DONE)
        task.stage.done += 1
        job.output_bytes += winner.counters.output_bytes
        self._commit_ended(task, SUCCEEDED, "")
        self._changed(task.stage)
        self._end_if_done(job)

    def commit_failed(self, task: Task, reason: str) -> None:
        """Mark the task's attempt whose output could not be committed as failed, and run the task again."""
        winner, job = task.winner, task.stage.job
        assert winner is not None
        self._commit_ended(task, FAILED, reason)
        task.winner = None
        self._failed(winner)
        if job.active:
            self._run_again(task)

    def end_attempt(self, attempt: Attempt, state: AttemptState, reason: str) -> None:
        """Set the final state of an attempt. Its task runs again unless another attempt runs."""
        task = attempt.task
        job = task.stage.job
        attempt.reason = reason
        if state is LOST:
            attempt.end_s = self.now_s
        self._release(attempt, state)
        self._record(attempt)
        if task.stage is job.master and job.active:
            self._lose_master(job, task)
        if task.is_empty:
            return
        if not task.stage.shuffled:
            self.effects.append(Discard(job.job, attempt.attempt))
        if not job.active:
            return
        if state is FAILED:
            self._failed(attempt)
        if job.active and task.state is TASK_RUNNING and not task.attempts:
            self._run_again(task)

    def _lose_master(self, job: Job, task: Task) -> None:
        """Ask for another master, which starts the tasks that are not done (RMAppAttemptImpl, Hadoop 3.4.1).

        The attempts that run are stopped, and nothing is asked for until the new master does.
        """
        for attempt in list(job.attempts.values()):
            if attempt.task.is_empty:
                self.release_empty(attempt)
            else:
                self.kill(attempt, "its ApplicationMaster was lost")
        for stage in (job.maps, job.reduces):
            self.ask(stage, 0)
        self._run_again(task)

    def run_inside(self, job: Job) -> None:
        """Start the next task of a job whose tasks run inside its master, one after the other (uber mode).

        Source: LocalContainerLauncher, Hadoop 3.4.1. The order goes to the master's node with its next reply.
        """
        running = [attempt for attempt in job.attempts.values() if attempt.task.stage is not job.master]
        stage = job.reduces if job.maps_all_done else job.maps
        task = stage.index.first()
        if not running and task is not None and job.master is not None:
            node = job.master.tasks[0].attempts[0].node
            self.ask(stage, stage.unstarted + 1)
            self._possible = hooks.Proposal(task, "inside the ApplicationMaster")
            launched = self.launch(node, stage.kind, self._possible)
            node.outbox.append(Launch(launched.attempt, job.job, stage.kind, task.index, task.part))

    def _failed(self, attempt: Attempt) -> None:
        task = attempt.task
        job, node = task.stage.job, attempt.node
        task.failures += 1
        if node.node not in task.failed_on:
            task.failed_on += (node.node,)
        job.avoidance.failed(node.node, disk_full=node.disk_full and attempt.reason == DISK_FULL)
        self._avoids_now(job)
        if task.failures >= self._max_attempts:
            reason = f"{task.task} failed {task.failures} times; the last: {attempt.reason}"
            self.end_job(job, JOB_FAILED, reason)

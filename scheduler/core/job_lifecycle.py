"""State changes of whole jobs: submission, start of reduces, loss of map outputs, and the end."""

from __future__ import annotations

from collections.abc import Sequence

from schedbed.cluster.messages import ForgetJob, MapOutput
from schedbed.scheduler.core.avoidance import Avoidance
from schedbed.scheduler.core.core_tables import CoreTables, count
from schedbed.scheduler.core.entities import MAP, NO_SPLIT, Job, Stage, Task
from schedbed.scheduler.core.records import JobEnded
from schedbed.scheduler.core.rows import job_row
from schedbed.scheduler.core.states import AttemptState, JobState, TaskState, step
from schedbed.scheduler.core.tallies import Tally
from schedbed.tasks.parts import cut
from schedbed.tasks.specs import JobSpec, NodeId, Split, TaskKind, task_id

ENDED_KEPT = 1000
"""The number of ended jobs kept for the live display."""


class JobTables(CoreTables):
    """The part of the core's state that processes the submission, completion and changes of jobs.

    The subclass `Ledger` adds the state changes of nodes and attempts.
    """

    def add_job(self, spec: JobSpec) -> None:
        """Add a submitted job and make its tasks.

        Raises ValueError if the job id is not new, or if the splits are not numbered 0, 1, 2 and so on.
        """
        if spec.job in self.used_ids:
            raise ValueError(f"job {spec.job} was submitted before")
        splits = list(spec.splits)
        if any(split.index != place for place, split in enumerate(splits)):
            raise ValueError(f"job {spec.job}: splits must be numbered from 0 without gaps")
        job = Job(spec, self.submissions, self.rack_by_node, Avoidance(self._node_failures))
        self.used_ids.add(spec.job)
        self.submissions += 1
        self.jobs[spec.job] = job
        for stage in (job.maps, job.reduces):
            stage.user = self._tally(self.users, spec.user, stage.kind)
            stage.queue = self._tally(self.queues, spec.queue, stage.kind)
            self._make_tasks(stage, splits if stage is job.maps else [NO_SPLIT] * spec.reduces)
            count(stage, 0, stage.total)
        if self._on_submitted is not None:
            self._on_submitted(self, job)
        self._open_reduces(job)
        self._changed(job.maps)
        self._changed(job.reduces)
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
        """Divide a map into two tasks and return the second one.

        The given task keeps the first `share` (0 to 1) of the bytes; the new task reads the remaining bytes.
        """
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
            opened = job.maps.done >= self._slowstart * job.maps.total
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
        for stage in (job.maps, job.reduces):
            count(stage, 0, -stage.unstarted)
            self._changed(stage)
        for attempt in list(job.attempts.values()):
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
        """Add the maps with input on the node `host` to the indices of maps by rack.

        This method is called when `host` registers, because its rack was unknown before.
        """
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

"""The JobTracker, live: feeds the pure core with events, journals them first, and does what the core asks for.

A plain asyncio class without threads; the launcher makes a Ray actor of it. After a crash it replays its
journal and goes on; its trackers notice nothing but a late answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import Answer, MasterGone, NameNodeDoor
from schedbed.cluster.messages import Heartbeat, Launch
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.records import Commit, Discard, Effect, JobEnded, NodeLost
from schedbed.scheduler.journal import Journal
from schedbed.scheduler.policies.explained import report_of
from schedbed.scheduler.policies.keeper_choice import keeping_of
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import AttemptSpec, BlockRange, JobSpec, Split, TaskKind, task_id

log = logging.getLogger(__name__)

RETRY_S = 0.2
FOLLOW_BLOCKS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run will submit: jobs by submit time, and the blocks of every input file."""

    jobs: tuple[JobSpec, ...]
    files: Mapping[str, tuple[BlockRange, ...]]


class Recorder:
    """The core's sink: keeps each row until the driver has fetched it. Rows are numbered from the run's start."""

    TABLES: tuple[str, ...] = ("jobs", "attempts", "decisions", "heartbeats")

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in self.TABLES}
        self._dropped = dict.fromkeys(self.TABLES, 0)

    def decision(self, row: tuple[Any, ...]) -> None:
        """An offer and its answer."""
        self._rows["decisions"].append(row)

    def attempt(self, row: tuple[Any, ...]) -> None:
        """An attempt that ended."""
        self._rows["attempts"].append(row)

    def job(self, row: tuple[Any, ...]) -> None:
        """A job that ended."""
        self._rows["jobs"].append(row)

    def heartbeat(self, row: tuple[Any, ...]) -> None:
        """A heartbeat that was served."""
        self._rows["heartbeats"].append(row)

    def fetch(self, cursors: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
        """The rows from each table's cursor on; those before it are dropped for good."""
        for table, rows in self._rows.items():
            done = cursors.get(table, 0) - self._dropped[table]
            if done > 0:
                del rows[:done]
                self._dropped[table] += done
        return {table: list(rows) for table, rows in self._rows.items()}


class JobTracker:
    """One run's JobTracker. `make_policy` gives a fresh policy, so that a replay starts from nothing."""

    def __init__(
        self,
        cluster: ClusterSpec,
        make_policy: Callable[[], Policy],
        name_node: NameNodeDoor,
        *,
        epoch_s: float,
        seed: int,
        journal: Path,
    ) -> None:
        self._cluster = cluster
        self._clock = RunClock(epoch_s)
        self._name_node = name_node
        self._seed = seed
        self._recorder = Recorder()
        config = CoreConfig(heartbeat_s=cluster.heartbeat_s)
        self._policy = make_policy()
        self._keeping = keeping_of(self._policy, cluster.blocks)
        self._core = Core(config, self._policy, self._recorder, seed=seed)
        self._files: dict[str, tuple[BlockRange, ...]] = {}
        self._jobs: dict[str, JobSpec] = {}
        self._waiting: list[JobSpec] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: str | None = None
        self._keeps_time = False
        self._journal = Journal(journal)
        self._unfinished = self._replay()

    # --------------------------------------------------------------- journal

    def _replay(self) -> list[Effect]:
        """Brings the core back to where the journal ends; returns the effects that may not have been done."""
        effects: dict[str, Effect] = {}
        for now_s, kind, arguments in self._journal.events():
            self._apply(now_s, kind, arguments)
            if kind == "committed":
                effects.pop(arguments[0], None)
            elif kind == "register":  # a node that is back holds blocks again
                effects.pop(repr(NodeLost(arguments[0].node)), None)
            for effect in self._core.take_effects():
                effects[getattr(effect, "attempt", repr(effect))] = effect
        return list(effects.values())

    def _apply(self, now_s: float, kind: str, arguments: tuple[Any, ...]) -> Any:
        if kind == "plan":
            return self._take_plan(*arguments)
        if kind == "add":
            return self._add_to_plan(now_s, *arguments)
        if kind == "submit":
            due = next(place for place, job in enumerate(self._waiting) if job.job == arguments[0].job)
            del self._waiting[due]
        if kind == "heartbeat":
            return self._serve(now_s, *arguments)
        if kind == "replicas_changed":
            self._move_block(*arguments)
        return getattr(self._core, kind)(now_s, *arguments)

    def _do(self, kind: str, *arguments: Any) -> Any:
        """Journals an event, applies it, and sets off what the core asks for."""
        if self._failure is not None:
            return None
        now_s = self._clock.now_s()
        self._journal.append(now_s, kind, *arguments)
        try:
            return self._apply(now_s, kind, arguments)
        except Exception as error:
            log.exception("the core failed at %s", kind)
            self._failure = f"{type(error).__name__}: {error}"
            return None
        finally:
            self._set_off(self._core.take_effects())

    # --------------------------------------------------------------- methods

    async def start(self, plan: Plan | None = None) -> None:
        """Begins the run (with its plan) or goes on with it (without, after a restart)."""
        if plan is not None:
            self._do("plan", plan)
        self._set_off(self._unfinished)
        self._unfinished = []
        if not self._keeps_time:
            self._keeps_time = True
            self._spawn(self._keep_time())
            self._spawn(self._follow_blocks())

    async def submit(self, plan: Plan) -> dict[str, float]:
        """More jobs while the run goes on, their times counted from now; their submit times by job, in seconds since
        the run's start. A job that is known already is left as it is, so that the call may be repeated.
        """
        if any(job.job not in self._jobs for job in plan.jobs):
            self._do("add", plan)
        if self._failure is not None:
            raise MasterGone("the run has failed")
        self._submit_due()
        return {job.job: self._jobs[job.job].submit_s for job in plan.jobs}

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Ends these jobs, or all, those that still wait for their time too; nothing for what is over or unknown."""
        for job in [job for job in self._waiting if jobs is None or job.job in jobs]:
            self._do("submit", job)
        for name in self._core.active_jobs() if jobs is None else jobs:
            self._do("kill_job", name, reason)

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """A node begins a life."""
        self._do("register", node, incarnation)

    async def heartbeat(self, beat: Heartbeat) -> Answer:
        """Serves a heartbeat: what the node must do, with the attempts' specifications."""
        self._submit_due()
        reply = self._do("heartbeat", beat)
        if reply is None:
            raise MasterGone("the run has failed")
        specs = {
            action.attempt: self._attempt_spec(action).to_json()
            for action in reply.actions
            if isinstance(action, Launch)
        }
        return Answer(reply=reply, specs=specs)

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """For the driver: the status, rows since the cursors, whether all jobs have ended, and a fatal error if any.

        Once they have ended, the policy's own report comes with it.
        """
        status = self._core.status()
        ended = not self._waiting and self._core.all_ended()
        return {
            "status": {**status, "now_s": self._clock.now_s()},
            "rows": self._recorder.fetch(cursors),
            "ended": ended,
            "report": report_of(self._policy) if ended else {},
            "failure": self._failure,
        }

    async def stop(self) -> None:
        """Ends the background work; the journal stays."""
        for task in list(self._tasks):
            task.cancel()
        self._journal.close()

    # ------------------------------------------------------------- internals

    def _take_plan(self, plan: Plan) -> None:
        self._files = dict(plan.files)
        self._jobs = {job.job: job for job in plan.jobs}
        self._waiting = sorted(plan.jobs, key=lambda job: (job.submit_s, job.job))

    def _add_to_plan(self, now_s: float, plan: Plan) -> None:
        self._files |= plan.files
        for job in plan.jobs:
            if job.job not in self._jobs:
                due_s = None if job.deadline_s is None else now_s + job.deadline_s
                self._jobs[job.job] = replace(job, submit_s=now_s + job.submit_s, deadline_s=due_s)
                self._waiting.append(self._jobs[job.job])
        self._waiting.sort(key=lambda job: (job.submit_s, job.job))

    def _move_block(self, block: str, nodes: tuple[str, ...]) -> None:
        """Later attempts are told the block's new replicas."""
        for name, blocks in self._files.items():
            if any(known.block == block for known in blocks):
                self._files[name] = tuple(
                    replace(known, nodes=nodes) if known.block == block else known for known in blocks
                )

    def _submit_due(self) -> None:
        """Submits the jobs whose time has come. A heartbeat does it first: nothing can start between two anyway."""
        while self._failure is None and self._waiting and self._waiting[0].submit_s <= self._clock.now_s():
            self._do("submit", self._waiting[0])

    def _serve(self, now_s: float, beat: Heartbeat) -> Any:
        started_s = time.perf_counter()
        reply = self._core.heartbeat(now_s, beat)
        service_s = time.perf_counter() - started_s
        maps = sum(1 for status in beat.running if "_m_" in status.attempt)
        usage = beat.usage
        self._recorder.heartbeat(
            (
                now_s,
                beat.node,
                maps,
                len(beat.running) - maps,
                usage.cpu_util,
                usage.disk_util,
                usage.net_util,
                usage.memory_bytes,
                service_s,
            )
        )
        return reply

    def _attempt_spec(self, launch: Launch) -> AttemptSpec:
        job = self._jobs[launch.job]
        is_map = launch.kind is TaskKind.MAP
        demand, costs = (job.map_demand, job.map_costs) if is_map else (job.reduce_demand, job.reduce_costs)
        writes_file = not is_map or job.reduces == 0
        blocks = self._cluster.blocks
        spec: dict[str, Any] = {
            "attempt": launch.attempt,
            "task": task_id(job.job, launch.kind, launch.index),
            "job": job.job,
            "kind": launch.kind,
            "index": launch.index,
            "app": job.app,
            "params": dict(job.params),
            "seed": self._seed,
            "maps": job.maps,
            "reduces": job.reduces,
            "memory_bytes": demand.memory_bytes,
            "output": f"/out/{job.job}/_temporary/{launch.attempt}" if writes_file else None,
            "replication": blocks.replication,
            "block_bytes": blocks.size_bytes,
        }
        part = launch.part
        cost = costs[launch.index if part is None else part.whole.index] if costs else None
        spec["cost"] = part.cost(cost) if part is not None and cost is not None else cost
        if is_map:
            spec |= self._input_of(job.splits[launch.index] if part is None else part.split(launch.index))
            if self._keeping is not None and self._keeping.asks(self._seed, launch.attempt):
                spec["keep_budget"] = self._keeping.budget
        return AttemptSpec(**spec)

    def _input_of(self, split: Split) -> dict[str, Any]:
        """The split of a map with the blocks it may touch: the one before, its own, the next."""
        if split.file is None:
            return {"offset": split.offset, "length": split.length}
        blocks = self._files[split.file]
        end = split.offset + split.length
        near = [
            number
            for number, block in enumerate(blocks)
            if block.offset < end and block.offset + block.length > split.offset
        ]
        low, high = (max(0, near[0] - 1), near[-1] + 2) if near else (0, 0)
        last = blocks[-1] if blocks else None
        return {
            "file": split.file,
            "offset": split.offset,
            "length": split.length,
            "file_length": last.offset + last.length if last else 0,
            "blocks": tuple(blocks[low:high]),
        }

    def _set_off(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    self._spawn(self._commit(effect))
                case Discard():
                    self._spawn(self._drop(f"/out/{effect.job}/_temporary/{effect.attempt}"))
                case NodeLost():
                    self._spawn(self._until_heard(partial(self._name_node.node_lost, effect.node)))
                case JobEnded():
                    self._spawn(self._drop(f"/out/{effect.job}/_temporary"))

    async def _commit(self, effect: Commit) -> None:
        source = f"/out/{effect.job}/_temporary/{effect.attempt}"
        try:
            target = f"/out/{effect.job}/part-{effect.index:05d}"
            await self._until_heard(partial(self._name_node.rename, source, target))
        except Exception as error:
            self._do("commit_failed", effect.attempt, f"commit failed: {error}")
        else:
            self._do("committed", effect.attempt)

    async def _drop(self, path: str) -> None:
        """Deletes what was written aside, for good: an attempt that was given up may still run and write on."""
        await self._until_heard(partial(self._name_node.delete, path, recursive=True, for_good=True))

    async def _until_heard(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Call the NameNode until the call is answered."""
        while True:
            try:
                await call()
                return
            except MasterGone:
                await asyncio.sleep(RETRY_S)

    async def _keep_time(self) -> None:
        """Silent trackers expire, shares are enforced, and jobs come in even while no node beats."""
        while True:
            await asyncio.sleep(self._cluster.heartbeat_s)
            self._submit_due()
            self._do("tick")

    async def _follow_blocks(self) -> None:
        """Keeps the locality index in step with replication."""
        while True:
            await asyncio.sleep(FOLLOW_BLOCKS_S)
            with contextlib.suppress(MasterGone):
                for block, nodes in await self._name_node.take_replica_changes():
                    self._do("replicas_changed", block, tuple(nodes))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

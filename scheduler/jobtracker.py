"""The live JobTracker: passes events with the time to the pure driver and executes its effects.

An asyncio class without threads, which the launcher makes a Ray actor. It continues from its journal after a
crash, which nodes notice only as a late reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import Answer, MasterGone, NameNodeDoor
from schedbed.cluster.messages import Action, Heartbeat, Launch, Reply
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.scheduler.assignment import aside, attempt_spec
from schedbed.scheduler.block_reads import reads_of
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.rows import AttemptRow, Commit, Discard, Effect, JobEnded, JobRow, NodeLost
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.framework import NONE, Framework
from schedbed.scheduler.framework_steps import CleanUps
from schedbed.scheduler.guard.call_record import CALL_RECORD, LAST_CALL, LAST_WORDS, kept_mark, no_short_life
from schedbed.scheduler.guard.kept_open import KeptOpen
from schedbed.scheduler.guard.read_only import check_untouched
from schedbed.scheduler.guard.time_bound import TIME_BOUND, no_tick
from schedbed.scheduler.journal import Journal
from schedbed.scheduler.live_framework import LiveFramework
from schedbed.scheduler.policies.keeper_choice import keeping_of
from schedbed.scheduler.policy import HostedPolicy, Policy, PolicyFailed
from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.specs import AttemptSpec, NodeId

log = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_S = 0.2
FOLLOW_BLOCKS_S = 1.0
STEPS_S = 0.02  # Between two looks for heartbeats of ApplicationMasters and ends of set-up tasks.
LIVES_TICKS = 12
"""The number of ticks (three seconds) after which the process has not ended soon after its start."""


class Recorder:
    """The core's rows, numbered from 0 in each table, until the launcher fetches them. Implements `Sink`.

    A framework's clean-up is added to the ends of jobs.
    """

    TABLES: tuple[str, ...] = ("jobs", "attempts", "decisions", "heartbeats")

    def __init__(self, clean_ups: CleanUps) -> None:
        self.clean_ups = clean_ups
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in self.TABLES}
        self._dropped = dict.fromkeys(self.TABLES, 0)

    def decision(self, row: tuple[Any, ...]) -> None:
        self._rows["decisions"].append(row)

    def attempt(self, row: AttemptRow) -> None:
        self.clean_ups.note(row)
        self._rows["attempts"].append(row)

    def job(self, row: JobRow) -> None:
        self._rows["jobs"].append(self.clean_ups.cleaned(row))

    def heartbeat(self, row: tuple[Any, ...]) -> None:
        """Store a row for an answered heartbeat."""
        self._rows["heartbeats"].append(row)

    @property
    def jobs(self) -> int:
        """Return the number of jobs ended since the run's start."""
        return self._dropped["jobs"] + len(self._rows["jobs"])

    def fetch(self, cursors: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
        """Return each table's rows from the given number on, and drop earlier ones."""
        for table, rows in self._rows.items():
            done = cursors.get(table, 0) - self._dropped[table]
            if done > 0:
                del rows[:done]
                self._dropped[table] += done
        return {table: list(rows) for table, rows in self._rows.items()}

    def keep_state(self) -> Any:
        return self._rows, self._dropped, self.clean_ups

    def restore_state(self, ledger: Ledger, state: Any) -> None:
        self._rows, self._dropped, self.clean_ups = state


class JobTracker:
    """The JobTracker of one live run. `make_policy` returns a new policy each time, which a replay needs."""

    def __init__(
        self,
        cluster: ClusterSpec,
        make_policy: Callable[[], Policy],
        name_node: NameNodeDoor,
        *,
        epoch_s: float,
        seed: int,
        journal: Path,
        sizes: Sizes = TRUE_SIZES,
        framework: Framework = NONE,
    ) -> None:
        self._cluster = cluster
        self._clock = RunClock(epoch_s, cluster.stretch)
        self._name_node = name_node
        self._seed = seed
        self._recorder = Recorder(CleanUps(framework, cluster.heartbeat_s))
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: str | None = None
        self._keeps_time = False
        self._journal = Journal(journal)
        self._driver = Driver(
            framework.core_config(cluster.heartbeat_s, sizes),
            make_policy,
            self._recorder,
            seed=seed,
            journal=self._journal,
            serve=self._serve,
            end_delay_s=framework.cleanup_takes_s(cluster.heartbeat_s),
        )
        self._steps = None if framework.is_none else LiveFramework(self._driver, framework)
        self._last_words = journal.with_name(LAST_WORDS)
        TIME_BOUND.exit_with = self._leave
        self._unfinished: list[Effect] = []
        self._mark, blame = kept_mark(journal.with_name(LAST_CALL))
        self._ticks = 0
        CALL_RECORD.share(self._mark)
        self._kept_open = KeptOpen(journal.with_name(LAST_CALL))
        TIME_BOUND.on_tick = self._tick
        if blame:
            self._failure = f"the policy {blame}"
        elif self._last_words.is_file():
            self._failure = self._last_words.read_text()
        elif why := framework.refuses(self._driver.policy):
            self._failure = why
        else:
            self._recover()
        self._keeping = keeping_of(self._driver.policy, cluster.blocks)

    def _recover(self) -> None:
        """Restore the state from the journal, or mark the run as failed."""
        try:
            self._unfinished = self._driver.recover(self._clock.now_s())
            if self._steps is not None:
                self._steps.continue_jobs(self._clock.now_s())
        except (PolicyFailed, ValueError) as error:
            self._failure = str(error)

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks == LIVES_TICKS:
            no_short_life(self._mark)
        self._look_at_files()

    def _look_at_files(self) -> None:
        """End the process if the policy has closed its files, as Ray cannot continue."""
        if self._kept_open.is_lost():
            self._leave(f"the policy has closed the files of the JobTracker's process, {CALL_RECORD.last()}")

    def _leave(self, why: str) -> NoReturn:
        """End the process. The restarted one reports `why`, and does not call the policy again."""
        self._last_words.write_text(why)
        os._exit(1)

    def _guarded(self, act: Callable[[float], T]) -> T | None:
        """Call `act` with the time and start new effects. Return None if the run has failed, as by an exception."""
        if self._failure is not None:
            return None
        try:
            return act(self._clock.now_s())
        except PolicyFailed as error:
            self._failure = str(error)
            return None
        except Exception as error:
            log.exception("the core failed")
            policy = self._driver.policy
            under = (
                f", under the policy of {policy.line_of('decide')}"
                if isinstance(policy, HostedPolicy)
                else ""
            )
            self._failure = f"{type(error).__name__}: {error}{under}"
            return None
        finally:
            self._set_off(self._driver.take_effects())

    def _do(self, kind: str, *arguments: Any) -> Any:
        return self._guarded(lambda now_s: self._driver.do(now_s, kind, *arguments))

    def _submit_due(self) -> None:
        """Submit due jobs, so that the next heartbeat can start their tasks."""
        self._guarded(self._driver.submit_due if self._steps is None else self._steps.submit_due)

    # --------------------------------------------------------------- methods

    async def start(self, plan: Plan | None = None) -> None:
        """Start the run with its plan. Without a plan, continue the run after a restart of the JobTracker."""
        if plan is not None:
            self._do("plan", plan)
        self._set_off(self._unfinished)
        self._unfinished = []
        if not self._keeps_time:
            self._keeps_time = True
            self._spawn(self._keep_time())
            if self._steps is not None:
                self._spawn(self._keep_steps(self._steps))
            self._spawn(self._follow_blocks())

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add jobs and changes of the policy, with times from now. Return the jobs' submit times since the run's start.

        Known jobs are ignored, so the call can be repeated. Raises MasterGone.
        """
        known = self._driver.submit_times_s
        if plan.changes or any(job.job not in known for job in plan.jobs):
            self._do("add", plan)
        if self._failure is not None:
            raise MasterGone("the run has failed")
        self._submit_due()
        return {job.job: self._driver.submit_times_s[job.job] for job in plan.jobs}

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill the given or all jobs that have not ended, submitted or not."""
        self._guarded(lambda now_s: self._driver.kill(now_s, jobs, reason))

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Register a node at the start of an incarnation."""
        self._do("register", node, incarnation)

    async def heartbeat(self, heartbeat: Heartbeat) -> Answer:
        """Return the node's actions, and the specifications of attempts to launch. Raises MasterGone."""
        self._submit_due()
        if (steps := self._steps) is not None:
            self._guarded(lambda now_s: steps.heartbeat(now_s, heartbeat.node))
        reply = self._do("heartbeat", heartbeat)
        if reply is None:
            raise MasterGone("the run has failed")
        actions = tuple(action for action in reply.actions if not self._is_late(action))
        specs = {
            action.attempt: self._attempt_spec(action, heartbeat.node).to_json()
            for action in actions
            if isinstance(action, Launch)
        }
        return Answer(reply=replace(reply, actions=actions), specs=specs)

    def _is_late(self, action: Action) -> bool:
        """Return whether a repeated reply launches an attempt of an ended job."""
        return isinstance(action, Launch) and action.job not in self._driver.jobs

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return the core's `status`, new `rows` after `cursors`, `ended`, `report` and `failure`.

        `report` is the policy's, empty before the end; `failure` is a fatal error, or None.
        """
        status = self._driver.core.status()
        ended = self._driver.all_ended() and self._clock.now_s() >= self._recorder.clean_ups.last_s
        if ended:
            self._guarded(self._check_untouched)
        return {
            "status": {**status, "now_s": self._clock.now_s()},
            "rows": self._recorder.fetch(cursors),
            "ended": ended,
            "report": self._driver.report() if ended and self._failure is None else {},
            "failure": self._failure,
        }

    def _check_untouched(self, now_s: float) -> None:
        missing = len(self._driver.submit_times_s) - self._recorder.jobs
        check_untouched(self._driver.core, self._driver.policy, missing)

    async def stop(self) -> None:
        """Stop the background tasks and close the journal, whose file is kept."""
        for task in list(self._tasks):
            task.cancel()
        self._journal.close()
        if TIME_BOUND.on_tick == self._tick:
            TIME_BOUND.on_tick = no_tick
        self._kept_open.close()

    # ------------------------------------------------------------- internals

    def _serve(self, core: Core, now_s: float, heartbeat: Heartbeat) -> Reply:
        """Pass a heartbeat to the core and return the reply. Store a table row with the duration of the call."""
        started_s = time.perf_counter()
        reply = core.heartbeat(now_s, heartbeat)
        service_s = (time.perf_counter() - started_s) / self._clock.stretch
        maps = sum(1 for status in heartbeat.running if "_m_" in status.attempt)
        usage = heartbeat.usage
        self._recorder.heartbeat(
            (
                now_s,
                heartbeat.node,
                maps,
                len(heartbeat.running) - maps,
                usage.cpu_util,
                usage.disk_util,
                usage.net_util,
                usage.memory_bytes,
                service_s,
            )
        )
        return reply

    def _attempt_spec(self, launch: Launch, node: NodeId) -> AttemptSpec:
        told = self._driver.assignment(launch)
        wait_s = 0.0
        if self._steps is not None:
            wait_s = self._steps.wait_s(self._clock.now_s(), launch, node)
        keeping, budget, split = self._keeping, 0.0, told.split
        if split is not None and keeping is not None and keeping.asks(self._seed, launch.attempt):
            budget = keeping.budget
        file = self._driver.blocks_of(split)
        blocks = self._cluster.blocks
        return attempt_spec(told, file, blocks, seed=self._seed, keep_budget=budget, wait_s=wait_s)

    def _set_off(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if self._steps is not None:
                self._steps.follow(self._clock.now_s(), effect)
            match effect:
                case Commit():
                    self._spawn(self._commit(effect))
                case Discard():
                    self._spawn(self._drop(effect, aside(effect.job, effect.attempt)))
                case NodeLost():
                    self._spawn(self._carry_out(effect, partial(self._name_node.node_lost, effect.node)))
                case JobEnded():
                    self._spawn(self._drop(effect, aside(effect.job)))

    async def _commit(self, effect: Commit) -> None:
        try:
            target = f"/out/{effect.job}/part-{effect.index:05d}"
            source = aside(effect.job, effect.attempt)
            await self._until_heard(partial(self._name_node.rename, source, target))
        except Exception as error:
            self._do("commit_failed", effect.attempt, f"commit failed: {error}")
        else:
            self._do("committed", effect.attempt)

    async def _drop(self, effect: Effect, path: str) -> None:
        """Delete uncommitted output, block later writes to it, and mark `effect` as done."""
        await self._carry_out(effect, partial(self._name_node.delete, path, recursive=True, for_good=True))

    async def _carry_out(self, effect: Effect, call: Callable[[], Awaitable[Any]]) -> None:
        """Repeat `call` until the NameNode answers, then mark `effect` as done."""
        await self._until_heard(call)
        self._driver.carried_out(effect)

    async def _until_heard(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Repeat the call, which is addressed to the NameNode, until the NameNode answers."""
        while True:
            try:
                await call()
                return
            except MasterGone:
                await asyncio.sleep(RETRY_S)

    async def _keep_time(self) -> None:
        """Submit due jobs and tick in each heartbeat interval, until canceled."""
        while True:
            await self._clock.sleep(self._cluster.heartbeat_s)
            self._submit_due()
            self._do("tick")

    async def _keep_steps(self, steps: LiveFramework) -> None:
        """Process the heartbeats of ApplicationMasters and the ends of set-up tasks, until canceled."""
        while True:
            await self._clock.sleep(STEPS_S)
            self._guarded(steps.advance)

    async def _follow_blocks(self) -> None:
        """Ask the NameNode each second for blocks that moved. Send it the demand for each input file."""
        while True:
            await asyncio.sleep(FOLLOW_BLOCKS_S)
            with contextlib.suppress(MasterGone):
                for block, nodes in await self._name_node.take_replica_changes():
                    self._do("replicas_changed", block, tuple(nodes))
                if self._cluster.blocks.replicas is not None and self._failure is None:
                    await self._name_node.note_reads(
                        *reads_of(self._driver.ledger), self._cluster.blocks.replicas
                    )

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""The live JobTracker, which passes events with the current time to the pure driver and executes its effects.

The JobTracker is an asyncio class without threads; the launcher turns it into a Ray actor. After a crash the
JobTracker continues from its journal; nodes only notice a late reply.
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
from schedbed.scheduler.core.rows import Commit, Discard, Effect, JobEnded, NodeLost
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.guard.call_record import CALL_RECORD, LAST_CALL, LAST_WORDS, kept_mark, no_short_life
from schedbed.scheduler.guard.kept_open import KeptOpen
from schedbed.scheduler.guard.read_only import check_untouched
from schedbed.scheduler.guard.time_bound import TIME_BOUND, no_tick
from schedbed.scheduler.journal import Journal
from schedbed.scheduler.policies.keeper_choice import keeping_of
from schedbed.scheduler.policy import Policy, PolicyFailed
from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.specs import AttemptSpec

log = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_S = 0.2
FOLLOW_BLOCKS_S = 1.0
LIVES_TICKS = 12
"""The number of ticks (three seconds) after which the process has not ended soon after its start."""


class Recorder:
    """The store of the live core's table rows, which the launcher fetches from time to time.

    The rows of each table are numbered from 0. This class implements `Sink`.
    """

    TABLES: tuple[str, ...] = ("jobs", "attempts", "decisions", "heartbeats")

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in self.TABLES}
        self._dropped = dict.fromkeys(self.TABLES, 0)

    def decision(self, row: tuple[Any, ...]) -> None:
        """Store a row of the decisions table: an offered slot and the answer to the offer."""
        self._rows["decisions"].append(row)

    def attempt(self, row: tuple[Any, ...]) -> None:
        """Store the row of an attempt that ended."""
        self._rows["attempts"].append(row)

    def job(self, row: tuple[Any, ...]) -> None:
        """Store the row of a job that ended."""
        self._rows["jobs"].append(row)

    def heartbeat(self, row: tuple[Any, ...]) -> None:
        """Store a row of the heartbeats table, which describes one answered heartbeat."""
        self._rows["heartbeats"].append(row)

    @property
    def jobs(self) -> int:
        """Return the number of jobs that have ended since the run's start."""
        return self._dropped["jobs"] + len(self._rows["jobs"])

    def fetch(self, cursors: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table that have at least a given number, and drop all earlier rows.

        `cursors` is a dictionary from table name to this row number.
        """
        for table, rows in self._rows.items():
            done = cursors.get(table, 0) - self._dropped[table]
            if done > 0:
                del rows[:done]
                self._dropped[table] += done
        return {table: list(rows) for table, rows in self._rows.items()}

    def keep_state(self) -> Any:
        """Return each table's stored rows and number of dropped rows, for a snapshot."""
        return self._rows, self._dropped

    def restore_state(self, ledger: Ledger, state: Any) -> None:
        """Restore the state that `keep_state` returned before a restart."""
        self._rows, self._dropped = state


class JobTracker:
    """The JobTracker of one live run.

    `make_policy` returns a new policy each time, because a replay needs one. `epoch_s` is the time of the
    run's start as Unix time, and `journal` the path of the journal file.
    """

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
    ) -> None:
        self._cluster = cluster
        self._clock = RunClock(epoch_s, cluster.stretch)
        self._name_node = name_node
        self._seed = seed
        self._recorder = Recorder()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: str | None = None
        self._keeps_time = False
        self._journal = Journal(journal)
        self._driver = Driver(
            CoreConfig(heartbeat_s=cluster.heartbeat_s, sizes=sizes),
            make_policy,
            self._recorder,
            seed=seed,
            journal=self._journal,
            serve=self._serve,
        )
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
        else:
            self._recover()
        self._keeping = keeping_of(self._driver.policy, cluster.blocks)

    def _recover(self) -> None:
        """Restore the state from the journal. If this is impossible, mark the run as failed."""
        try:
            self._unfinished = self._driver.recover(self._clock.now_s())
        except (PolicyFailed, ValueError) as error:
            self._failure = str(error)

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks == LIVES_TICKS:
            no_short_life(self._mark)
        self._look_at_files()

    def _look_at_files(self) -> None:
        """End the process if the policy has closed its files or sockets, because Ray cannot continue then."""
        if self._kept_open.is_lost():
            self._leave(f"the policy has closed the files of the JobTracker's process, {CALL_RECORD.last()}")

    def _leave(self, why: str) -> NoReturn:
        """Write the reason `why` to a file and end the process.

        The restarted JobTracker reports the reason and does not call the policy again.
        """
        self._last_words.write_text(why)
        os._exit(1)

    def _guarded(self, act: Callable[[float], T]) -> T | None:
        """Call `act` with the current time and return the result, or None if the run has failed.

        The run fails if `act` raises an exception. New effects (actions ordered by the core) are started.
        """
        if self._failure is not None:
            return None
        try:
            return act(self._clock.now_s())
        except PolicyFailed as error:
            self._failure = str(error)
            return None
        except Exception as error:
            log.exception("the core failed")
            line_of = getattr(self._driver.policy, "line_of", None)
            under = "" if line_of is None else f", under the policy of {line_of('decide')}"
            self._failure = f"{type(error).__name__}: {error}{under}"
            return None
        finally:
            self._set_off(self._driver.take_effects())

    def _do(self, kind: str, *arguments: Any) -> Any:
        return self._guarded(lambda now_s: self._driver.do(now_s, kind, *arguments))

    def _submit_due(self) -> None:
        """Submit the jobs whose submit time has come, so that the next heartbeat can start their tasks."""
        self._guarded(self._driver.submit_due)

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
            self._spawn(self._follow_blocks())

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add the jobs of the plan during the run. Times in the plan are seconds from now.

        Return a dictionary from job id to submit time, in seconds since the run's start. Known jobs are
        ignored, so the call can be repeated. Raises MasterGone if the run has failed.
        """
        known = self._driver.submit_times_s
        if any(job.job not in known for job in plan.jobs):
            self._do("add", plan)
        if self._failure is not None:
            raise MasterGone("the run has failed")
        self._submit_due()
        return {job.job: self._driver.submit_times_s[job.job] for job in plan.jobs}

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill the jobs with the given ids, or all jobs if None. Jobs not submitted yet are also killed.

        Jobs that are unknown or have ended are ignored.
        """
        self._guarded(lambda now_s: self._driver.kill(now_s, jobs, reason))

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Register a node at the start of an incarnation (the node's life until its loss or restart)."""
        self._do("register", node, incarnation)

    async def heartbeat(self, heartbeat: Heartbeat) -> Answer:
        """Process a heartbeat. Return the actions for the node, and the specifications of attempts to launch.

        Raises MasterGone if the run has failed.
        """
        self._submit_due()
        reply = self._do("heartbeat", heartbeat)
        if reply is None:
            raise MasterGone("the run has failed")
        actions = tuple(action for action in reply.actions if not self._is_late(action))
        specs = {
            action.attempt: self._attempt_spec(action).to_json()
            for action in actions
            if isinstance(action, Launch)
        }
        return Answer(reply=replace(reply, actions=actions), specs=specs)

    def _is_late(self, action: Action) -> bool:
        """Return whether the action, in a reply that is sent again, launches an attempt of an ended job."""
        return isinstance(action, Launch) and action.job not in self._driver.jobs

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return a dictionary with the core's status, new table rows, and the state of the run.

        Its keys are `status`, `rows`, `ended` (whether all jobs have ended), `report` (the policy's report,
        empty before the end) and `failure` (a fatal error, or None). `cursors` is a dictionary from table
        name to the number of the first row to return.
        """
        status = self._driver.core.status()
        ended = self._driver.all_ended()
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
        """Pass a heartbeat to the core and return the reply.

        Store a table row with the duration of the call.
        """
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

    def _attempt_spec(self, launch: Launch) -> AttemptSpec:
        told = self._driver.assignment(launch)
        keeping, budget, split = self._keeping, 0.0, told.split
        if split is not None and keeping is not None and keeping.asks(self._seed, launch.attempt):
            budget = keeping.budget
        file = self._driver.blocks_of(split)
        return attempt_spec(told, file, self._cluster.blocks, seed=self._seed, keep_budget=budget)

    def _set_off(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
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
        """Delete the uncommitted output at `path`, block later writes to it, and mark `effect` as done."""
        await self._carry_out(effect, partial(self._name_node.delete, path, recursive=True, for_good=True))

    async def _carry_out(self, effect: Effect, call: Callable[[], Awaitable[Any]]) -> None:
        """Repeat `call` until the NameNode answers, then mark `effect` as carried out."""
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
        """Submit due jobs and send a tick to the core in each heartbeat interval, until canceled."""
        while True:
            await self._clock.sleep(self._cluster.heartbeat_s)
            self._submit_due()
            self._do("tick")

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

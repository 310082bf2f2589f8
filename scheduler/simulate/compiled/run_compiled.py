"""Runs a simulation with the compiled loop, if the loop supports it, and writes the output rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from schedbed.cluster.virtual.fluid.max_min import Solved
from schedbed.cluster.virtual.plan_arithmetic import block_lengths
from schedbed.scheduler.assignment import aside
from schedbed.scheduler.policy import HeartbeatRead
from schedbed.scheduler.row_thread import RowThread
from schedbed.scheduler.simulate.compiled import columns, covers
from schedbed.scheduler.simulate.compiled import state as names
from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.asking.asked_policy import AskedPolicy
from schedbed.scheduler.simulate.compiled.code_cache import is_cached, note_cached
from schedbed.scheduler.simulate.compiled.columns import Labels
from schedbed.scheduler.simulate.compiled.contended.flow_arrays import grown
from schedbed.scheduler.simulate.compiled.jit import CONFIG
from schedbed.scheduler.simulate.compiled.loop import (
    GOES_ON,
    NEEDS_BLOCK,
    NEEDS_ROOM,
    OVER,
    STUCK,
    compile_both,
    run_asking,
    run_loop,
)
from schedbed.scheduler.simulate.compiled.placing.block_placer import compile_placing
from schedbed.scheduler.simulate.compiled.state import State
from schedbed.scheduler.simulate.compiled.tables import ROWS, make_state, queue_texts, tables_of
from schedbed.scheduler.simulate.row_frames import Column, are_shared, put_columns, put_ranges
from schedbed.scheduler.simulate.setup import NotCovered, Stuck
from schedbed.scheduler.simulate.simulation import OnProgress, Simulation
from schedbed.tasks.specs import TaskKind, task_id


def run(simulation: Simulation, on_progress: OnProgress | None = None) -> str | None:
    """Run a new simulation as `Simulation.run`, and return None, or the reason why the loop cannot.

    It is then at its start, and does not repeat rows that the loop has passed on. `on_progress` is called
    whenever rows are written.
    """
    why = covers.why_not(simulation)
    if why is not None:
        return why
    try:
        made = tables_of(simulation)
        state = make_state(simulation, made)
    except NotCovered as error:
        return str(error)
    asked = None
    if not covers.is_compiled(simulation.master.policy):
        asked = AskedPolicy(simulation, state, made.costs)
    _CompiledRun(simulation, state, asked).run(on_progress)
    if asked is None or asked.trouble is None:
        return None
    simulation.begin_again(simulation.setup)
    return str(asked.trouble) or "the policy reads what heartbeats report"


class _CompiledRun:
    """A run by the compiled loop, with the Python code at its pauses. `asked` is a policy without compiled version."""

    def __init__(self, simulation: Simulation, state: State, asked: AskedPolicy | None) -> None:
        self._simulation, self._state, self._asked = simulation, state, asked
        self._rows = simulation.rows if asked is None else simulation.noted
        simulation.noted.takes_columns = True
        waits_s = float(state.sec.node_wait), float(state.sec.rack_wait)
        texts = queue_texts(simulation.master.policy, state, simulation.jobs)
        repeated = () if asked is None else asked.repeated
        self._said = Labels(simulation.jobs, simulation.nodes, waits_s, texts, repeated)
        self._splits = columns.splits_of(simulation.jobs)
        self._slack = len(state.decision_rows) - ROWS
        self._attempts = self._jobs = 0
        self._shares_attempts = are_shared(simulation.noted.target, int(state.num.tasks))

    def run(self, on_progress: OnProgress | None) -> None:
        """Run the simulation to its end, while a thread writes the rows. Raises Stuck.

        If the receiver can make rows in several processes, attempts for which the thread has no time are left
        for the end.
        """
        for node in self._simulation.nodes:
            node.up = True
        with RowThread() as thread:
            try:
                self._loop(thread, on_progress)
            except BaseException:
                self._shares_attempts = False
                self._hand_on(thread, every=True)
                raise
            thread.finish()
        if self._asked is not None and self._asked.trouble is not None:
            return
        if self._shares_attempts:
            self._share_attempts()
        for node, timers in zip(self._simulation.nodes, self._state.nodes["timers"].tolist(), strict=True):
            node.timers = timers
        del self._state, self._said, self._splits  # The rows that are left may take as much memory.
        self._simulation.close()

    def _loop(self, thread: RowThread, on_progress: OnProgress | None) -> None:
        while True:
            if self._asked is None:
                outcome = run_loop(self._state, self._slack)
            else:
                outcome = run_asking(self._state, self._slack)
                if outcome == OVER:
                    self._asked.finish()
                if isinstance(self._asked.trouble, Exception | HeartbeatRead):
                    return
                if self._asked.trouble is not None:
                    raise self._asked.trouble  # An interrupt.
            has_time = thread.is_idle
            if not (CONFIG.DISABLE_JIT or is_cached()):
                compile_both()
                compile_placing()
                note_cached()
            self._store_files(thread)
            if outcome == NEEDS_BLOCK:
                self._find_targets()
                continue
            if outcome == NEEDS_ROOM:
                self._state = grown(self._state)
                continue
            self._hand_on(thread, every=outcome != GOES_ON, has_time=has_time)
            self._tell()
            if on_progress is not None:
                on_progress(self._simulation)
            if outcome == STUCK:
                now_s = self._simulation.now_s
                raise Stuck(f"at {now_s:.3f} s nothing is left to happen, but jobs wait")
            if outcome != GOES_ON:
                return

    def _store_files(self, thread: RowThread) -> None:
        """Apply changes of output files at the NameNode, by `thread` without contention."""
        state, simulation = self._state, self._simulation
        storage, nodes, blocks = simulation.storage, simulation.nodes, simulation.setup.cluster.blocks
        steps = state.file_rows[: int(state.num.n_files)]
        state.num.n_files = 0
        if not simulation.setup.contention:
            thread.do(partial(self._write_files, steps[steps["step"] == names.WRITTEN]))
            return
        for at_s, number, step in zip(
            steps["t"].tolist(), steps["number"].tolist(), steps["step"].tolist(), strict=True
        ):
            if step == names.JOB_OVER:
                storage.job_ended(at_s, simulation.jobs[number].job)
                continue
            job, attempt, index, output = self._output_of(number)
            if step == names.WRITTEN:
                task = state.tasks[number]
                lengths = block_lengths(int(state.costs["output"][task.cost]), blocks.size_bytes)
                storage.written(at_s, nodes[task.node].spec.node, output, lengths)
            else:
                storage.commit(at_s, job, attempt, index)
        storage.names.take_replica_changes()

    def _write_files(self, steps: Values) -> None:
        """Write and commit files at once, without contention: no node fails, and all outputs are committed."""
        state, simulation = self._state, self._simulation
        tasks, blocks = state.tasks[steps["number"]], simulation.setup.cluster.blocks
        entries, is_map = state.jobs[tasks["job"]], tasks["is_map"] > 0
        index = steps["number"] - entries["first"] - np.where(is_map, 0, entries["maps"])
        sizes, block_bytes = state.costs["output"][tasks["cost"]], blocks.size_bytes
        kept = np.flatnonzero(sizes > 0)
        sizes, counts = sizes[kept], np.ones(len(kept), np.int64)
        lengths = sizes
        if block_bytes:
            counts = (sizes + block_bytes - 1) // block_bytes
            lengths = np.full(int(counts.sum()), block_bytes, np.int64)
            lengths[np.cumsum(counts) - 1] = sizes - (counts - 1) * block_bytes
        jobs, nodes = simulation.jobs, simulation.nodes
        of_tasks = (column[kept].tolist() for column in (tasks["job"], is_map, index, steps["number"]))
        tries = {} if self._asked is None else self._asked.tries
        attempts = [
            (
                name,
                f"{task_id(name, TaskKind.MAP if maps else TaskKind.REDUCE, place)}_{tries.get(task, 0)}",
                place,
            )
            for job, maps, place, task in zip(*of_tasks, strict=True)
            for name in (jobs[job].job,)
        ]
        writers = [nodes[node].spec.node for node in tasks["node"][kept].tolist()]
        simulation.storage.write_outputs(steps["t"][kept].tolist(), writers, attempts, counts, lengths)

    def _find_targets(self) -> None:
        """Find nodes for the next block of an output, from the NameNode. Raises Stuck without any."""
        state, simulation = self._state, self._simulation
        work = state.work[int(state.num.wants) - 1]
        *_, output = self._output_of(int(work.task))
        now_s, length = float(state.sec.agenda_s), int(state.num.wants_bytes)
        writer, count = simulation.nodes[work.node].spec.node, simulation.setup.cluster.blocks.replication
        found = simulation.storage.allocate(now_s, writer, output, count, length)
        if not found:
            # All nodes are up, so waiting is useless.
            raise Stuck(f"at {now_s:.3f} s no node takes a block of {output}")
        state.num.targets = len(found)
        state.targets[: len(found)] = [simulation.node_by_name[name].index for name in found]

    def _output_of(self, number: int) -> tuple[str, str, int, str]:
        """Return an output's job, attempt, index and path. With contention, a task has one attempt."""
        task = self._state.tasks[number]
        spec, first = self._simulation.jobs[task.job], int(self._state.jobs["first"][task.job])
        kind, index = (TaskKind.MAP, 0) if task.is_map else (TaskKind.REDUCE, -spec.maps)
        index += number - first
        attempt = f"{task_id(spec.job, kind, index)}_0"
        return spec.job, attempt, index, aside(spec.job, attempt)

    def _hand_on(self, thread: RowThread, *, every: bool, has_time: bool = False) -> None:
        """Let the thread write new rows; unless `every`, whole groups of `ROWS`, which need not be joined.

        Decisions and heartbeats are copied, since the loop writes over them; records of ended tasks and jobs
        do not change. `has_time` says that the thread had written all earlier rows.
        """
        state, said, num = self._state, self._said, self._state.num
        if self._asked is not None:
            thread.do(partial(_put_rows, self._rows.decision, self._asked.take_rows()))
        decided, heartbeats = int(num.n_decisions), int(num.n_heartbeats)
        count = decided if every else decided - decided % ROWS
        if count:
            self._put(
                thread, "decisions", partial(columns.decisions, state.decision_rows[:count].copy(), said)
            )
            state.decision_rows[: decided - count] = state.decision_rows[count:decided]
            num.n_decisions = decided - count
        count = heartbeats if every else heartbeats - heartbeats % ROWS
        if count:
            decision_s = self._simulation.setup.timing.decision_s
            beats = state.heartbeat_rows[:count].copy()
            self._put(thread, "heartbeats", partial(columns.heartbeats, beats, said, decision_s))
            state.heartbeat_rows[: heartbeats - count] = state.heartbeat_rows[count:heartbeats]
            num.n_heartbeats = heartbeats - count
        if not self._shares_attempts:
            self._hand_on_attempts(thread, every=every)
        elif has_time and not every:
            self._hand_on_attempts(thread, every=False, groups=1)
        over = state.job_rows[self._jobs : int(num.n_jobs)]
        if len(over):
            made = columns.job_rows(state, self._simulation.jobs, over, self._splits[1])
            thread.do(partial(_put_rows, self._rows.job, made))
        self._jobs = int(num.n_jobs)

    def _hand_on_attempts(self, thread: RowThread, *, every: bool, groups: int | None = None) -> None:
        """Let the thread write new attempts, at most `groups` groups, only whole ones unless `every`."""
        state, ended = self._state, int(self._state.num.n_attempts)
        if self._asked is not None:
            ended = self._asked.ended  # Of later ones, it is not known which rows are repeated.
        if not every:
            ended -= (ended - self._attempts) % ROWS
        if groups is not None:
            ended = min(ended, self._attempts + groups * ROWS)
        for low in range(self._attempts, ended, ROWS):
            which = state.attempt_rows[low : min(ended, low + ROWS)]
            self._put(thread, "attempts", partial(columns.attempts, state, self._said, self._splits, which))
        self._attempts = ended

    def _share_attempts(self) -> None:
        """Write the attempts that the thread has not written."""
        which = self._state.attempt_rows[self._attempts : int(self._state.num.n_attempts)]
        rows = columns.AttemptRanges(self._state, self._said, self._splits, which)
        put_ranges(self._simulation.noted.target, "attempts", rows)

    def _put(self, thread: RowThread, table: str, made: Callable[[], dict[str, Column]]) -> None:
        rows = self._rows
        thread.do(lambda: put_columns(rows, table, made()))

    def _tell(self) -> None:
        """Update the `Simulation` object's time and statistics from the arrays."""
        simulation, num = self._simulation, self._state.num
        known = simulation.statistics
        simulation.queue.now_s = float(self._state.sec.now)
        known.jobs = int(num.n_jobs)
        known.ends, known.heartbeats = int(num.reported), int(num.heartbeats)
        known.solved = Solved(int(num.solves), int(num.cut_short))
        submitted = self._state.stages[: 2 * int(num.next_job)]
        known.launches = int((submitted["total"] - submitted["unstarted"]).sum() + num.stopped)
        known.events = known.launches + known.ends + known.jobs + int(num.next_job)


def _put_rows(put: Callable[[Any], None], rows: Iterable[Any]) -> None:
    for row in rows:
        put(row)

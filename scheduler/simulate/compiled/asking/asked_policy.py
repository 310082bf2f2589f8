"""The JobTracker's core in Python beside the compiled loop, for policies without a compiled version.

The loop simulates nodes, attempts and heartbeats, and counts each job's tasks. Before it asks the policy, at
each offer, the core repeats the events since the last question, so that the policy sees the state of that
time.
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from schedbed.cluster.messages import AttemptReport, KillAttempt, Launch, Usage
from schedbed.cluster.virtual.exact.exact import partly, share_done
from schedbed.cluster.virtual.node_model import TaskCost, part_cost
from schedbed.scheduler.core.entities import MAP, REDUCE, Attempt, Node, Task
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, NoSink, attempt_row
from schedbed.scheduler.core.states import SUCCEEDED
from schedbed.scheduler.hooks import Quiet, hook, quiet_of
from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.covers import counts_slots
from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled
from schedbed.scheduler.simulate.compiled.state import State
from schedbed.scheduler.simulate.loading.task_tables import COST_COLUMNS, cost_row
from schedbed.scheduler.simulate.setup import NotCovered
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, NodeId, TaskKind


class DecisionRows(NoSink):
    """A sink that keeps the rows of decisions. The loop writes all other rows."""

    def __init__(self) -> None:
        self.rows: list[DecisionRow] = []

    def decision(self, row: DecisionRow) -> None:
        """Implement `Sink.decision`."""
        self.rows.append(row)


class AskedPolicy:
    """A policy in Python, which the compiled loop asks, and the core whose state it reads.

    `costs` are by the numbers in `State.tasks`. After an error, or a proposal that the loop cannot do, the
    loop ends with `trouble`. `tries` counts earlier attempts of tasks that have any; `repeated` has rows of
    all attempts of these, and of parts of split maps. `ended` counts attempts whose end the core knows.
    """

    def __init__(self, simulation: Simulation, state: State, costs: list[TaskCost]) -> None:
        self.trouble: BaseException | None = None
        self._core, self._specs, self._jobs = simulation.core, simulation.setup.cluster.nodes, simulation.jobs
        self._state, self._costs = state, costs
        policy = simulation.master.policy
        self._decide, self._beat = policy.decide, hook(policy, "beat") or _ignore
        self._most = None if counts_slots(policy) else state.feeds.shape[1] - 1
        self._quiet, self._turn = quiet_of(policy) or Quiet(), (0, 0, 0)
        self._ledger = self._core.ledger
        self._sink = DecisionRows()
        self._ledger.write_decisions_to(self._sink)
        self._plans, self._draws = simulation.plans, simulation.setup.stragglers.share > 0
        self._drawn_costs: dict[TaskCost, int] = {}
        self._part_costs: dict[tuple[int, ...], int] = {}
        self.tries: dict[int, int] = {}
        self.repeated: list[AttemptRow] = []
        self._stirred: dict[NodeId, None] = {}
        self._stops = self.ended = 0
        self._ledger.watch_kills(self._stir)
        self._nodes: dict[int, Node] = {}
        self._attempts: dict[int, Attempt] = {}  # Live and committing attempts, by the task's number.
        self._first, self._maps = state.jobs["first"].tolist(), state.jobs["maps"].tolist()
        self._parts: dict[str, int] = {}  # The numbers of second parts, by the id of the task.
        self._speeds = [spec.core_speed for spec in self._specs]
        answered: Any = state.answered
        is_started: Any = state.is_started
        self._steps = _columns(state.steps, "t", "number", "step")
        self._used = _columns(state.steps, "cpu", "disk", "net", "memory") if state.num.always else ()
        self._count, self._is_started = memoryview(answered), memoryview(is_started)
        self._columns = _columns(state.tasks, *_COUNTED)
        self._cost_columns: list[Any] = _columns(state.costs, *COST_COLUMNS)
        [self._reads_block] = _columns(state.tasks, "reads_block")
        self._part_columns = (
            *_columns(state.parts, "index", "next"),
            *_columns(state.jobs, "parts"),
            *_columns(state.stages, "total", "unstarted"),
        )
        self._tasks = cast("Values", state.tasks).view(np.ndarray)
        self._answer = ANSWER(self._answer_or_give_up)  # Kept, since the loop calls it.
        state.num.asks = ctypes.cast(self._answer, ctypes.c_void_p).value or 0

    def take_rows(self) -> list[DecisionRow]:
        """Repeat the events since the last question, and return the rows of decisions since the last call."""
        self._repeat_events()
        rows, self._sink.rows = self._sink.rows, []
        self._state.num.n_decisions = self._count[0] = 0
        return rows

    def finish(self) -> None:
        """Repeat the events since the last question. All jobs must then have ended for the core as well."""
        self._repeat_events()
        if self.trouble is None and not self._core.all_ended():
            self.trouble = NotCovered("the core has other jobs than the loop")

    def _repeat_events(self) -> None:
        num = self._state.num
        self._answer_or_give_up(float(self._state.sec.now), int(num.n_steps), NOBODY, LISTENS)
        num.n_steps = 0

    def _answer_or_give_up(self, now_s: float, steps: int, node: int, question: int) -> int:
        """Return the answer (`ANY_MAP`), or GIVES_UP and store the error, which cannot pass the compiled loop."""
        if self.trouble is not None:
            return GIVES_UP
        try:
            if steps:
                self._catch_up(steps)
            if question <= ANY_REDUCE:
                return self._ask(now_s, self._nodes[node], MAP if question == ANY_MAP else REDUCE)
            return 0 if self._agrees(node, question) else NOTHING
        except BaseException as error:
            self.trouble = error
            return GIVES_UP

    def _agrees(self, node: int, question: int) -> bool:
        """Return whether the answer to a question that is not about a task is yes."""
        if question == AWAITS:
            return self._awaits()
        rests, ledger = self._quiet.rests, self._ledger
        if rests is None or question == LISTENS:
            return False
        if question == RESTS:
            return rests(ledger, self._nodes[node])
        before = self._turn
        self._turn = (self._quiet.turn(), ledger.map_slots, ledger.reduce_slots)
        return self._turn != before

    def _awaits(self) -> bool:
        return self._quiet.awaits_beat is not None and self._quiet.awaits_beat()

    def _ask(self, now_s: float, node: Node, kind: TaskKind) -> int:
        """Ask the policy as `Core` does, and launch the proposed task. Raises NotCovered for a copy."""
        ledger = self._ledger
        ledger.now_s = now_s
        if node.outbox:
            node.outbox = []  # It has only orders to forget jobs, which the loop does not need.
        if ledger.unsettled:
            ledger.settle()
        proposal = self._decide(ledger, node, kind)
        if proposal is None:
            self._count[0] = len(self._sink.rows)
            return NOTHING
        if proposal.speculative:
            raise NotCovered("the policy proposes a copy of a task")
        attempt = ledger.launch(node, kind, proposal)
        if self._most is not None and max(node.running_maps, node.running_reduces) > self._most:
            raise NotCovered(f"more than {self._most} tasks of a kind run on {node.node}")
        self._count[0] = len(self._sink.rows)
        number = self._number_of(attempt.task)
        if number < 0 or self._is_started[number]:  # The loop does not check numbers.
            raise NotCovered(f"{attempt.task.task} has another number in the loop")
        if proposal.split is not None:
            self._add_part(number, attempt.task)
        if attempt.task.tries > 1:
            self.tries[number] = attempt.task.tries - 1
        if attempt.task.tries > 1 or attempt.task.part is not None:
            self._set_cost(number, attempt)
        self._attempts[number] = attempt
        return number

    def _number_of(self, task: Task) -> int:
        """Return the task's number in the loop."""
        job = task.stage.job.serial
        if task.stage.kind is REDUCE:
            return self._first[job] + self._maps[job] + task.index
        return self._first[job] + task.index if task.index < self._maps[job] else self._parts[task.task]

    # ------------------------------------------------------- parts and stops

    def _add_part(self, number: int, task: Task) -> None:
        """Add the second part of a split map to the tables. Raises NotCovered without room, or under contention."""
        job, rest, place = task.stage.job.serial, task.stage.tasks[-1], len(self._parts)
        index, before, last, total, unstarted = self._part_columns
        part = int(self._state.num.tasks) + place
        if self._state.num.is_fluid or part == len(self._tasks):
            raise NotCovered("the policy proposes parts of tasks")
        self._parts[rest.task] = part
        self._tasks[part] = self._tasks[number]
        index[place], before[place], last[job] = rest.index, last[job], part
        total[2 * job] += 1
        unstarted[2 * job] += 1

    def _stir(self, node: NodeId) -> None:
        """Note an order for the node to stop an attempt."""
        self._stirred[node] = None

    def _pass_stops(self) -> None:
        """Pass the orders to stop attempts on to the loop. Raises NotCovered if the loop cannot do it."""
        state, num = self._state, self._state.num
        for name in self._stirred:
            node = self._ledger.nodes[name]
            for order in node.outbox:
                if isinstance(order, KillAttempt):
                    if num.is_fluid or self._stops == len(state.attempt_rows) - len(state.tasks):
                        raise NotCovered(f"the policy stops attempts, such as {order.attempt}")
                    self._stops += 1
                    state.stops[self._count[1]] = self._number_of(node.attempts[order.attempt].task)
                    self._count[1] += 1
            node.outbox = []
        self._stirred.clear()

    def _set_cost(self, number: int, attempt: Attempt) -> None:
        """Set the cost of a part of a map, or of a later attempt, which may be a straggler unlike the first."""
        task, costs = attempt.task, self._columns[2]
        if self._draws:
            costs[number] = self._drawn_cost(attempt)
        elif task.part is not None and task.tries == 1:
            costs[number] = self._part_cost(costs[number], task.part)
        self._reads_block[number] &= self._costs[costs[number]].read_bytes > 0

    def _drawn_cost(self, attempt: Attempt) -> int:
        """Return the number of the cost of an attempt that may be a straggler."""
        task = attempt.task
        order = Launch(attempt.attempt, task.stage.job.job, task.stage.kind, task.index, task.part)
        plan = self._plans.of(order, 0.0, attempt.node.spec.core_speed)
        assert plan is not None
        if plan.cost not in self._drawn_costs:
            self._drawn_costs[plan.cost] = self._add_cost(plan.cost)
        return self._drawn_costs[plan.cost]

    def _part_cost(self, whole: int, part: Part) -> int:
        """Return the number of a part's cost. `whole` is that of the whole map."""
        key = whole, part.whole.length, part.offset - part.whole.offset, part.length
        if key not in self._part_costs:
            self._part_costs[key] = self._add_cost(part_cost(self._costs[whole], part))
        return self._part_costs[key]

    def _add_cost(self, cost: TaskCost) -> int:
        """Add a cost to the table, and return its number."""
        place = len(self._costs)
        self._costs.append(cost)
        for column, value in zip(self._cost_columns, cost_row(cost), strict=True):
            column[place] = value
        return place

    def _stopped(self, number: int, attempt: Attempt) -> AttemptReport:
        """Return what a node reports about an attempt that it has stopped."""
        run = self._state.tasks[number]
        work_s, end_s = float(run.work), float(run.end)
        done = share_done(work_s, work_s - max(0.0, end_s - float(run.since)))
        counters = partly(None if run.waits else self._counters(number, attempt), done, 0)
        return AttemptReport(attempt.attempt, "killed", min(float(run.start), end_s), end_s, "", counters)

    def _note_end(self, attempt: Attempt) -> None:
        """Count an ended attempt, and keep its row if its task has several or is a part."""
        if attempt.task.tries > 1 or attempt.state is not SUCCEEDED or attempt.task.part is not None:
            self._state.attempt_rows[self.ended] = -1 - len(self.repeated)
            self.repeated.append(attempt_row(attempt))
        self.ended += 1

    # ---------------------------------------------------------------- events

    def _catch_up(self, count: int) -> None:
        """Repeat the events in the loop's list at the core. `count` is their number."""
        core, ledger, attempts = self._core, self._ledger, self._attempts
        times, numbers, steps = self._steps
        for place in range(count):
            now_s, number, step = times[place], numbers[place], steps[place]
            if step == REPORTED:
                attempt = attempts[number]
                ledger.now_s = now_s
                ledger.reported(attempt, self._report(number, attempt))
                if attempt.task.stage.shuffled:
                    del attempts[number]
                    self._note_end(attempt)
            elif step == COMMITTED:
                attempt = attempts.pop(number)
                core.committed(now_s, attempt.attempt)
                self._note_end(attempt)
            elif step == STOPPED:
                attempt = attempts.pop(number)
                ledger.now_s = now_s
                ledger.reported(attempt, self._stopped(number, attempt))
                self._note_end(attempt)
            elif step == SUBMITTED:
                core.submit(now_s, self._jobs[number])
            elif step == JOINED:
                core.register(now_s, self._specs[number], 1)
                self._nodes[number] = ledger.nodes[self._specs[number].node]
            elif step == HEARTBEAT:
                ledger.now_s = now_s
                ledger.beats += 1
                node = self._nodes[number]
                if self._used:
                    node.usage = Usage(*[column[place] for column in self._used])
                self._beat(ledger, node)
            elif step == PASSED:
                if self._awaits():
                    ledger.now_s = now_s
                    self._beat(ledger, self._nodes[number])
            else:
                assert step == TICKED
                core.recovered(now_s)  # As if all nodes had sent a heartbeat.
                core.tick(now_s)
                self._pass_stops()
        if self._stirred:
            raise NotCovered("an attempt is stopped outside of ticks")
        core.take_effects()  # The loop carries out its own.

    def _report(self, number: int, attempt: Attempt) -> AttemptReport:
        """Return a node's report of a succeeded attempt."""
        start_s, end_s = self._columns[0][number], self._columns[1][number]
        counters = self._counters(number, attempt)
        return AttemptReport(attempt.attempt, "succeeded", start_s, end_s, "", counters)

    def _counters(self, number: int, attempt: Attempt) -> Counters:
        """Return the counters of the attempt of the task with this number, if it did all of its work."""
        costs, local, remote, spill, shuffle, fetch_cpu, shuffle_ends, sort_ends, nodes = self._columns[2:]
        cost, is_map = self._costs[costs[number]], attempt.task.stage.kind is MAP
        return Counters(
            (cost.cpu_s + cost.sort_cpu_s + fetch_cpu[number]) * self._speeds[nodes[number]],
            local[number],
            remote[number],
            shuffle[number],
            spill[number],
            cost.output_bytes,
            None if is_map else shuffle_ends[number],
            None if is_map else sort_ends[number],
            cost.records_in,
            cost.records_out,
            cost.memory_peak_bytes,
        )


_COUNTED = (
    *("start", "end", "cost", "local_bytes", "remote_bytes", "spill_bytes", "shuffle_bytes"),
    *("fetch_cpu", "shuffle_end", "sort_end", "node"),
)


def _columns(table: Any, *names: str) -> list[memoryview]:
    """Return columns for fast access to single values."""
    return [memoryview(table[name]) for name in names]


def _ignore(*_: object) -> None:
    """Do nothing, as a policy without a hook for heartbeats."""


# Calls from the compiled loop to a policy in Python, and the list of what happened between two calls
# (compiled).
#
# The list (`State.steps`) has the events that change the JobTracker's state. Python repeats them before the
# policy is asked, so that the policy finds the state of that time.

ANSWER = ctypes.PYFUNCTYPE(
    ctypes.c_longlong, ctypes.c_double, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_longlong
)
"""The type of the function that answers questions. Its arguments are the time, the number of events in the list,
the number of a node, and the question. It returns `NOTHING`, `GIVES_UP` or a number from 0 on."""
ANY_MAP, ANY_REDUCE, RESTS, TURNED, AWAITS, LISTENS = range(6)
"""The questions. `ANY_MAP`, `ANY_REDUCE`: which task starts in a free slot of the node. `RESTS`: whether the node
rests. `TURNED`: whether resting nodes may receive a task again (see `Quiet.turn`). `AWAITS`: whether the policy
needs the next heartbeat of any node. `LISTENS` is no question, and only passes the list of events on. The answer yes
is 0."""
NOTHING, GIVES_UP = -1, -2
"""The answer no, and the answer after an error in Python, which ends the loop."""
NOBODY = -1
"""The number of the node in a question that is not about a node."""

JOINED, SUBMITTED, REPORTED, STOPPED, COMMITTED, TICKED, HEARTBEAT, PASSED = range(8)
"""The events, with what the number of an event stands for. A node joined (node). A job was submitted (job). An
attempt was reported as ended, or as stopped, and an attempt's output was committed (task). The JobTracker did
periodic work (0). A node sent a heartbeat, and a heartbeat was skipped (node)."""


def _call_in_python(address: int, now_s: float, steps: int, node: int, question: int) -> int:
    return ANSWER(int(address))(float(now_s), int(steps), int(node), int(question))


@intrinsic
def _call_compiled(
    typing_context: Any, address: Any, now_s: Any, steps: Any, node: Any, question: Any
) -> Any:
    """Call the function at `address`, an `ANSWER`, and return its result."""
    whole, real = types.int64, types.float64

    def generate(context: Any, builder: Any, of: Any, values: Any) -> Any:
        word, time = context.get_value_type(whole), context.get_value_type(real)
        function = ir.FunctionType(word, [time, word, word, word])
        return builder.call(builder.inttoptr(values[0], ir.PointerType(function)), values[1:])

    return signature(whole, whole, real, whole, whole, whole), generate


_call: Any = _call_in_python if CONFIG.DISABLE_JIT else _call_compiled


@compiled
def ask(state: State, node: int, question: int) -> int:
    """Return the answer about a node: a task, yes, `NOTHING` or `GIVES_UP`. Empties the list of events."""
    num = state.num
    answer = _call(num.asks, state.sec.now, num.n_steps, node, question)
    num.n_steps = 0
    num.n_decisions = state.answered[0]
    if answer == GIVES_UP:
        num.gave_up = 1
    return answer


@compiled
def tell(state: State, step: int, number: int) -> None:
    """Note an event for a policy in Python. `number` is that of a node, job or task, by `step`."""
    tell_at(state, state.sec.now, step, number)


@compiled
def tell_at(state: State, at_s: float, step: int, number: int) -> None:
    """Add an event at the time `at_s` to the list of events, as `tell` does."""
    if state.num.asks == 0:
        return
    if state.num.n_steps == len(state.steps):
        ask(state, NOBODY, LISTENS)
    entry = state.steps[state.num.n_steps]
    state.num.n_steps += 1
    entry.t = at_s
    entry.step = step
    entry.number = number

"""Checks that run during a test scenario: rows, used slots, and the core's own audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.hooks import Kill
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.view import View
from schedbed.tasks.specs import TaskKind
from tests.search.accidents import Accidents
from tests.search.oracles.avoidance_rule import AvoidanceRule, could_hold
from tests.search.oracles.row_rules import RowRules
from tests.search.oracles.watching import watch_policy
from tests.search.shares import shares_of_pools
from tests.search.story import StoryFault
from tests.search.violation import Violation, hold

MAX_FAILURES_ON_A_NODE = 3  # Equals `CoreConfig.node_failures_to_exclude`.
SLOWSTART = 0.05
LAUNCHES = ("launch", "split")  # Answers that launch an attempt.


class Rows:
    """A sink that keeps all rows and checks each row as it is written.

    `sim` must be set before the first step.
    """

    def __init__(
        self,
        faults: Sequence[StoryFault] = (),
        *,
        audits: bool = False,
        avoidance: AvoidanceRule | None = None,
    ) -> None:
        self.audits = audits
        self.sim: Simulation | None = None
        self._story_faults = faults
        self.decisions: list[DecisionRow] = []
        self.attempts: list[AttemptRow] = []
        self.jobs: list[JobRow] = []
        self.faults: list[tuple[object, ...]] = []
        self.state_by_attempt: dict[str, str] = {}
        self._failures: dict[tuple[str, str], int] = {}  # By job and node.
        self._rules = RowRules()
        self.avoidance = avoidance if avoidance is not None else AvoidanceRule()
        self.news: list[AttemptRow] = []  # Rows of attempts that ended since the last check.

    def decision(self, row: DecisionRow) -> None:
        """Keep the row, and check that a launched task may start on the node."""
        self.decisions.append(row)
        if self.sim is not None and self.audits:
            self._rules.decided(self.sim.core.ledger, row)
        if row.answer in LAUNCHES and self.sim is not None:
            self._check_excluded(self.sim, row)
            job = self.sim.core.ledger.jobs[row.job]
            early = row.kind == "reduce" and job.maps.done < SLOWSTART * job.maps.total
            hold(not early, "reduces wait for slow-start", row)
            _check_launch(self.sim, row)

    def _check_excluded(self, sim: Simulation, row: DecisionRow) -> None:
        if self._failures.get((row.job, row.node), 0) < MAX_FAILURES_ON_A_NODE:
            return
        ledger = sim.core.ledger
        stage = ledger.jobs[row.job].stage(TaskKind(row.kind))
        others = [
            node.node
            for node in ledger.nodes.values()
            if node.alive
            and not node.disk_full
            and self._failures.get((row.job, node.node), 0) < MAX_FAILURES_ON_A_NODE
            and could_hold(ledger, node, stage)
        ]
        hold(not others, "a job avoids where it failed", f"{row}, though there are {others}")

    def attempt(self, row: AttemptRow) -> None:
        """Keep the row, and check that the attempt has not ended before."""
        hold(row.attempt not in self.state_by_attempt, "an attempt ends once", row)
        self.state_by_attempt[row.attempt] = row.state
        self.attempts.append(row)
        self.news.append(row)
        if self.sim is not None and self.audits:
            accidents: Any = self.sim.emulation
            self._rules.ended(self.sim.core.ledger.now_s, row, accidents.reports.get(row.attempt))
        if row.state == "failed":
            if self.sim is not None and "no replica of" in row.reason:
                self._check_unreadable(self.sim, row)
            key = row.job, row.node
            self._failures[key] = self._failures.get(key, 0) + 1
            self.avoidance.failed(row)

    def _check_unreadable(self, sim: Simulation, row: AttemptRow) -> None:
        """Check that a block is unreadable only if faults hit all nodes that held a replica."""
        happened = [fault for fault in self._story_faults if fault.at_s <= row.end]
        if any(
            fault.kind in ("partition", "loss", "corrupt_replica", "delete_replica") for fault in happened
        ):
            return
        silent = ("kill", "freeze", "kill_tracker", "cut_off")
        touched = {name for fault in happened if fault.kind in silent for name in fault.nodes}
        block = row.reason.split("no replica of ")[1].split()[0]
        sim.storage.names.has_orders()  # The journal has all files only once the NameNode is used.
        for name in sim.node_by_name:
            life = sim.storage._journal._lives.get(name, {}).get(block)
            there = name not in touched and life is not None and life[1] < row.assigned
            hold(not there, "a block that a node holds is read", f"{row.attempt}: {name} has {block}")

    def job(self, row: JobRow) -> None:
        """Keep the row, and check it against the job's attempts."""
        self.jobs.append(row)
        if self.sim is not None and self.audits:
            self._rules.job_ended(self.sim.core.ledger.now_s, row, self.attempts)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Drop the row: repeated and lost heartbeats change these rows."""

    def block(self, row: tuple[object, ...]) -> None:
        """Drop the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Keep the row."""
        self.faults.append(row)

    def history(self) -> list[tuple[Any, ...]]:
        """Return all rows of decisions, attempts and jobs, for the comparison of two runs."""
        return [*map(tuple, self.decisions), *map(tuple, self.attempts), *map(tuple, self.jobs)]


def _check_launch(sim: Simulation, row: DecisionRow) -> None:
    """Check that a task has one running attempt and copies on other nodes only.

    Attempts that were told to stop do not count.
    """
    job, kind, index = row.task.rsplit("_", 2)
    task = sim.core.ledger.jobs[job].stage(TaskKind(row.kind)).tasks[int(index)]
    live = [attempt for attempt in task.attempts if attempt.state != "killing"]
    copies = [attempt for attempt in live if attempt.speculative]
    nodes = [attempt.node.node for attempt in live]
    hold(len(live) - len(copies) <= 1, "a task runs once, but for copies", f"{row}: {nodes}")
    hold(len(set(nodes)) == len(nodes), "a copy runs on another node", f"{row}: {nodes}")
    hold(job == row.job and kind == row.kind[0], "a row tells of its own task", row)


def check_slots(sim: Simulation, accidents: Accidents) -> None:
    """Check that no node runs more attempts than its slots or memory allow.

    The check counts the attempts of the emulation, independently of the core's tables.
    """
    limits = sim.core.ledger.limits
    for name, running in accidents.running.items():
        if not running:
            continue
        spec = sim.node_by_name[name].spec
        if limits.slots:
            reduces = sum(plan.kind is TaskKind.REDUCE for plan in running.values())
            if len(running) - reduces > spec.map_slots or reduces > spec.reduce_slots:
                raise Violation("no slot is over-used", f"{sim.now_s}: {name} runs {list(running)}")
        if limits.memory:
            memory = sum(plan.memory_bytes for plan in running.values())
            if memory > spec.memory_bytes:
                raise Violation("no memory is over-used", f"{sim.now_s}: {name} runs {list(running)}")


def check_tables(sim: Simulation) -> None:
    """Run the core's own audit of its tables: held + free = capacity, counters, indices."""
    try:
        sim.core.check_tables()
    except (AssertionError, KeyError) as error:
        raise Violation("the books balance", f"{sim.now_s}: {type(error).__name__} {error}") from error


def watch(policy: Any) -> Any:
    """Return the policy, changed to compare its answers with references (second implementations).

    Pre-emption by Fair is also compared with shares by bisection: no pool may fall below its share by a slot.
    """
    watch_policy(policy)
    order = getattr(policy, "order", None)
    if isinstance(order, Fair) and hasattr(policy, "preempt"):
        inner = policy.preempt

        def preempt(view: View) -> list[Kill]:
            kills = list(inner(view))
            if kills:
                _check_shares(order, view, kills)
            return kills

        policy.preempt = preempt
    return policy


def _check_shares(order: Fair, view: View, kills: list[Kill]) -> None:
    by_user = order._by_user
    for kind in TaskKind:
        shares, held = shares_of_pools(view, kind, by_user, order._settings)
        for kill in kills:
            task = kill.attempt.task
            if task.kind is kind and kill.reason.startswith("pool "):
                pool = task.job.user if by_user else task.job.queue
                held[pool] -= 1
                enough = held[pool] + 1 > shares[pool]  # The last kill may take a part of a slot too much.
                seen = f"{view.now_s}: {kill.attempt.attempt} of {pool}: {held[pool]} left of {shares[pool]}"
                hold(enough, "pre-emption leaves a pool its share", seen)

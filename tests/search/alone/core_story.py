"""A random test of the core alone: nodes send true and false reports, and its tables must stay consistent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from schedbed.cluster.messages import AttemptReport, AttemptStatus, FetchFailure, Heartbeat, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core import ledger as ledger_module
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import Commit, Discard
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.hooks import Kill, Limits, Proposal
from schedbed.scheduler.policy import PolicyError
from schedbed.tasks.chance import chance
from schedbed.tasks.parts import cut
from schedbed.tasks.specs import Counters, Demand, JobSpec, Priority, Split, TaskKind
from tests.search.alone.any_policy import AnyPolicy
from tests.search.oracles.avoidance_rule import AvoidanceRule
from tests.search.oracles.core_rules import CoreRules
from tests.search.oracles.forgetting import check_ended
from tests.search.oracles.lookups import watched_lookups
from tests.search.oracles.replies_rule import RepliesRule
from tests.search.oracles.row_rules import RowRules
from tests.search.violation import hold

KEPT, SILENCE_S, FETCHES = 3, 6.0, 2
DISK = "disk full"
ENDS = "attempts end as their nodes say"
SHOWN = "the last decisions are shown"


class Talker:
    """A simulated node that sometimes sends false reports: its running attempts and its last heartbeat."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.incarnation = self.sequence = 0
        self.runs: dict[str, bool] = {}  # Attempts, and whether each was told to stop.
        self.said: Heartbeat | None = None
        self.answer: Any = None
        self.full = False


class CoreStory:
    """Gives random events to a core, and checks all rules after each event."""

    BYTES = 1
    """Bytes of the unit in which demands and nodes count memory."""
    NAMES = 10_000
    """Number of names that jobs have."""
    SUBMITS, ENDING = 2.5, 0.25
    """How often jobs come, and the share of what runs that ends in a heartbeat."""
    USERS = ("ana", "bo")

    def __init__(self, seed: int, steps: int) -> None:
        luck = self._luck = chance(seed, "core alone")
        self._steps, self._now_s, self._jobs = steps, 0.0, 0
        self._most = luck.choice((0, 0, 1, 2))
        config = CoreConfig(
            heartbeat_s=1.0,
            expiry_s=SILENCE_S,
            fetch_failures_to_rerun=FETCHES,
            maps_per_heartbeat=self._most,
            reduces_per_heartbeat=self._most,
        )
        self._policy = self._made_policy(seed)
        self._core: Any = Core(config, self._policy, self, seed=seed)
        self._nodes = [Talker(self._spec(f"n{place}")) for place in range(luck.choice((1, 2, 3, 5)))]
        self._rows_of_attempts: list[Any] = []
        self._news: list[Any] = []
        self._ended_jobs: list[str] = []
        self._launches = 0
        self._old: list[AttemptReport] = []
        self._commits: list[str] = []
        self._heard: dict[str, float] = {}
        self._replies, self._rules, self._rows = RepliesRule(), CoreRules(), RowRules()
        self._avoidance = AvoidanceRule()
        self._fetches: dict[str, int] = {}
        self._last_ended, self._held_back = "", False
        self._decisions: list[Any] = []  # The last five.
        self._ticks = 0

    def _made_policy(self, seed: int) -> Any:
        """Return a policy that answers at random and records its hook calls."""
        luck = self._luck
        limits = luck.choice((Limits(), Limits(), Limits(False, True, True), Limits(True, True, False)))
        return AnyPolicy(luck, limits, copies=luck.random() < 0.6)

    def _spec(self, name: str) -> NodeSpec:
        luck = self._luck
        return NodeSpec(
            node=name,
            rack=f"r{luck.randrange(3)}",
            cores=luck.randint(1, 4),
            core_speed=1.0,
            memory_bytes=self.BYTES * luck.choice((2, 4, 8)),
            disk_bps=1e8,
            network_bps=1e8,
            map_slots=luck.choice((0, 1, 2, 3)),
            reduce_slots=luck.choice((0, 1, 2)),
        )

    # ------------------------------------------------------------ a sink

    def decision(self, row: Any) -> None:
        """Implement the sink: record a decision, and check the row against the core's state."""
        if row.answer != "skip":
            self._decisions = [*self._decisions[-4:], row]
        self._rows.decided(self._core.ledger, row)
        self._launches += row.answer in ("launch", "split")

    def attempt(self, row: Any) -> None:
        """Implement the sink: record an ended attempt, and check that it has not ended before."""
        hold(
            all(row.attempt != other.attempt for other in self._rows_of_attempts), "an attempt ends once", row
        )
        self._rows_of_attempts.append(row)
        self._news.append(row)
        if row.state == "failed":
            self._avoidance.failed(row)

    def job(self, row: Any) -> None:
        """Implement the sink: record an ended job, and check that it has not ended before."""
        hold(row.job not in self._ended_jobs, "every job ends once", row)
        self._ended_jobs.append(row.job)
        self._rows.job_ended(self._now_s, row, self._rows_of_attempts)

    # ------------------------------------------------------------ events

    def run(self) -> None:
        """Run random steps with checks. Raises Violation if a check fails."""
        steps = (
            (self._send_heartbeat, 22),
            (self._tick, 3),
            (self._submit, self.SUBMITS),
            (self._register, 1.5),
            (self._commit, 5),
            (self._move, 1),
            (self._ask, 3),
            (self._kill, 0.7),
            (self._lose, 0.4),
            (self._recover, 0.2),
        )
        with watched_lookups(in_turn=False), patch.object(ledger_module, "ENDED_KEPT", KEPT):
            for node in self._nodes[: max(1, len(self._nodes) - 1)]:
                self._enter(node, 1)
            self._submit()
            for _ in range(6 * self._steps):
                self._now_s = round(self._now_s + self._luck.choice((0.0, 0.1, 0.3)), 3)
                self._luck.choices([step for step, _ in steps], [often for _, often in steps])[0]()
                self._check()

    def _do(self, kind: str, *arguments: Any) -> Any:
        """Give the core one event, check all rules around it, and return the core's answer."""
        core = self._core
        fresh = self._rules.before(core, kind, arguments)
        if fresh and kind in ("heartbeat", "register"):
            full = kind == "heartbeat" and arguments[0].disk_full
            self._avoidance.heartbeat(arguments[0].node, full=full)
        self._news.clear()
        answer = getattr(core, kind)(self._now_s, *arguments)
        self._rules.after(core, self._now_s, kind, arguments, fresh)
        self._replies.discarded(core, self._news)
        if kind == "heartbeat" and fresh:
            self._replies.answered(core, arguments[0], answer, self._news)
        elif kind == "replicas_changed":
            self._replies.moved(core, *arguments)
        elif kind == "submit" and arguments[0].job in core.ledger.jobs:
            self._replies.check_hosts(core, core.ledger.jobs[arguments[0].job])
        reports = {each.attempt: each for each in arguments[0].finished} if kind == "heartbeat" else {}
        for row in self._news:
            self._rows.ended(self._now_s, row, self._report_of(row.attempt, reports))
        for effect in core.take_effects():
            if isinstance(effect, Commit):
                self._commits.append(effect.attempt)
            elif isinstance(effect, Discard):
                self._commits = [each for each in self._commits if each != effect.attempt]
        return answer

    def _report_of(self, attempt: str, reports: dict[str, AttemptReport]) -> AttemptReport | None:
        """Return the node's report of an attempt: from this heartbeat, else the latest earlier one."""
        return reports.get(attempt) or next(
            (old for old in reversed(self._old) if old.attempt == attempt), None
        )

    def _enter(self, node: Talker, incarnation: int) -> None:
        known = self._core.ledger.nodes.get(node.spec.node)
        if known is not None and known.alive and incarnation <= known.incarnation:
            before = known.incarnation, dict(known.attempts)
            self._do("register", node.spec, incarnation)
            after = self._core.ledger.nodes[node.spec.node]
            hold(after is known and (known.incarnation, known.attempts) == before, "no new life", node.spec)
            return
        if known is None or incarnation >= known.incarnation:
            node.incarnation, node.sequence, node.runs, node.full = incarnation, 0, {}, False
            node.said = None
            self._heard[node.spec.node] = self._now_s
        self._do("register", node.spec, incarnation)
        if known is not None and incarnation < known.incarnation:
            hold(self._core.ledger.nodes[node.spec.node] is known, "no new life", node.spec)

    def _register(self) -> None:
        """Register a node with a new incarnation, sometimes in another rack, or repeat a registration."""
        luck, node = self._luck, self._luck.choice(self._nodes)
        step = luck.choice((-1, 0, 0, 1, 1, 1))
        if step > 0 and luck.random() < 0.4:
            node.spec = self._spec(node.spec.node)
        self._enter(node, max(1, node.incarnation + step))

    def _submit(self) -> None:
        luck, self._jobs = self._luck, self._jobs + 1
        name = f"job_{self._jobs:04d}"
        hosts = [f"n{place}" for place in range(6)]
        with_input = luck.random() < 0.7
        splits = tuple(
            Split(
                index=index,
                file=f"/in{self._jobs % 3}" if with_input else None,
                offset=0,
                length=luck.choice((0, 1, 10, 100)) if with_input else 0,
                block=f"blk_{self._jobs % 3}_{index}" if with_input else None,
                hosts=tuple(luck.sample(hosts, luck.randint(0, 3))) if with_input else (),
            )
            for index in range(luck.choice((0, 1, 2, 4, 30)))
        )
        demand = Demand(memory_bytes=self.BYTES * luck.choice((1, 2, 3)), vcores=luck.choice((1, 2)))
        job = JobSpec(
            job=name,
            name=f"name_{self._jobs % self.NAMES}",
            app="any",
            user=luck.choice(self.USERS),
            queue=luck.choice(("default", "etl")),
            priority=luck.choice(list(Priority)),
            submit_s=self._now_s,
            splits=splits,
            reduces=luck.choice((0, 1, 1, 2)),
            map_demand=demand,
            reduce_demand=demand,
        )
        self._do("submit", job)
        for wrong in (job, replace(job, job="job_x", splits=tuple(reversed(splits)))):
            if wrong is job or len(splits) > 1:
                self._refused(ValueError, lambda wrong=wrong: self._core.submit(self._now_s, wrong))

    @staticmethod
    def _refused(error: type[Exception], what: Callable[[], Any]) -> None:
        try:
            what()
        except error:
            return
        hold(False, "what cannot be is refused", f"no {error.__name__}")

    def _send_heartbeat(self) -> None:
        """Send a heartbeat and check the answer.

        The heartbeat is new, a repetition of the last one, or of an earlier incarnation.
        """
        luck, node = self._luck, self._luck.choice(self._nodes)
        name = node.spec.node
        if node.said is not None and luck.random() < 0.08:
            known = self._core.ledger.nodes[name].alive
            answer = self._do("heartbeat", node.said)
            hold(not known or answer == node.answer, "a repeat is answered alike", answer)
            if known:
                self._heard[name] = self._now_s
            return
        if luck.random() < 0.03:
            self._do("heartbeat", Heartbeat(name, node.incarnation - 1, node.sequence + 5))
            return
        node.sequence += 1
        heartbeat, ends = self._words(node), self._core.ledger.nodes.get(name)
        wanted = {} if ends is None else self._wanted_ends(ends, heartbeat)
        self._policy.declined.clear()
        self._policy.copied.clear()
        fetched = self._fetches_of(heartbeat) if ends is not None and ends.alive else {}
        answer = self._do("heartbeat", heartbeat)
        live = ends is not None and ends.alive and ends.incarnation == node.incarnation
        if not live:
            return
        node.said, node.answer, self._heard[name] = heartbeat, answer, self._now_s
        self._old += heartbeat.finished
        found = {row.attempt: (row.state, row.reason) for row in self._news}
        for attempt, how in wanted.items():
            hold(how in (None, found.get(attempt)), ENDS, f"{attempt}: {found.get(attempt)} instead of {how}")
        for attempt, gone in fetched.items():
            job = self._core.ledger.jobs.get(attempt.rsplit("_", 3)[0])
            if job is not None:
                lost = any(each.lost and each.attempt == attempt for each in job.outputs)
                hold(lost is gone, "a map whose output cannot be fetched runs again", f"{attempt}: {lost}")
        self._obey(node, answer)
        self._check_offers(node, answer)

    def _words(self, node: Talker) -> Heartbeat:
        """Return a node's next heartbeat, sometimes with missing, repeated or false reports."""
        luck, name = self._luck, node.spec.node
        if luck.random() < 0.06:
            node.full = not node.full
        finished: list[AttemptReport] = []
        for attempt, told in list(node.runs.items()):
            if luck.random() < (0.7 if told else self.ENDING):
                states = (
                    ("killed", "killed", "succeeded", "failed")
                    if told
                    else ("succeeded",) * 7 + ("failed", "failed", "killed")
                )
                finished.append(self._end(attempt, luck.choice(states), full=node.full))
                del node.runs[attempt]
        running = [
            AttemptStatus(attempt, luck.random(), "map", self._now_s if luck.random() < 0.9 else None)
            for attempt in node.runs
            if luck.random() < 0.93
        ]
        if luck.random() < 0.05:
            running.append(AttemptStatus("job_0001_m_000000_99", 0.5, "map"))
        if self._old and luck.random() < 0.1:
            finished.append(luck.choice(self._old))
        failures: list[FetchFailure] = []
        outputs = [out.attempt for job in self._core.ledger.jobs.values() for out in job.outputs]
        if outputs and not finished and luck.random() < 0.3:
            failures.append(
                FetchFailure(reduce_attempt="job_0001_r_000000_0", map_attempt=luck.choice(outputs))
            )
        if not finished and luck.random() < 0.06:
            odd = luck.choice(("job_0001_m_99_0", "job_0001_x_000000_0", "odd", "job_0001_m_000000_7"))
            failures.append(FetchFailure(reduce_attempt="job_0001_r_000000_0", map_attempt=odd))
        usage = Usage(cpu_util=luck.random())
        said = tuple(running), tuple(finished), tuple(failures), usage, node.full
        return Heartbeat(name, node.incarnation, node.sequence, *said)

    def _end(self, attempt: str, state: str, *, full: bool) -> AttemptReport:
        counters = Counters(output_bytes=self._luck.randrange(100), cpu_s=1.0)
        reason = (
            "" if state == "succeeded" else DISK if full and self._luck.random() < 0.6 else f"{state} there"
        )
        start_s = max(0.0, self._now_s - self._luck.random())
        start_s = max(start_s, self._assigned(attempt))
        return AttemptReport(attempt, state, start_s, self._now_s, reason, counters)

    def _assigned(self, attempt: str) -> float:
        for node in self._core.ledger.nodes.values():
            if attempt in node.attempts:
                return float(node.attempts[attempt].assigned_s)
        return 0.0

    def _wanted_ends(self, node: Any, heartbeat: Heartbeat) -> dict[str, Any]:
        """Return how each reported attempt must end: its state and reason.

        The value is None if the end depends on other reports of the same heartbeat.
        """
        wanted: dict[str, Any] = {}
        seen: set[str] = set()
        for report in heartbeat.finished:
            attempt = node.attempts.get(report.attempt)
            if attempt is None or not node.alive or node.incarnation != heartbeat.incarnation:
                continue
            task, job = attempt.task, attempt.task.stage.job
            known = report.attempt in wanted or job.job in seen
            seen.add(job.job)
            told = attempt.reason if attempt.state == "killing" else ""
            if known:
                wanted[report.attempt] = None
            elif report.state == "failed" and not told:
                wanted[report.attempt] = ("failed", report.reason)
            elif report.state != "succeeded":
                wanted[report.attempt] = ("killed", told or report.reason)
            elif job.state != "running":
                wanted[report.attempt] = ("killed", told or f"job {job.state}")
            elif task.state != "running":
                wanted[report.attempt] = ("killed", "superseded")
            elif task.kind is TaskKind.MAP and job.reduces.total:
                wanted[report.attempt] = ("succeeded", "")
        return wanted

    def _fetches_of(self, heartbeat: Heartbeat) -> dict[str, bool]:
        """Return, for each map output that a heartbeat reports as unfetchable, whether it is given up."""
        gone: dict[str, bool] = {}
        node = self._core.ledger.nodes[heartbeat.node]
        if node.incarnation != heartbeat.incarnation or heartbeat.finished:
            return gone
        for failure in heartbeat.fetch_failures:
            attempt = failure.map_attempt
            job = self._core.ledger.jobs.get(attempt.rsplit("_", 3)[0])
            done = job.maps.tasks if job is not None and job.reduces.total else []
            if any(task.winner is not None and task.winner.attempt == attempt for task in done):
                self._fetches[attempt] = self._fetches.get(attempt, 0) + 1
                gone[attempt] = self._fetches[attempt] >= FETCHES
        return gone

    def _obey(self, node: Talker, answer: Any) -> None:
        for action in answer.actions:
            what = type(action).__name__
            if what == "Launch":
                node.runs[action.attempt] = False
            elif what == "KillAttempt" and action.attempt in node.runs:
                node.runs[action.attempt] = True

    def _check_offers(self, node: Talker, answer: Any) -> None:
        """Check that a reply launches no more tasks than allowed, and otherwise fills the free slots."""
        ledger, known = self._core.ledger, self._core.ledger.nodes[node.spec.node]
        copies = {name for name, each in known.attempts.items() if each.speculative}
        for kind in TaskKind:
            launches = [
                each for each in answer.actions if type(each).__name__ == "Launch" and each.kind is kind
            ]
            many = sum(each.attempt not in copies for each in launches)
            hold(not self._most or many <= self._most, "a reply starts so many", f"{many} {kind}s")
            slots = node.spec.map_slots if kind is TaskKind.MAP else node.spec.reduce_slots
            held = sum(each.task.kind is kind for each in known.attempts.values())
            ready = any(job.stage(kind).ready for job in ledger.jobs.values())
            room = not ledger.limits.slots or held < slots
            unasked = hasattr(self._policy, "speculation") and kind not in self._policy.copied
            hold(
                not (unasked and room),
                "what is left free is offered to copies",
                f"{kind} on {node.spec.node}",
            )
            enough = (self._most and many >= self._most) or kind in self._policy.declined
            hold(
                enough or not (ready and room),
                "a reply starts what it can",
                f"{many} {kind}s on {node.spec.node}",
            )

    def _tick(self) -> None:
        if self._luck.random() < 0.15:
            self._now_s += self._luck.choice((1.0, SILENCE_S / 2, SILENCE_S))
        alive = {name for name, node in self._core.ledger.nodes.items() if node.alive}
        self._do("tick")
        self._ticks += 1
        for name in alive:
            silent = self._heard[name] < self._now_s - SILENCE_S
            there = self._core.ledger.nodes[name].alive
            seen = f"{name} heard at {self._heard[name]}, now {self._now_s}"
            hold(there is not silent, "who is silent for too long is lost", seen)

    def _commit(self) -> None:
        if not self._commits:
            return
        luck, attempt = self._luck, self._luck.choice(self._commits)
        task = self._core.ledger.committing.get(attempt)
        hold(task is not None, "what is to be put into place waits for it", attempt)
        self._commits.remove(attempt)
        good = luck.random() < 0.8
        for _ in range(luck.choice((1, 1, 2))):
            self._do("committed", attempt) if good else self._do("commit_failed", attempt, "bad commit")
        state = next(row.state for row in reversed(self._rows_of_attempts) if row.attempt == attempt)
        hold(state == ("succeeded" if good else "failed"), ENDS, f"{attempt} {state} after its commit")

    def _move(self) -> None:
        luck = self._luck
        block = f"blk_{luck.randrange(3)}_{luck.randrange(5)}"
        read = {task.split.block for job in self._core.ledger.jobs.values() for task in job.maps.tasks}
        if block not in read:
            self._core.forget_block(block)
            self._replies.forget(block)
            return
        hosts = tuple(luck.sample([f"n{place}" for place in range(6)], luck.randint(0, 3)))
        self._do("replicas_changed", block, hosts)

    def _kill(self) -> None:
        luck = self._luck
        job = luck.choice([*self._core.ledger.jobs, "job_9999"])
        self._do("kill_job", job, "by order")
        if job != "job_9999":
            hold(self._core.ledger.ended[job].reason == "by order", "an ended job says why", job)

    def _lose(self) -> None:
        name = self._luck.choice(self._nodes).spec.node
        self._do("node_lost", name)
        known = self._core.ledger.nodes.get(name)
        hold(known is None or not known.alive, "a node that is lost is gone", name)

    def _recover(self) -> None:
        self._core.recovered(self._now_s)
        hold(self._core.ledger.now_s == self._now_s, "the core knows the time", self._now_s)
        self._rules.recovered(self._core, self._now_s)
        for name, node in self._core.ledger.nodes.items():
            if node.alive:
                self._heard[name] = self._now_s

    # ------------------------------------------------------------ questions

    def _ask(self) -> None:
        """Ask the core about a random proposal, and check that the core refuses an impossible one."""
        luck, ledger = self._luck, self._core.ledger
        nodes = [node for node in ledger.nodes.values() if node.alive]
        jobs = list(ledger.jobs.values())
        if not nodes or not jobs:
            return
        if luck.random() < 0.3:
            self._ask_to_kill()
        job, node = luck.choice(jobs), luck.choice(nodes)
        tasks = [*job.maps.tasks, *job.reduces.tasks]
        if not tasks:
            return
        task = luck.choice(tasks)
        kind = task.kind if luck.random() < 0.85 else luck.choice(list(TaskKind))
        split = luck.choice((None, None, 0.3, 0.0, 0.001))
        proposal = Proposal(task, "asked", split=split, speculative=luck.random() < 0.3)
        good = self._is_possible(node, kind, task, proposal)
        fault = ledger.why_not(node, kind, task, proposal)
        seen = f"{task.task} {task.state} on {node.node}: {fault}, {proposal.split}, {proposal.speculative}"
        hold((fault is None) is good, "what can be started may be", seen)
        other = Proposal(task, "another", split=split, speculative=proposal.speculative)
        if not good:
            for wrong in (proposal, other):
                self._refused(PolicyError, lambda wrong=wrong: ledger.launch(node, kind, wrong))
        elif not proposal.speculative and luck.random() < 0.1:
            ledger.launch(node, kind, proposal)  # The node never receives this launch.
            self._refused(PolicyError, lambda: ledger.launch(node, kind, proposal))
        else:
            twin = next((n for n in nodes if not self._is_possible(n, kind, task, other)), None)
            if twin is not None:
                self._refused(PolicyError, lambda: ledger.launch(twin, kind, other))
            ledger._possible = None

    def _ask_to_kill(self) -> None:
        ledger = self._core.ledger
        for node in ledger.nodes.values():
            for attempt in node.attempts.values():
                if attempt.state == "killing":
                    self._refused(PolicyError, lambda attempt=attempt: ledger.preempt(Kill(attempt, "again")))
                    return

    def _is_possible(self, node: Any, kind: TaskKind, task: Any, proposal: Proposal) -> bool:
        ledger, stage = self._core.ledger, task.stage
        job, limits = stage.job, self._core.ledger.limits
        if stage.kind is not kind or not stage.open:
            return False
        if proposal.speculative:
            if task.state != "running" or any(each.node is node for each in task.attempts):
                return False
        elif task.state != "unstarted":
            return False
        held = [each.task for each in node.attempts.values()]
        slots = node.spec.map_slots if kind is TaskKind.MAP else node.spec.reduce_slots
        if limits.slots and sum(each.kind is kind for each in held) >= slots:
            return False
        memory = sum(each.stage.demand.memory_bytes for each in held) + stage.demand.memory_bytes
        cores = sum(each.stage.demand.vcores for each in held) + stage.demand.vcores
        if (limits.memory and memory > node.spec.memory_bytes) or (limits.vcores and cores > node.spec.cores):
            return False
        if ledger.avoids(job, node, kind):
            return False
        if proposal.split is None:
            return True
        whole = task.part is None and not task.tries and not proposal.speculative
        reads = kind is TaskKind.MAP and job.reduces.total > 0 and task.hosts
        return bool(whole and reads and cut(task.split, proposal.split) is not None)

    # ------------------------------------------------------------ checks

    def _check(self) -> None:
        core, policy = self._core, self._policy
        core.check_tables()
        ledger = core.ledger
        self._avoidance.check(ledger)
        self._rules.check_counts(core, self._launches)
        for job in ledger.jobs.values():
            self._replies.check_hosts(core, job)
        check_ended(ledger)
        ended = [row.attempt for row in self._rows_of_attempts]
        times = (
            2 if hasattr(policy, "speculation") else 1
        )  # Each hook is called twice: the policy is its own speculation.
        hold(
            policy.heard["ended"] == [each for each in ended for _ in range(times)],
            "a policy is told",
            ended[-3:],
        )
        told = policy.heard["finished"]
        hold(told == [each for each in self._ended_jobs for _ in range(times)], "a policy is told", told[-3:])
        hold(len(policy.heard["submitted"]) == self._jobs, "a policy is told", self._jobs)
        hold(len(policy.heard["beat"]) == ledger.beats, "a policy is told", f"{ledger.beats} beats")
        hold(len(policy.heard["tick"]) == times * self._ticks, "a policy is told", f"{self._ticks} ticks")
        recent = list(ledger.recent)[-5:]
        hold(recent == self._decisions[-len(recent) :] if recent else not self._decisions, SHOWN, recent)
        for node in ledger.nodes.values():
            feeds = [feed.job.job for feed in node.feeds.values() if not (node.alive and feed.job.active)]
            hold(not feeds, "a node is told of jobs that go on", f"{node.node}: {feeds}")
            for attempt in node.attempts.values():
                fresh = attempt.status is not None or attempt.progress == 0.0
                hold(fresh and attempt.end_s == 0.0, "what has not begun has got nowhere", attempt.attempt)
        ledger.settle()
        for job in ledger.jobs.values():
            for kind in TaskKind:
                stage = job.stage(kind)
                now = stage.ready, stage.running, stage.unstarted, stage.killing
                if any(now):
                    hold(policy.ready.get((job.job, kind)) == now, "a policy is told", f"{job.job}: {now}")
        newest = self._ended_jobs[-KEPT:]
        hold(all(job in ledger.ended for job in newest), "the last jobs that ended are kept", newest)
        oldest = next(iter(ledger.ended), None)
        many = len(ledger.ended) > KEPT and not ledger.ended[oldest].attempts
        late = many and self._ended_jobs[-1] != self._last_ended  # Dropped when the next job ends.
        self._last_ended = self._ended_jobs[-1] if self._ended_jobs else ""
        hold(not late or self._held_back, "few jobs that ended are kept", list(ledger.ended))
        self._held_back = len(ledger.ended) > KEPT

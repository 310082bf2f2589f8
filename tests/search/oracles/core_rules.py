"""Rules that the core must satisfy after every event.

They cover times, new incarnations, attempt statuses, slow-start and counts.
"""

from __future__ import annotations

from typing import Any

from schedbed.cluster.messages import NO_USAGE
from tests.search.violation import Violation, hold

SLOWSTART = 0.05
TIMED = ("tick", "submit", "kill_job", "committed", "commit_failed", "replicas_changed", "node_lost")
FRESH = "a new life begins with nothing"
LISTED = "what a node lists is known, what it does not list is given up"


class CoreRules:
    """Checks a core after each event, and counts the events for comparison."""

    def __init__(self) -> None:
        self._heartbeats = 0
        self._launches = 0
        self._jobs: dict[str, None] = {}
        self._full: dict[str, bool] = {}  # Whether the disk is full, by node.

    def recovered(self, core: Any, now_s: float) -> None:
        """Check that the last heartbeat of all live nodes counts as received now, after a crash of the
        JobTracker.
        """
        late = [node.node for node in core.ledger.nodes.values() if node.alive and node.heard_s != now_s]
        hold(not late, "a new JobTracker gives nodes their time", f"{now_s}: {late}")

    def before(self, core: Any, kind: str, arguments: tuple[Any, ...]) -> Any:
        """Return whether an event is new, such as a heartbeat with a higher sequence number, for `after`.

        None for kinds of events that are never repeated.
        """
        nodes: Any = core.ledger.nodes
        if kind == "register":
            known: Any = nodes.get(arguments[0].node)
            if known is None:
                return True
            return arguments[1] > known.incarnation - (not known.alive)
        if kind == "heartbeat":
            node: Any = nodes.get(arguments[0].node)
            if node is None or not node.alive or node.incarnation != arguments[0].incarnation:
                return False
            return node.reply is None or arguments[0].sequence > node.sequence
        return None

    def after(self, core: Any, now_s: float, kind: str, arguments: tuple[Any, ...], news: Any) -> None:
        """Check the core's state after an event; `news` is the result of `before`."""
        ledger = core.ledger
        if kind in TIMED or news:
            hold(ledger.now_s == now_s, "the books have the time of the event", f"{ledger.now_s} at {now_s}")
        if kind == "register" and news:
            self._check_new(ledger.nodes[arguments[0].node], now_s, *arguments)
        elif kind == "heartbeat" and news:
            self._heartbeats += 1
            self._check_heartbeat(ledger.nodes[arguments[0].node], now_s, arguments[0])
        elif kind == "submit":
            self._jobs[arguments[0].job] = None
            if arguments[0].job in ledger.jobs:
                self._check_job(ledger.jobs[arguments[0].job], arguments[0])
        for job in ledger.jobs.values():
            wanted = job.reduces.total > 0 and job.maps.done >= SLOWSTART * job.maps.total
            hold(job.reduces.open is wanted, "reduces wait for slow-start", f"{now_s}: {job.job} {wanted}")
        avoiding = {job.job for job in ledger.jobs.values() if job.excluded}
        hold({job.job for job in ledger.avoiding} == avoiding, "jobs that avoid nodes are listed", avoiding)

    def _check_new(self, node: Any, now_s: float, spec: Any, incarnation: int) -> None:
        self._full[spec.node] = False
        held = node.attempts, node.feeds, node.outbox, node.reply, node.disk_full
        hold(not any(held) and node.alive, FRESH, f"{now_s}: {spec.node}: {held}")
        hold((node.spec, node.incarnation, node.heard_s) == (spec, incarnation, now_s), FRESH, node.node)
        hold(node.sequence < 0 and node.usage == NO_USAGE, FRESH, f"{node.node}: {node.usage}")

    def _check_job(self, job: Any, spec: Any) -> None:
        what = job.attempts, job.outputs, job.nodes, job.excluded, job.start_s, job.finish_s, job.output_bytes
        hold(not any(what) and not job.reason, FRESH, f"{job.job}: {what}")
        tasks = [*job.maps.tasks, *job.reduces.tasks]
        marks = [(task.tries, task.failures, task.failed_on, task.fetch_failures) for task in tasks]
        hold(all(not any(mark) for mark in marks), FRESH, f"{job.job}: {marks}")
        told = (job.user, job.queue, job.submit_s, job.deadline_s, job.priority)
        wanted = (spec.user, spec.queue, spec.submit_s, spec.deadline_s, spec.priority.rank)
        hold(told == wanted, FRESH, f"{job.job}: {told} instead of {wanted}")
        many = (len(job.maps.tasks), len(job.reduces.tasks))
        hold(many == (spec.maps, spec.reduces), FRESH, f"{job.job}: {many} tasks")

    def _check_heartbeat(self, node: Any, now_s: float, heartbeat: Any) -> None:
        """Check the node's state after a new heartbeat."""
        self._full[heartbeat.node] = heartbeat.disk_full
        seen = f"{now_s}: {heartbeat.node}"
        known = (node.heard_s, node.sequence, node.usage, node.disk_full)
        hold(
            known == (now_s, heartbeat.sequence, heartbeat.usage, heartbeat.disk_full),
            LISTED,
            f"{seen}: {known}",
        )
        for listed in heartbeat.running:
            attempt = node.attempts.get(listed.attempt)
            if attempt is not None:
                told = attempt.status == listed and attempt.started_s == listed.started_s
                hold(told and attempt.state != "assigned", LISTED, f"{seen}: {listed.attempt}")
                hold(attempt.progress == listed.progress, LISTED, f"{seen}: {listed.attempt}")
        there = {listed.attempt for listed in heartbeat.running}
        for name, attempt in node.attempts.items():
            if name not in there and attempt.sequence < heartbeat.sequence - 1:
                raise Violation(LISTED, f"{seen}: {name} is not listed, and still held")

    def check_counts(self, core: Any, launches: int) -> None:
        """Check the core's counts of heartbeats, launches and jobs."""
        ledger = core.ledger
        found = ledger.beats, ledger.launches, ledger.submissions
        wanted = self._heartbeats, launches, len(self._jobs)
        hold(found == wanted, "the core counts what happens", f"{found} instead of {wanted}")

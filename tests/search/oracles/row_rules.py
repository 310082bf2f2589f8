"""Reference for rows of attempts and jobs, computed from the decisions and the nodes' reports."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.search.violation import Violation, hold

TRUE = "rows tell what was"


class RowRules:
    """Follows launches and ends of attempts. Times are seconds since the start of the test."""

    def __init__(self) -> None:
        self._launches: dict[tuple[str, str, float], tuple[str, bool]] = {}  # Locality, and whether a copy.
        self._first_s: dict[str, float] = {}  # First launch by job.
        self._written: dict[str, int] = {}  # Bytes of committed output by job.
        self._tries: Counter[str] = Counter()  # Launches by task.
        self._split: set[str] = set()  # Tasks that were split.
        self._kills: set[str] = set()  # Tasks with a pre-empted attempt.

    def decided(self, ledger: Any, row: Any) -> None:
        """Record the launch in a row of decisions, and check that a skipped job is ready."""
        if row.answer == "skip":
            ready = row.job in ledger.jobs and getattr(ledger.jobs[row.job], f"{row.kind}s").ready
            hold(ready, "only ready jobs are skipped", row)
            return
        if row.answer not in ("launch", "split"):
            self._kills.add(row.task)
            return
        name, _, index = row.task.rsplit("_", 2)
        job = ledger.jobs[name]
        task = getattr(job, f"{row.kind}s").tasks[int(index)]
        racks = [ledger.rack_by_node.get(host) for host in task.hosts]
        here = ledger.nodes[row.node].spec.rack
        locality = "node" if row.node in task.hosts else "rack" if here in racks else "off"
        if task.split.length and not task.split.hosts:
            locality = "none"  # Its input has no location.
        live = [attempt for attempt in task.attempts if attempt.state != "killing"]
        self._launches[row.task, row.node, row.t] = locality, len(live) > 1
        self._first_s.setdefault(name, row.t)
        self._tries[row.task] += 1
        if row.answer == "split":
            self._split.add(row.task)

    def ended(self, now_s: float, row: Any, report: Any) -> None:
        """Check an attempt's row against its launch and its node's `report` (None if the node sent none)."""
        locality, copy = self._launches.get((row.task, row.node, row.assigned), ("", False))
        hold((row.locality, row.speculative) == (locality, copy), TRUE, f"{row}: {locality}, copy: {copy}")
        number = row.attempt.rpartition("_")[2]
        hold(row.task not in self._split or row.split_of == row.task, "a part tells of what was split", row)
        hold(number.isdecimal() and int(number) < self._tries[row.task], "attempts are numbered", row)
        hold(row.assigned <= row.end <= now_s or row.state == "killed", TRUE, f"{row} at {now_s}")
        hold(row.start is None or row.start >= row.assigned, TRUE, row)
        hold(bool(row.reason) is (row.state != "succeeded"), "what does not succeed has a reason", row)
        if row.state == "lost":
            hold(row.end == now_s, TRUE, f"{row} at {now_s}")
        elif report is not None and report.state == "killed" and row.state != "lost":
            hold(row.state == "killed", TRUE, f"{row}: {report}")
        elif row.state == "succeeded":
            if report is None or report.state != "succeeded":
                raise Violation(TRUE, f"{row}: {report}")
            told = (report.start_s, report.end_s, report.counters.output_bytes, report.counters.cpu_s)
            hold((row.start, row.end, row.output_bytes, row.cpu_s) == told, TRUE, f"{row}: {told}")
        elif row.state == "failed" and report is not None and report.state == "failed":
            hold(row.end == report.end_s and row.reason == report.reason, TRUE, f"{row}: {report}")
        if row.reason.startswith("pool "):
            hold(row.task in self._kills, "a pre-emption has its row", row)

    def job_ended(self, now_s: float, row: Any, attempts: list[Any]) -> None:
        """Check a job's row against the rows of its `attempts` so far."""
        hold(row.finish == now_s, TRUE, f"{row} at {now_s}")
        hold(row.start == self._first_s.get(row.job), TRUE, f"{row}: {self._first_s.get(row.job)}")
        last = "reduce" if row.reduces else "map"
        mine = [each for each in attempts if each.job == row.job and each.kind == last]
        written = sum(each.output_bytes for each in mine if each.state == "succeeded")
        hold(row.output_bytes == written, TRUE, f"{row}: {written} bytes")

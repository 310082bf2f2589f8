"""Turns a run's table rows and status into events for the live page. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.history import places_of

ATTEMPTS_KEPT = 6000
DECISIONS_KEPT = 200
FAULTS_KEPT = 200
LAUNCHED = ("launch", "split")

Json = dict[str, Any]


ATTEMPT = places_of("attempts", "attempt", "node", "assigned", "end", "state", "locality")
DECISION = places_of("decisions", "t", "answer", "job", "task", "node", "reason")
FAULT = places_of("faults", "t", "kind", "target", "until")
KIND, STATE, WHERE = places_of("attempts", "kind", "state", "locality")
(ANSWER,) = places_of("decisions", "answer")
JOB_STATE, SUBMIT, FINISH = places_of("jobs", "state", "submit", "finish")


class RunFeed:
    """Turns the rows and statuses of one run after another into events for the live page.

    For each status there is an event with the changes since the last status. A page that is opened later
    begins with `snapshot`, which has a bounded size, and ignores events up to the snapshot's number `seq`.
    Only one thread may use an instance at a time.
    """

    def __init__(self, *, submits: bool = False, read_only: bool = False) -> None:
        self._page = {"submits": submits and not read_only, "read_only": read_only}
        self._seq = 0
        self._results: list[Json] = []
        self._report = False
        self._clear({}, [])

    def _clear(self, about: Json, nodes: Sequence[Json]) -> None:
        self._about, self._specs = about, nodes
        self._now_s = 0.0
        self._jobs: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}
        self._since: dict[str, float] = {}
        self._ended: deque[list[Any]] = deque(maxlen=ATTEMPTS_KEPT)
        self._decisions: deque[list[Any]] = deque(maxlen=DECISIONS_KEPT)
        self._faults: deque[list[Any]] = deque(maxlen=FAULTS_KEPT)
        self._tally = RunTally()
        self._new: dict[str, list[list[Any]]] = {"ended": [], "decisions": [], "faults": []}

    def begin(self, nodes: Iterable[NodeSpec], about: Mapping[str, Any]) -> Json:
        """Begin a run on these nodes, and return its first event.

        `about` describes the run: its policy, its repeat, and its place among all runs of the command
        (`of_policies`, the run's number and the total).
        """
        self._clear(dict(about), [asdict(node) | {"cpu_rate": node.cpu_rate} for node in nodes])
        return self._told("all", self.snapshot())

    def take_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Store new rows of the table named `table`, to be part of the event that `take_status` returns next.

        The rows have the columns that `history.COLUMNS` lists for the table.
        """
        if table == "attempts":
            for row in rows:
                self._tally.count_attempt(row)
                self._note("ended", self._ended, [row[place] for place in ATTEMPT])
        elif table == "decisions":
            for row in rows:
                if row[ANSWER] != "skip":
                    self._note("decisions", self._decisions, [row[place] for place in DECISION])
        elif table == "jobs":
            for row in rows:
                self._tally.count_job(row)
        elif table == "faults":
            for row in rows:
                self._note("faults", self._faults, [row[place] for place in FAULT])

    def _note(self, name: str, kept: deque[list[Any]], row: list[Any]) -> None:
        kept.append(row)
        new = self._new[name]
        new.append(row)
        if len(new) > 2 * ATTEMPTS_KEPT:  # No status takes the rows while the JobTracker is down.
            del new[:ATTEMPTS_KEPT]

    def take_status(self, status: Mapping[str, Any]) -> Json:
        """Return an event with all changes between the last status of the JobTracker and `status`.

        The format of a status is described in `scheduler.core.status`.
        """
        self._now_s = float(status.get("now_s", self._now_s))
        assigned = {row[3]: row[0] for row in self._new["decisions"] if row[1] in LAUNCHED}
        running = {a: assigned.get(_task_of(a)) for node in status["nodes"] for a in node["running"]}
        self._since = {
            a: self._since.get(a, self._now_s if known_s is None else known_s)
            for a, known_s in running.items()
        }
        jobs = {row["job"]: dict(row) for row in status["jobs"]}
        nodes = {row["node"]: self._node(row) for row in status["nodes"]}
        step = {
            "now": self._now_s,
            "jobs": [row for job, row in jobs.items() if row != self._jobs.get(job)],
            "nodes": [row for node, row in nodes.items() if row != self._nodes.get(node)],
            **self._new,
        }
        # Jobs that the core has dropped are dropped here, too: a cluster may run for weeks.
        self._jobs, self._nodes = jobs, nodes
        self._new = {name: [] for name in self._new}
        return self._told("step", step)

    def _node(self, row: Mapping[str, Any]) -> Json:
        return {**row, "running": [[attempt, self._since[attempt]] for attempt in row["running"]]}

    def finish(self, state: str, note: str) -> Json:
        """End the run with the final state `state` and the remark `note`.

        Return an event with the metrics of this run and of all earlier runs of the command.
        """
        about = {key: self._about.get(key) for key in ("policy", "repeat")}
        self._results.append({**about, "state": state, "note": note, **self._tally.figures()})
        return self._told("results", {"results": list(self._results)})

    def over(self, has_report: bool) -> Json:
        """Return the last event for the pages, which says that the command has ended.

        `has_report` is whether the command has written a report.
        """
        self._report = has_report
        return self._told("over", {"report": has_report})

    def snapshot(self) -> Json:
        """Return all data that a page needs to show the current run.

        Later events do not change the returned data.
        """
        return {
            "seq": self._seq,
            "page": self._page,
            "about": self._about,
            "specs": self._specs,
            "now": self._now_s,
            "jobs": list(self._jobs.values()),
            "nodes": list(self._nodes.values()),
            "ended": list(self._ended),
            "decisions": list(self._decisions),
            "faults": list(self._faults),
            "results": list(self._results),
        }

    def _told(self, event: str, data: Json) -> Json:
        self._seq += 1
        return {"event": event, "data": data | {"seq": self._seq}}


class RunTally:
    """Adds up a run's ended jobs and attempts, and computes the metrics of the run from the sums."""

    def __init__(self) -> None:
        self._states: dict[str, int] = {}
        self._first_s, self._last_s, self._sum_s, self._finished = None, 0.0, 0.0, 0
        self._maps = self._local = self._attempts = 0

    def count_job(self, row: Sequence[Any]) -> None:
        """Add an ended job to the sums, given its row of the table `jobs`."""
        state, submit_s, finish_s = str(row[JOB_STATE]), row[SUBMIT], row[FINISH]
        self._states[state] = self._states.get(state, 0) + 1
        self._first_s = submit_s if self._first_s is None else min(self._first_s, submit_s)
        if finish_s is not None:
            self._last_s = max(self._last_s, finish_s)
            if state == "succeeded":
                self._sum_s += finish_s - submit_s
                self._finished += 1

    def count_attempt(self, row: Sequence[Any]) -> None:
        """Add an ended attempt to the sums, given its row of the table `attempts`."""
        self._attempts += 1
        if row[KIND] == "map" and str(row[STATE]) == "succeeded":
            self._maps += 1
            self._local += row[WHERE] == "node"

    def figures(self) -> Json:
        """Return the metrics of the run, each None if it is not known yet.

        They are the makespan and the mean completion time in seconds, the share of node-local maps, the
        number of attempts, and the number of jobs in each state.
        """
        first_s = self._first_s
        return {
            "makespan_s": None if first_s is None or not self._last_s else self._last_s - first_s,
            "completion_s": self._sum_s / self._finished if self._finished else None,
            "local": self._local / self._maps if self._maps else None,
            "attempts": self._attempts,
            "jobs": dict(self._states),
        }


def _task_of(attempt: str) -> str:
    return attempt.rpartition("_")[0]

"""The display during a live run: a picture that is redrawn on a terminal, plain lines elsewhere.

Both get the core's status (scheduler/core/core.py) with `policy`, `repeat` (from 0), `repeats`, `of_policies`
(number of this run, total) and, if known, `now_s`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, TextIO

Status = Mapping[str, Any]

REFRESH_S = 0.25
LINE_EVERY_S = 5.0
ENDED = ("succeeded", "failed", "killed", "timeout")


class Display(Protocol):
    """The protocol of displays for live runs: a context manager that shows the status of the current run."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def stage(self, doing: str) -> None:
        """Show a preparation step until the first status arrives."""
        ...

    def update(self, status: Status) -> None:
        """Show the newest status. Calls are cheap, at any rate."""
        ...


class PlainLines:
    """A display that prints a line for each change of a job or node, and a summary line every few seconds."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._run: object = None
        self._jobs: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._last_s = clock()

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.flush()

    def stage(self, doing: str) -> None:
        """Print nothing, unlike the picture on a terminal."""
        del doing

    def update(self, status: Status) -> None:
        """Print the changes of jobs and nodes since the last status, and a summary every few seconds."""
        run = (status.get("policy"), status.get("repeat"))
        if run != self._run:
            self._run, self._jobs, self._nodes = run, {}, {}
            self._say(title(status))
        for job in status["jobs"]:
            self._job(status, job)
        for node in status["nodes"]:
            if node["state"] != self._nodes.get(node["node"], "alive"):
                self._say(f"{run_time(status)} {node['node']} is {node['state']}")
            self._nodes[node["node"]] = node["state"]
        if self._clock() - self._last_s >= LINE_EVERY_S:
            self._say(f"{run_time(status)} {totals(status)}")

    def _job(self, status: Status, job: Mapping[str, Any]) -> None:
        before = self._jobs.get(job["job"])
        self._jobs[job["job"]] = job["state"]
        if before is None:
            size = f"{job['maps']} maps, {job['reduces']} reduces"
            self._say(f"{run_time(status)} {job['job']} {job['name']} of {job['user']} submitted: {size}")
        if job["state"] in ENDED and before not in ENDED:
            took = f" after {job['finish_s'] - job['submit_s']:.1f} s" if job["finish_s"] is not None else ""
            why = f": {job['reason']}" if job["reason"] else ""
            self._say(f"{run_time(status)} {job['job']} {job['name']} {job['state']}{took}{why}")

    def _say(self, line: str) -> None:
        self._last_s = self._clock()
        self._out.write(line.rstrip() + "\n")
        self._out.flush()


def title(status: Status) -> str:
    """Return the title of the run that a status describes, such as `fair, repeat 1 of 3 (run 2 of 6)`."""
    text = str(status.get("policy", ""))
    if status.get("repeats", 1) > 1:
        text += f", repeat {status.get('repeat', 0) + 1} of {status['repeats']}"
    if status.get("of_policies"):
        number, count = status["of_policies"]
        text += f" (run {number} of {count})"
    return text


def run_time(status: Status) -> str:
    """Return the time, such as `12.3 s`: `now_s`, or that of the last decision."""
    now_s = status.get("now_s")
    if now_s is None:
        now_s = max((row["t"] for row in status["recent"]), default=0.0)
    return f"{now_s:7.1f} s "


def totals(status: Status) -> str:
    """Return a line with ended jobs, finished tasks, running attempts and live nodes' mean CPU use."""
    jobs, nodes = status["jobs"], status["nodes"]
    ended = sum(job["state"] in ENDED for job in jobs)
    done = sum(job["maps_done"] + job["reduces_done"] for job in jobs)
    tasks = sum(job["maps"] + job["reduces"] for job in jobs)
    running = sum(len(node["running"]) for node in nodes)
    alive = [node for node in nodes if node["state"] == "alive"]
    cpu = sum(node["cpu_util"] for node in alive) / max(1, len(alive))
    return (
        f"{ended} of {len(jobs)} jobs ended, {done} of {tasks} tasks done, {running} running, "
        f"CPU {cpu:.0%} of {len(alive)} nodes"
    )

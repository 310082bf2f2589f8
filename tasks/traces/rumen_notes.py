"""Numbers of missing values and failures in a Rumen trace, reported as a few lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from schedbed.tasks.traces.trace import TraceTask


class Notes:
    """Counters of missing values and failures of jobs and tasks. `warnings` returns the counters as lines of text."""

    def __init__(self) -> None:
        self._jobs: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()

    def job(self, raw: Mapping[str, Any], maps: int, reduces: int) -> None:
        """Count a job if it failed, lists no maps, or lists other numbers of tasks than declared."""
        if raw.get("outcome") not in ("SUCCESS", None):
            self._jobs["did not succeed in the trace and are taken as if they had"] += 1
        if not maps:
            self._jobs["list no map tasks and are left out"] += 1
        elif (raw.get("totalMaps"), raw.get("totalReduces")) != (maps, reduces):
            self._jobs["list other numbers of tasks than their totals say; the listed ones count"] += 1

    def left_out(self, kinds: Iterable[Any]) -> None:
        """Count tasks that are neither maps nor reduces. `kinds` contains Rumen's name of the kind of each task."""
        for kind in kinds:
            self._tasks[
                f"{str(kind).lower()} tasks are left out; `framework: hadoop1` simulates such tasks"
            ] += 1

    def task(self, task: TraceTask, kind: str, succeeded: bool) -> None:
        """Count the missing values and the failed attempts of a task. `kind` is "map" or "reduce"."""
        checks = {
            f"{kind} attempts failed or were killed; they cost nothing here": task.failed_attempts,
            f"{kind} tasks have no successful attempt": not succeeded,
            f"{kind} tasks without a CPU time": task.cpu_s is None,
            f"{kind} tasks without input bytes": task.input_bytes is None,
            f"{kind} tasks without output bytes": task.output_bytes is None,
            f"{kind} tasks without a duration": task.duration_s is None,
            "map tasks without a preferred location": kind == "map" and not task.hosts,
        }
        for what, count in checks.items():
            if count:
                self._tasks[what] += int(count)

    def warnings(self) -> tuple[str, ...]:
        """Return a line for each kind of missing value or failure."""
        jobs = [f"{count} jobs {what}" for what, count in sorted(self._jobs.items())]
        return (*jobs, *(f"{count} {what}" for what, count in sorted(self._tasks.items())))

"""The data that an attempt passes to its agent: a status file while it runs, counters, and a final report."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedbed.tasks.pacing import own_cpu_s
from schedbed.tasks.specs import Counters

STATUS_EVERY_S = 0.2
OWN, CHILDREN = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


def write_json(path: Path, value: Any) -> None:
    """Write `value` as one line of JSON to the file at `path`, which is replaced atomically."""
    aside = path.with_name(path.name + ".tmp")
    aside.write_text(json.dumps(value) + "\n")
    aside.replace(path)


class StatusFile:
    """An attempt's file `status`, rewritten at most every 0.2 s. Times are emulated seconds of the run.

    `setup_cpu_s` is the CPU time that the process had used when this object was created.
    """

    def __init__(
        self,
        path: Path,
        epoch_s: float,
        clock: Callable[[], float] = time.time,
        stretch: float = 1.0,
    ) -> None:
        self._path = path
        self._epoch_s = epoch_s
        self._clock = clock
        self.stretch = stretch
        self.setup_cpu_s = own_cpu_s()
        self.started_s = self.now_s()
        self._next_s = self.started_s
        self._phase = ""

    def now_s(self) -> float:
        return (self._clock() - self._epoch_s) / self.stretch

    def report(self, phase: str, progress: float) -> None:
        """Write phase and progress (0 to 1) at most every 0.2 s, a new phase immediately."""
        now_s = self.now_s()
        if now_s < self._next_s and phase == self._phase:
            return
        self._phase = phase
        self._next_s = now_s + STATUS_EVERY_S
        line = {"progress": min(1.0, progress), "phase": phase, "started_s": self.started_s}
        write_json(self._path, line)

    def touch(self) -> None:
        """Update the file's time, which tells the agent that the attempt is alive."""
        with contextlib.suppress(OSError):
            os.utime(self._path)


class Meter:
    """The counters of resources that a running attempt has used. `add` may be called from any thread."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, name: str, amount: int) -> None:
        with self._lock:
            self._values[name] = self._values.get(name, 0) + amount

    def mark(self, name: str, at_s: float) -> None:
        """Set the time `shuffle_end` or `sort_end`, in seconds since the run's start."""
        self._values[name] = at_s

    def counters(self, setup_cpu_s: float = 0.0) -> Counters:
        """Return the counters with this process's CPU time, less `setup_cpu_s` from before, and peak memory."""
        peak_bytes = max(resource.getrusage(who).ru_maxrss for who in (OWN, CHILDREN)) * 1024
        own: Any = dict(self._values)
        return Counters(**own, cpu_s=cpu_s() - setup_cpu_s, memory_peak_bytes=peak_bytes)


def cpu_s() -> float:
    """Return CPU seconds of this process and its reaped children."""
    children = resource.getrusage(CHILDREN)
    return own_cpu_s() + children.ru_utime + children.ru_stime


def write_report(
    path: Path,
    state: str,
    reason: str,
    start_s: float,
    end_s: float,
    counters: Counters,
    partitions: list[int],
) -> None:
    """Write the report: the fields of `AttemptReport` except the id."""
    report = {"state": state, "reason": reason, "start_s": start_s, "end_s": end_s}
    write_json(path, {**report, "counters": asdict(counters), "partitions": partitions})

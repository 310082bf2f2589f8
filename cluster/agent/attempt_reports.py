"""The report of an ended attempt, from the attempt's report file or, without a file, from its exit code."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.folder import open_plain
from schedbed.cluster.agent.limits import NO_LOSSES, Losses
from schedbed.cluster.agent.node_groups import PROCESSES
from schedbed.cluster.agent.warm.spares import Spare
from schedbed.tasks.own.silence import StatusFileAge
from schedbed.tasks.specs import AttemptSpec, TaskKind

Message = dict[str, Any]
LOG_TAIL_BYTES = 4096
REPORT_BYTES = 4 * 2**20  # an attempt's report holds a number for each reduce
REASON_CHARS = 2000
BYTES_MAX = 2**60
SETUP_MAX_S = 1.0


@dataclass(slots=True)
class Running:
    """The agent's record of one attempt, from its launch until its report."""

    spec: AttemptSpec
    launched_s: float
    spare: Spare | None = None  # the forked process that runs the attempt
    losses: Losses = NO_LOSSES  # kernel counters of its group before the attempt
    kill_reason: str | None = None
    fail_reason: str | None = None  # why the agent itself kills the attempt
    silence: StatusFileAge | None = None  # detects inactivity; only for attempts with user code
    retried: bool = False
    begun: bool = False  # whether its own code has begun
    begun_s: float = 0.0  # CPU time of its group when its own code began
    done: bool = False  # whether its own code has ended
    worked_s: float = 0.0  # known CPU time of its own code
    exception: str = ""  # the exception that ended its process, in one line

    def over_limit(self, losses: Losses) -> str | None:
        """Return a description of the limit that the attempt has exceeded, or None.

        `losses` are the current kernel counters of the attempt's control group.
        """
        if losses.oom_kills > self.losses.oom_kills:
            return f"over its memory limit of {self.spec.memory_bytes / 2**20:.0f} MiB"
        if losses.refused_forks > self.losses.refused_forks:
            return f"over its limit of {PROCESSES} processes and threads"
        return None


def report_of(
    running: Running, folder: Path, code: int | None, error: str, *, over: str | None, now_s: float
) -> Message:
    """Return the fields of an AttemptReport for the ended attempt `running`.

    `code` is the exit code of the attempt's process, negative for a signal. If it is None, `error` is the
    reason. `folder` is the attempt's folder with the report file. `over` is the limit that the attempt
    exceeded, or None. `now_s` is the end time if the report file has none.
    """
    said = read_json(folder / "report.json")
    started_s = _number(said.get("start_s")) or _number(read_json(folder / "status").get("started_s"))
    ended_s = _number(said.get("end_s"))
    counters, partitions = said.get("counters"), said.get("partitions")
    report = {
        "attempt": running.spec.attempt,
        "state": "failed",
        "reason": "",
        "start_s": running.launched_s if started_s is None else started_s,
        "end_s": now_s if ended_s is None else ended_s,
        "counters": _plain(counters) if isinstance(counters, dict) else {},
        "partitions": [],
    }
    if over is not None and running.kill_reason is None:
        return report | {"reason": over}
    if code is not None and code >= 0 and said.get("state") in ("succeeded", "failed"):
        whole = isinstance(partitions, list) and all(type(size) is int and size >= 0 for size in partitions)
        told = {"state": said["state"], "reason": str(said.get("reason", ""))[:REASON_CHARS]}
        return report | told | {"partitions": partitions if whole else []}
    if running.kill_reason is not None:
        return report | {"state": "killed", "reason": running.kill_reason}
    return report | {"reason": error or _why(code, folder / "log", running.exception)}


def status_of(running: Running, folder: Path) -> Message:
    """Return the fields of an AttemptStatus for the attempt `running`, from the status file in `folder`."""
    said = read_json(folder / "status")
    progress, phase = _number(said.get("progress")), said.get("phase")
    first = "map" if running.spec.kind is TaskKind.MAP else "shuffle"
    return {
        "attempt": running.spec.attempt,
        "progress": 0.0 if progress is None else min(1.0, max(0.0, progress)),
        "phase": phase[:REASON_CHARS] if isinstance(phase, str) else first,
        "started_s": _number(said.get("started_s")),
    }


def peak_bytes(message: Message) -> Message:
    """Return {"memory_peak_bytes": n} with the number in the message of an attempt's process.

    The number is 0 if the message contains none, or an impossible one (negative, too large or no integer).
    """
    told = message.get("memory_peak_bytes")
    return {"memory_peak_bytes": told if type(told) is int and 0 <= told < BYTES_MAX else 0}


def setup_of(message: Message) -> float:
    """Return the CPU seconds that an attempt's process used for its setup, according to its message.

    The value is limited to between 0 and SETUP_MAX_S, since an attempt's messages may be wrong.
    """
    return min(SETUP_MAX_S, max(0.0, _number(message.get("setup_cpu_s")) or 0.0))


def read_json(path: Path) -> Message:
    """Return the JSON object in a file that an attempt wrote, or {} if the file is missing or invalid."""
    try:
        value = json.loads(read_tail(path, REPORT_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_tail(path: Path, length: int) -> bytes:
    """Return the last `length` bytes of a regular file, or the whole file if it is shorter.

    Links are not followed, and pipes do not block. Raises OSError.
    """
    with open_plain(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        return file.read(length)


def _number(value: Any) -> float | None:
    """Return the value as a float if it is a finite number, or else None."""
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None


def _plain(counters: Message) -> Message:
    """Return a copy of `counters` with only those entries whose value is None or a finite number."""
    return {name: value for name, value in counters.items() if value is None or _number(value) is not None}


def _why(code: int | None, log: Path, exception: str) -> str:
    """Return the reason why a process ended without a report: its exit code and the last line of its log.

    `exception` is used if the log is empty or missing.
    """
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        return f"killed by signal {-code}"
    last = _last_line(log) or exception
    shown = "unknown" if code is None else code
    return f"ended with status {shown} and no report" + (f": {last}" if last else "")


def _last_line(path: Path) -> str:
    try:
        lines = read_tail(path, LOG_TAIL_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""The report of an attempt that has ended: its own when it left one, else the reason why it did not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.tasks.specs import AttemptSpec

Message = dict[str, Any]
LOG_TAIL_BYTES = 4096


@dataclass(slots=True)
class Running:
    """An attempt between its launch and its report."""

    spec: AttemptSpec
    slot: int
    launched_s: float
    oom_kills: int  # of its slot, when it was launched
    pid: int | None = None
    kill_reason: str | None = None
    setup_cpu_s: float | None = None  # what starting it took, once its own code has begun
    worked_s: float = 0.0  # CPU time of its own code, as far as it is known


def report_of(
    running: Running, folder: Path, status: int | None, error: str, *, over_memory: bool, now_s: float
) -> Message:
    """Fields of AttemptReport. `status` is what wait gave, None when nobody could wait; `error` says why then.

    `folder` is the attempt's scratch folder; `over_memory` that the kernel has killed in its slot for memory.
    """
    said = read_json(folder / "report.json")
    started_s = said.get("start_s") or read_json(folder / "status").get("started_s")
    report = {
        "attempt": running.spec.attempt,
        "state": "failed",
        "reason": "",
        "start_s": running.launched_s if started_s is None else started_s,
        "end_s": said.get("end_s", now_s),
        "counters": said.get("counters", {}),
        "partitions": said.get("partitions", []),
    }
    if status is not None and os.WIFEXITED(status) and said.get("state") in ("succeeded", "failed"):
        return report | {"state": said["state"], "reason": said.get("reason", "")}
    report["partitions"] = []
    if running.kill_reason is not None:
        return report | {"state": "killed", "reason": running.kill_reason}
    if over_memory:
        limit = f"{running.spec.memory_bytes / 2**20:.0f} MiB"
        return report | {"reason": f"over its memory limit of {limit}"}
    return report | {"reason": error or _why(status, folder / "log")}


def read_json(path: Path) -> Message:
    """The object in a file; empty when there is none, or it is not whole."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _why(status: int | None, log: Path) -> str:
    """How a process ended that left no report."""
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            return f"killed by signal {number} ({signal.Signals(number).name})"
        return f"killed by signal {number}"
    code = os.waitstatus_to_exitcode(status) if status is not None else "unknown"
    last = _last_line(log)
    return f"ended with status {code} and no report" + (f": {last}" if last else "")


def _last_line(path: Path) -> str:
    try:
        lines = path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

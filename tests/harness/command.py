"""Runs a schedbed command as a user does, and observes its processes, its end and its leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml

DEADLINE_S = 400.0  # Timeout for a run that takes some 20 s on an idle host.
PATIENCE_S = 120.0  # Timeout for events that take seconds on an idle host.

SCENARIO: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "scale": 0.05,
    "cluster": {
        "nodes": 3,
        "racks": 2,
        "heartbeat": "250ms",
        "node": {"cores": 2, "core_speed": 0.1, "memory": "512MiB", "map_slots": 2, "reduce_slots": 1},
    },
    "blocks": {"size": "16MiB", "replication": 2},
    "workload": {
        "jobs": [
            {
                "name": "words",
                "app": "wordcount",
                "input": {"generate": "text", "size": "96MiB"},
                "reduces": 2,
                "user": "ana",
            },
            {
                "name": "order",
                "app": "sort",
                "input": {"generate": "records", "size": "96MiB"},
                "reduces": 2,
                "user": "bo",
            },
            {
                "name": "burn",
                "app": "synthetic",
                "maps": 8,
                "map": {"cpu": "30s", "read": "16MiB", "write": "16MiB"},
                "reduces": 1,
                "reduce": {"cpu": "20s", "write": "16MiB"},
                "user": "cleo",
            },
        ]
    },
    "policies": ["fifo"],
}


class Started:
    """The processes that belong to a command with the process id `pid`, found from outside."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def mark(self) -> str:
        """Return the text that is in the command line or environment of every process of the command."""
        return f"schedbed-{self.pid}-"

    def processes(self) -> Iterator[psutil.Process]:
        """Yield all running processes of the command, except its first one."""
        for process in psutil.process_iter():
            try:
                if process.pid != self.pid and self._is_ours(process):
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue

    def _is_ours(self, process: psutil.Process) -> bool:
        said = " ".join(process.cmdline()) + " ".join(f"{k}={v}" for k, v in process.environ().items())
        if self.mark() in said:
            return True
        return any(self.mark() in " ".join(parent.cmdline()) for parent in process.parents())

    def find(self, what: str) -> psutil.Process:
        """Wait for a process of the command with `what` in its command line, and return the process."""
        return eventually(
            lambda: next((p for p in self.processes() if what in _command_line(p)), None), f"no {what}"
        )

    def scratch(self) -> list[Path]:
        """Return the existing scratch folders of the command."""
        return list(Path("/tmp").glob(f"{self.mark()}*"))

    def left_behind(self) -> list[str]:
        """Return the leftovers of an ended command: processes, folders, control groups and shared memory.

        Waits up to `PATIENCE_S` for them to disappear, since Ray does not end at once.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            left = [_command_line(process)[:100] for process in self.processes()]
            left += [str(path) for path in self.scratch()]
            left += [name for name in _control_groups() if f"-{self.pid}-" in name]
            left += [str(path) for path in Path("/dev/shm").glob("*") if self.mark() in path.name]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.5)


class Command(Started):
    """A running `schedbed` command whose output goes to a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log.txt"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "schedbed", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        super().__init__(self.process.pid)

    def text(self) -> str:
        """Return the output so far."""
        return self.log.read_text(errors="replace")

    def wait(self) -> int:
        """Wait for the command and return its exit code. Raises AssertionError if it does not end."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end within {DEADLINE_S} s:\n{self.text()}") from None

    def interrupt(self) -> None:
        """Send the signal of Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def wait_for_attempts(self) -> None:
        """Wait until the first task attempts run, so that most of the work is not done yet."""

        def begun() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"ended before any attempt ran:\n{self.text()}")
            return any(any(folder.glob("run*/nodes/*/attempts/job_*")) for folder in self.scratch())

        eventually(begun, "no attempt ran", DEADLINE_S)


def start_run(folder: Path, scenario: Path, *options: str, report: bool = False) -> tuple[Command, Path]:
    """Start a live run that keeps its outputs; return the command and the folder of its results.

    `report`: the run also makes its report, whose plots use the CPU for seconds, as long as some runs do.
    """
    out = folder / "out"
    given = ["--out", str(out), "--keep-outputs", "--no-live", *([] if report else ["--no-report"]), *options]
    return Command(folder, "run", str(scenario), *given), out


def _control_groups() -> Iterator[str]:
    """Yield the folders of all control groups that schedbed has created."""
    for parent, folders, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{parent}/{name}" for name in folders if name.startswith("schedbed-"))


def _command_line(process: psutil.Process) -> str:
    """Return a process's name and command line; empty if it has just ended."""
    try:
        return " ".join((process.name(), *process.cmdline()))
    except psutil.NoSuchProcess:
        return ""


def eventually(look: Callable[[], Any], otherwise: str, within_s: float = PATIENCE_S) -> Any:
    """Return the first true result of `look`.

    Raises AssertionError with the text `otherwise` after `within_s` seconds.
    """
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(otherwise)


def write_scenario(folder: Path, **changes: Any) -> Path:
    """Write the small scenario to a file, with top-level keys replaced by `changes`; return the path."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO | changes))
    return path


def outputs(folder: Path, policy: str = "fifo") -> dict[str, bytes]:
    """Return the kept outputs of a run under `policy`, a dictionary from `job/part` to the part's bytes."""
    root = folder / "outputs" / policy / "0"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("*/part-*"))}

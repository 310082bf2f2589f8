"""CPU time and memory of a command with all its descendants, read from /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.05
END_S = 60.0
PR_SET_CHILD_SUBREAPER = 36
SCHEDBED = (sys.executable, "-m", "schedbed")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """A line of /proc/PID/stat.

    `cpu_s` is the process's own CPU time, without that of children it has waited for.
    """

    pid: int
    parent: int
    cpu_s: float
    began: int  # with the pid it names a process for good


def parse_stat(text: str) -> Stat:
    """Parse a line, in which the process's name may contain spaces and brackets.

    Raise ValueError or IndexError if the line is malformed.
    """
    fields = text.rpartition(")")[2].split()
    return Stat(
        int(text.split()[0]), int(fields[1]), (int(fields[11]) + int(fields[12])) * _TICK_S, int(fields[19])
    )


def read_stat(pid: int) -> Stat | None:
    """Return the parsed /proc line of the process `pid`, or None if the process has ended."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends, so that they stay below it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class TreeWatch:
    """A record of the CPU time of all descendants of this process, which `look` updates.

    A process's CPU time after the last look is lost. Call `adopt_orphans` before.
    """

    def __init__(self) -> None:
        self._root = os.getpid()
        self._used: dict[tuple[int, int], float] = {}
        self._ours = {self._root}
        self._foreign: set[int] = set()
        self.look()
        self._before = dict(self._used)

    def look(self) -> None:
        """Read the CPU time of all descendants that run now."""
        present = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        self._foreign &= present
        self._ours &= present
        stats = [stat for pid in sorted(present - self._foreign) if (stat := read_stat(pid))]
        new = [stat for stat in stats if stat.pid not in self._ours]
        while found := [stat for stat in new if stat.parent in self._ours]:
            self._ours.update(stat.pid for stat in found)
            new = [stat for stat in new if stat.pid not in self._ours]
        self._foreign.update(stat.pid for stat in new)
        for stat in stats:
            if stat.pid in self._ours and stat.pid != self._root:
                self._used[stat.pid, stat.began] = stat.cpu_s

    def pids(self) -> list[int]:
        """Return the descendants that ran at the last look."""
        return sorted(self._ours - {self._root})

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds that all descendants have used since the watch was created."""
        return sum(used - self._before.get(name, 0.0) for name, used in self._used.items())

    def memory_bytes(self) -> int:
        """Return the proportional set size of the descendants of the last look: memory that they share counts
        once.
        """
        return sum(map(pss_bytes, self.pids()))


def pss_bytes(pid: int) -> int:
    """Return the proportional set size of the process `pid`, or 0 if the process has gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


@contextlib.contextmanager
def watched() -> Iterator[TreeWatch]:
    """Yield a TreeWatch that looks every `POLL_S` seconds until the block ends."""
    watch, over = TreeWatch(), threading.Event()

    def keep_looking() -> None:
        while not over.wait(POLL_S):
            watch.look()

    thread = threading.Thread(target=keep_looking)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


@dataclass(slots=True)
class Usage:
    """The elapsed and CPU seconds that a command used. `text` is its output."""

    wall_s: float
    cpu_s: float
    text: str = field(repr=False, default="")


def run_watched(command: list[str], log: Path) -> Usage:
    """Run a command to its end and measure it with its descendants. Its output goes to the file `log`.

    Raise RuntimeError with the end of the output if the command fails.
    """
    with watched() as watch, log.open("wb") as out:
        began_s = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        code = process.wait()
        wall_s = time.monotonic() - began_s
    reap()
    text = log.read_text(errors="replace")
    if code:
        raise RuntimeError(f"{' '.join(command[-6:])}: exit code {code}\n{text[-2000:]}")
    return Usage(wall_s, watch.cpu_s, text)


def reap() -> None:
    """Collect the exit codes of children that have ended, so that no zombies stay."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@contextlib.contextmanager
def started(
    command: list[str],
    log: Path,
    ready: Callable[[], bool],
    within_s: float,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during the block, which begins when `ready` returns True.

    Interrupt the command at the block's end. Raise RuntimeError if the command is not ready within `within_s`
    seconds.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            preexec_fn=_heed_interrupts,
        )
    try:
        give_up_s = time.monotonic() + within_s
        while not ready():
            if process.poll() is not None or time.monotonic() > give_up_s:
                raise RuntimeError(
                    f"{command[-1]} did not come up:\n{log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reap()


def _heed_interrupts() -> None:
    """Restore the default action of SIGINT, which background jobs of a shell would ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

"""What a command and everything below it uses: CPU and memory of the whole tree of processes, from /proc."""

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
    """A line of /proc/PID/stat: `cpu_s` is the process's own, not that of children it has waited for."""

    pid: int
    parent: int
    cpu_s: float
    began: int  # with the pid it names a process for good


def parse_stat(text: str) -> Stat:
    """Reads a line; a name may hold spaces and brackets. ValueError or IndexError on anything else."""
    fields = text.rpartition(")")[2].split()
    return Stat(
        int(text.split()[0]), int(fields[1]), (int(fields[11]) + int(fields[12])) * _TICK_S, int(fields[19])
    )


def read_stat(pid: int) -> Stat | None:
    """The process's line, None when it is gone."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def adopt_orphans() -> None:
    """Processes below this one whose parent ends come to this one, so that they stay in sight."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class TreeWatch:
    """Looks at all processes below this one every 50 ms and remembers what each has used.

    Misses at most the last 50 ms of a process. Call `adopt_orphans` before.
    """

    def __init__(self) -> None:
        self._root = os.getpid()
        self._used: dict[tuple[int, int], float] = {}
        self._ours = {self._root}
        self._foreign: set[int] = set()
        self.look()
        self._before = dict(self._used)

    def look(self) -> None:
        """Takes one look."""
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
        """Those below this process that ran at the last look."""
        return sorted(self._ours - {self._root})

    @property
    def cpu_s(self) -> float:
        """CPU time of all that was below this process, since the watch began."""
        return sum(used - self._before.get(name, 0.0) for name, used in self._used.items())

    def memory_bytes(self) -> int:
        """Proportional set size of all at the last look: what they share counts once."""
        return sum(map(pss_bytes, self.pids()))


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


@contextlib.contextmanager
def watched() -> Iterator[TreeWatch]:
    """A TreeWatch that looks by itself until the block is left."""
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
    """What a command took."""

    wall_s: float
    cpu_s: float
    text: str = field(repr=False, default="")


def run_watched(command: list[str], log: Path) -> Usage:
    """Runs a command to its end, its output in `log`; raises RuntimeError with the output's end when it fails."""
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
    """Forgets the orphans that have ended here."""
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
    """A command that runs during the block, which begins when `ready`; interrupted as by Ctrl-C at its end."""
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
    """A shell's background jobs ignore SIGINT, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

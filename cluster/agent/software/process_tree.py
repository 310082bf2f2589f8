"""An attempt's process and all processes started from it: their use by /proc, and signals to all of them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLOCK_SCHED = 2  # a process's CPU clock is named by its id and this: clock_getcpuclockid(3)
READ_BYTES = 1 << 16
ROUNDS = 8  # of signals: what is forked meanwhile gets it in the next


class Seen(NamedTuple):
    """A process at one moment: its own CPU time, that of its waited-for children, resident memory including shared
    pages, threads, start time."""

    own_s: float
    waited_s: float
    resident_bytes: int
    threads: int
    since: int


class ProcessTree:
    """The processes below `root`, including it. Attempts are subreapers, so their descendants stay below them.

    `used_s` is the CPU time of all since `root` was forked, `resident_bytes` their memory at most, both as of the
    last `look`. The use of a child between that and its end is missed only if nobody waits for it.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self.used_s = 0.0
        self.resident_bytes = 0
        first = _see(root)
        self._since = None if first is None else first.since
        self._seen: dict[int, Seen] = {}
        self._inherited_s = 0.0

    def look(self) -> bool:
        """Measure all processes. Return False, and change nothing, if the root has ended."""
        found = self._find()
        if not found:
            return False
        own_s = inherited_s = 0.0
        for pid, now in found.items():
            before = self._seen.pop(pid, None)
            own_s += max(0.0, now.own_s - (before.own_s if before else 0.0))
            inherited_s += max(0.0, now.waited_s - (before.waited_s if before else 0.0))
        # The parent of one that was waited for has its time, in whole ticks, now or at the next look when it was read
        # before the child went; the child's time was seen in part before.
        gone_s = sum(seen.own_s + seen.waited_s for seen in self._seen.values())
        self._inherited_s = max(-TICK_S - gone_s, self._inherited_s + inherited_s - gone_s)
        self.used_s += own_s + max(0.0, self._inherited_s)
        self._inherited_s = min(0.0, self._inherited_s)
        self.resident_bytes = sum(seen.resident_bytes for seen in found.values())
        self._seen = found
        return True

    def held_bytes(self) -> int:
        """Return the memory of all processes without files. Shared pages are divided among their users."""
        return sum(map(_own_bytes, self._find()))

    def signal(self, number: int) -> None:
        """Send a signal to all processes, including those forked meanwhile."""
        told: set[int] = set()
        for _ in range(ROUNDS):
            new = self._find().keys() - told
            if not new:
                return
            for pid in new:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            told |= new

    def _find(self) -> dict[int, Seen]:
        """Return all processes of the tree; none if the root has ended, since its pid may be reused."""
        found: dict[int, Seen] = {}
        todo = [self.root]
        for pid in todo:  # grows on the way
            seen = _see(pid)
            if seen is None or (pid == self.root and seen.since != self._since):
                continue
            found[pid] = seen
            todo.extend(_children(pid, seen.threads))
        return found


def _see(pid: int) -> Seen | None:
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | CLOCK_SCHED)  # to the nanosecond, where stat counts ticks
    except (OSError, IndexError):
        return None
    waited, resident = int(fields[13]) + int(fields[14]), int(fields[21])
    return Seen(own_s, waited * TICK_S, resident * PAGE_BYTES, int(fields[17]), int(fields[19]))


def _children(pid: int, threads: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        own = Path(f"/proc/{pid}/task")
        for thread in [f"{own}/{pid}"] if threads <= 1 else own.iterdir():
            found.extend(map(int, _read(f"{thread}/children").split()))
    return found


def _read(path: str) -> bytes:
    """Return a file below /proc by a single read, since this is done many times a second."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, READ_BYTES)
    finally:
        os.close(descriptor)


def _own_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    parts = [
        kib[name] for name in ("Pss_Anon", "Pss_Shmem") if name in kib
    ]  # older kernels have their sum alone,
    return (sum(parts or [kib.get("Pss", 0)]) + kib.get("SwapPss", 0)) * 1024  # with the pages of files

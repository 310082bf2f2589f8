"""The processes of an attempt: their resource usage, measured from /proc, and signals to all of them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLOCK_SCHED = 2  # part of the id of a process's CPU clock: clock_getcpuclockid(3)
READ_BYTES = 1 << 16
ROUNDS = 8  # maximum rounds of signals; processes forked meanwhile get the signal in the next round


class Seen(NamedTuple):
    """The measurements of one process at one time.

    `own_s` is the CPU time of the process, and `waited_s` the CPU time of those ended children for which the
    process has waited. `resident_bytes` includes shared pages. `since` is the process's start time, in clock
    ticks since boot.
    """

    own_s: float
    waited_s: float
    resident_bytes: int
    threads: int
    since: int


class ProcessTree:
    """The process `root` and its descendants, with their resource usage.

    `used_s` is the CPU time of all these processes since `root` was forked. `resident_bytes` is an upper
    bound of their memory. Both values are updated by `look`. If no process waits for an ended child, the CPU
    time that the child used after the last `look` is missed. A process whose parent has ended becomes a child
    of `root` (a subreaper), so it stays in the tree.
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
        """Measure all processes of the tree: their CPU time (`used_s`) and memory (`resident_bytes`).

        Return False, and change nothing, if the root process has ended.
        """
        found = self._find()
        if not found:
            return False
        own_s = inherited_s = 0.0
        for pid, now in found.items():
            before = self._seen.pop(pid, None)
            own_s += max(0.0, now.own_s - (before.own_s if before else 0.0))
            inherited_s += max(0.0, now.waited_s - (before.waited_s if before else 0.0))
        # The time of a waited-for child is added to its parent in whole ticks: in this sample, or in the next if
        # the parent was read before the child ended. A part of it was already counted with the child.
        gone_s = sum(seen.own_s + seen.waited_s for seen in self._seen.values())
        self._inherited_s = max(-TICK_S - gone_s, self._inherited_s + inherited_s - gone_s)
        self.used_s += own_s + max(0.0, self._inherited_s)
        self._inherited_s = min(0.0, self._inherited_s)
        self.resident_bytes = sum(seen.resident_bytes for seen in found.values())
        self._seen = found
        return True

    def held_bytes(self) -> int:
        """Return the memory of all processes of the tree in bytes, without mapped files.

        The size of a shared page is divided among the processes that share the page.
        """
        return sum(map(_own_bytes, self._find()))

    def signal(self, number: int) -> None:
        """Send the signal `number` to all processes of the tree, including those forked during the call."""
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
        """Return a dictionary from pid to measurements for each process of the tree.

        The result is empty if the root process has ended, even if another process now has its pid.
        """
        found: dict[int, Seen] = {}
        todo = [self.root]
        for pid in todo:  # The list grows during the loop.
            seen = _see(pid)
            if seen is None or (pid == self.root and seen.since != self._since):
                continue
            found[pid] = seen
            todo.extend(_children(pid, seen.threads))
        return found


def _see(pid: int) -> Seen | None:
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | CLOCK_SCHED)  # in nanoseconds, more precise than ticks in stat
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
    """Read a file below /proc with a single call of os.read, for speed. Return its content."""
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
    ]  # Older kernels only have Pss, which includes the pages of files.
    return (sum(parts or [kib.get("Pss", 0)]) + kib.get("SwapPss", 0)) * 1024

"""Limits on attempts without control groups: processes are measured, and stopped if they use too much CPU.

The pacer (`tasks.pacing`) limits an attempt's main thread. This module limits children, other threads and
code that stops the pacer: more than `MARGIN_S` CPU seconds above the share stop all processes until that is
made up. A file tells the pacer how long, so that it does not make the attempt wait twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schedbed.cluster.agent.node_groups import CpuShares

SLICE_S = 0.005  # time for which a group that was stopped before runs until the next sample
REST_S = 0.2  # maximum time between samples of a group that keeps to its share
MARGIN_S = 0.012  # CPU time above its share after which a group is stopped for the first time
ASTRAY_S = 0.001  # CPU time between samples above which a stopped group must be stopped again
BANK_S = 0.05  # seconds of its share that a group may leave unused and use later
PRICE = 20  # minimum time between samples as a multiple of a sample's CPU time, which bounds the total cost
END_SHARE = 0.2  # host cores for an ended attempt that writes its report
SLACK_BYTES = 16 * 2**20  # added to the limit, for copies of pages that a fork shares with the zygote


@dataclass(slots=True, eq=False)
class _Place:
    """The state of one group of processes, which runs one attempt at a time: CPU share, limits and resource use."""

    tree: ProcessTree
    memory_bytes: int = 0
    withheld: int | None = None  # descriptor of the file that holds the stopped time for the pacer
    share: float = 0.0  # in host cores; 0 before `hold`
    debt_s: float = 0.0  # CPU time used above the share
    counted_s: float = 0.0
    looked_s: float = 0.0
    resident_bytes: int = 0  # before its own code began
    margin_s: float = MARGIN_S
    interval_s: float = SLICE_S
    stopped: bool = False
    withheld_s: float = 0.0
    timer: asyncio.TimerHandle | None = None


class StoppedGroups:
    """Limits attempts by stopping and killing processes, with the methods of `NodeGroups`.

    `prepare` replaces `limit_memory`, and `hold` returns no limit. A running event loop is required.
    """

    version = 0
    controllers = frozenset({"cpu", "memory"})

    def __init__(
        self,
        names: Sequence[str],
        *,
        cores: int,
        core_speed: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core_speed = core_speed
        self._clock = clock
        self._shares = CpuShares(cores, core_speed)
        self._places: dict[str, _Place] = {}
        self._kills = dict.fromkeys(names, 0)

    def join(self, name: str, pid: int) -> None:
        self._places[name] = _Place(ProcessTree(pid))

    def prepare(self, name: str, memory_bytes: int, withheld: Path) -> None:
        """Set the memory limit, and create the file by which the pacer learns for how long processes stood."""
        place = self._places[name]
        place.memory_bytes = memory_bytes
        place.withheld = os.open(withheld, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.pwrite(place.withheld, struct.pack("=d", 0.0), 0)

    def hold(self, name: str) -> None:
        """Begin limiting the attempt about to start. Unlike in `NodeGroups`, the process applies no limit itself."""
        place = self._places[name]
        place.tree.look()
        place.resident_bytes = place.tree.resident_bytes
        place.counted_s, place.looked_s = place.tree.used_s, self._clock()
        self._put(self._shares.begin(name, self._clock(), self._used(name)))
        self._wake(name, place, place.interval_s)

    def begun(self, name: str, setup_cpu_s: float) -> None:
        """Exclude the CPU seconds of the setup, now that the application's code begins."""
        self._shares.forgive(name, setup_cpu_s)
        self._places[name].debt_s -= setup_cpu_s

    def ease(self, name: str) -> None:
        """Loosen the limit after the application's code, so that the report is written quickly."""
        place = self._places[name]
        self._put(self._shares.end(name, self._clock(), self._used(name)))
        place.share, place.debt_s = max(self._core_speed, END_SHARE), 0.0
        self._release(place)

    def free(self, name: str) -> None:
        """Remove the limits of group `name`. Call when all its processes have ended."""
        if name in self._shares.held:
            self._put(self._shares.end(name, self._clock(), self._used()))
        if (place := self._places.pop(name, None)) is None:
            return
        if place.timer is not None:
            place.timer.cancel()
        if place.withheld is not None:
            os.close(place.withheld)

    def rebalance(self) -> None:
        """Divide CPU time that attempts leave unused. Call several times per second."""
        if self._shares.crowded:
            self._put(self._shares.rebalance(self._clock(), self._used()))

    def set_cpu_factor(self, factor: float) -> None:
        self._put(self._shares.set_factor(factor))

    def oom_kills(self, name: str) -> int:
        return self._kills[name]

    def cpu_s(self, name: str) -> float | None:
        """Return the current attempt's core-seconds of the host, or None without one."""
        place = self._places.get(name)
        if place is None:
            return None
        place.tree.look()
        return place.tree.used_s

    # -------------------------------------------------------------------- CPU

    def _used(self, *more: str) -> dict[str, float | None]:
        """Return the CPU seconds of groups within their share: the debt above it is subtracted."""
        places = {name: self._places[name] for name in (*self._shares.held, *more)}
        for place in places.values():
            if self._shares.crowded:  # The last sample may be too old.
                place.tree.look()
            self._count(place)
        return {name: place.counted_s - max(0.0, place.debt_s) for name, place in places.items()}

    def _put(self, shares: dict[str, float]) -> None:
        for name, share in shares.items():
            self._pass_time(self._places[name])
            self._places[name].share = share

    def _wake(self, name: str, place: _Place, after_s: float) -> None:
        place.timer = asyncio.get_running_loop().call_later(after_s, self._look, name, place)

    def _look(self, name: str, place: _Place) -> None:
        began_s = time.thread_time()
        if not place.tree.look():
            return
        used_s = self._count(place)
        if place.stopped and used_s > ASTRAY_S:  # A process was missed, or has been woken.
            place.tree.signal(signal.SIGSTOP)
        if not place.stopped and place.debt_s > place.margin_s:
            self._stop(place)
        elif place.stopped and place.debt_s <= 0:
            self._release(place)
        self._check_memory(name, place)
        price_s = PRICE * (time.thread_time() - began_s)
        if place.stopped:
            self._wake(name, place, max(price_s, min(REST_S, place.debt_s / place.share)))
            return
        self._wake(name, place, max(price_s, place.interval_s))
        place.interval_s = min(REST_S, 2 * place.interval_s)
        if place.interval_s == REST_S:
            place.margin_s = MARGIN_S

    def _count(self, place: _Place) -> float:
        """Return the CPU seconds since the last call, as measured just before, and add them to the debt."""
        used_s, place.counted_s = place.tree.used_s - place.counted_s, place.tree.used_s
        place.debt_s += used_s
        self._pass_time(place)
        return used_s

    def _pass_time(self, place: _Place) -> None:
        """Reduce the debt, CPU time above the share, by what the share allowed; tell the pacer of stopped time."""
        now_s = self._clock()
        elapsed_s, place.looked_s = now_s - place.looked_s, now_s
        place.debt_s = max(-BANK_S * place.share, place.debt_s - place.share * elapsed_s)
        if place.stopped and place.withheld is not None:
            place.withheld_s += elapsed_s
            with contextlib.suppress(OSError):  # On a full disk the attempt has to wait twice.
                os.pwrite(place.withheld, struct.pack("=d", place.withheld_s), 0)

    def _stop(self, place: _Place) -> None:
        place.tree.signal(signal.SIGSTOP)
        place.tree.look()  # Include the CPU time used until the stop.
        self._count(place)
        place.stopped = True
        place.margin_s, place.interval_s = 0.0, SLICE_S

    def _release(self, place: _Place) -> None:
        if place.stopped:
            place.stopped = False
            place.tree.signal(signal.SIGCONT)

    # ----------------------------------------------------------------- memory

    def _check_memory(self, name: str, place: _Place) -> None:
        """Kill an attempt whose processes exceed its limit together: the kernel limits each alone (RLIMIT_DATA)."""
        limit = place.memory_bytes + SLACK_BYTES
        more = place.tree.resident_bytes - place.resident_bytes
        if more > limit and place.tree.held_bytes() > limit:
            self._kills[name] += 1
            place.tree.signal(signal.SIGKILL)


# The processes of an attempt: their resource usage, measured from /proc, and signals to all of them.

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLOCK_SCHED = 2  # part of the id of a process's CPU clock: clock_getcpuclockid(3)
READ_BYTES = 1 << 16
ROUNDS = 8  # maximum rounds of signals; processes forked meanwhile get the signal in the next round


class Seen(NamedTuple):
    """A process when last read. `waited_s` is CPU time of reaped children; `resident_bytes` includes shared pages."""

    own_s: float
    waited_s: float
    resident_bytes: int
    threads: int
    since: int


class ProcessTree:
    """`root` and its descendants, as of the last `look`. An orphan becomes a child of `root` (a subreaper).

    `resident_bytes` is an upper bound. CPU time after the last `look` of a child that nobody waits for is
    missed.
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
        """Update `used_s` and `resident_bytes`. Return False, with no change, if the root has ended."""
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
        """Return the tree's bytes without mapped files. A shared page is divided among its processes."""
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
        """Return {pid: measurements}, empty if the root has ended, even if its pid is used again."""
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

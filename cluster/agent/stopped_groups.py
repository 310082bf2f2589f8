"""Limits on attempts without control groups: processes are measured, and stopped if they use too much CPU.

The pacer of an attempt (`tasks.pacing`), which makes the attempt's main thread sleep, limits this thread to
the millisecond. This module limits the rest: child processes, other threads, and code that stops the pacer.
It acts when an attempt has used `MARGIN_S` CPU seconds more than its share, which happens to a paced attempt
only in a long call into native code. It then stops the attempt's processes until the excess is made up.
`SLICE_S` seconds after they continue, it measures them again. A file in the attempt's folder contains the
total time for which they were stopped, so that the pacer does not make the attempt wait again for the same
excess.
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
    """The state of one group of processes, which runs one attempt at a time: CPU share, limits and resource
    use.
    """

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
    """Limits on the CPU and memory of attempts by stopping and killing processes, without control groups.

    The methods mirror those of `NodeGroups`, which sets limits of control groups instead. Unlike
    `NodeGroups`, this class has `prepare` in place of `limit_memory`, and its `hold` returns no limit for the
    attempt's process to apply. A running event loop is required. `names` are the names of the groups of
    processes.
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
        """Put the process `pid`, which was forked to run an attempt, into the group of processes `name`."""
        self._places[name] = _Place(ProcessTree(pid))

    def prepare(self, name: str, memory_bytes: int, withheld: Path) -> None:
        """Set the memory limit of the next attempt in the group of processes `name`, in bytes.

        Also create the file `withheld` for the total time for which the attempt's processes are stopped,
        which the attempt's pacer reads. Raises OSError.
        """
        place = self._places[name]
        place.memory_bytes = memory_bytes
        place.withheld = os.open(withheld, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.pwrite(place.withheld, struct.pack("=d", 0.0), 0)

    def hold(self, name: str) -> None:
        """Begin limiting the CPU of the attempt that is about to start in the group of processes `name`.

        Unlike `NodeGroups.hold`, this method returns no limit for the attempt's process to apply.
        """
        place = self._places[name]
        place.tree.look()
        place.resident_bytes = place.tree.resident_bytes
        place.counted_s, place.looked_s = place.tree.used_s, self._clock()
        self._put(self._shares.begin(name, self._clock(), self._used(name)))
        self._wake(name, place, place.interval_s)

    def begun(self, name: str, setup_cpu_s: float) -> None:
        """Exclude the CPU seconds `setup_cpu_s`, used for setup, from the measured use of an attempt.

        The attempt's process has just begun to run the application's code. `name` is its group of processes.
        """
        self._shares.forgive(name, setup_cpu_s)
        self._places[name].debt_s -= setup_cpu_s

    def ease(self, name: str) -> None:
        """Loosen the CPU limit of an attempt, because the application's code has reported its end.

        The attempt's process can then write the attempt's report quickly. `name` is its group of processes.
        """
        place = self._places[name]
        self._put(self._shares.end(name, self._clock(), self._used(name)))
        place.share, place.debt_s = max(self._core_speed, END_SHARE), 0.0
        self._release(place)

    def free(self, name: str) -> None:
        """Remove the limits of the group of processes `name`, for the next attempt.

        Must be called when all processes of the group have ended.
        """
        if name in self._shares.held:
            self._put(self._shares.end(name, self._clock(), self._used()))
        if (place := self._places.pop(name, None)) is None:
            return
        if place.timer is not None:
            place.timer.cancel()
        if place.withheld is not None:
            os.close(place.withheld)

    def rebalance(self) -> None:
        """Divide the CPU time that some attempts leave unused among the other attempts.

        Must be called several times per second.
        """
        if self._shares.crowded:
            self._put(self._shares.rebalance(self._clock(), self._used()))

    def set_cpu_factor(self, factor: float) -> None:
        """Set the node's CPU rate to `factor` times the declared rate."""
        self._put(self._shares.set_factor(factor))

    def oom_kills(self, name: str) -> int:
        """Return how many attempts in the group of processes `name` were killed for using too much memory."""
        return self._kills[name]

    def cpu_s(self, name: str) -> float | None:
        """Return the CPU time of the current attempt in a group of processes, in core-seconds of the host.

        Return None if the group `name` has no attempt.
        """
        place = self._places.get(name)
        if place is None:
            return None
        place.tree.look()
        return place.tree.used_s

    # -------------------------------------------------------------------- CPU

    def _used(self, *more: str) -> dict[str, float | None]:
        """Return a dictionary from the name of a group to the CPU seconds that it used within its share.

        CPU seconds above the share (the group's debt) are subtracted. The dictionary contains the groups of
        running attempts and the groups `more`.
        """
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
        """Return the CPU seconds that a group has used since the last call, and add them to the group's debt.

        The debt is the CPU time above the group's share. The caller must have measured the processes just
        before.
        """
        used_s, place.counted_s = place.tree.used_s - place.counted_s, place.tree.used_s
        place.debt_s += used_s
        self._pass_time(place)
        return used_s

    def _pass_time(self, place: _Place) -> None:
        """Reduce a group's debt by the CPU seconds that its share allowed since the last call.

        The debt is the CPU time above the share. If the processes are stopped, also add the elapsed time to
        the total stopped time in the file for the attempt's pacer.
        """
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
        """Kill an attempt whose processes together use more memory than the attempt's limit.

        The kernel limits only single processes (RLIMIT_DATA).
        """
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

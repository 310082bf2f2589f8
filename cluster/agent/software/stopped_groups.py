"""Limits without control groups: each attempt's processes are sampled, and stopped after too much CPU use.

Attempts pace themselves (`tasks.pacing`) to the millisecond. This module limits code that does not: child
processes, other threads, and code that stops its pacer. It acts when an attempt has used `MARGIN_S` CPU
seconds more than its share, which a self-paced attempt reaches only in a long call into native code. The
processes then run for `SLICE_S` seconds at a time. A file in the attempt's folder holds the total stopped
time, so that the pacer does not make the attempt wait again.
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

from schedbed.cluster.agent.cpu_shares import CpuShares
from schedbed.cluster.agent.software.process_tree import ProcessTree

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
    """The state of one group of processes, which belongs to one attempt at a time."""

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
    """A counterpart of `NodeGroups` that stops processes where `NodeGroups` sets quotas of control groups.

    The methods mirror those of `NodeGroups`; `prepare` replaces its `limit_memory`, and `hold` returns no
    limit for the process to apply. Needs a running event loop.
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
        """Add the forked process that will run an attempt in the group `name`."""
        self._places[name] = _Place(ProcessTree(pid))

    def prepare(self, name: str, memory_bytes: int, withheld: Path) -> None:
        """Set the memory limit of the next attempt, and create the file `withheld`. Raises OSError.

        The file holds the total time for which the attempt's processes were stopped, for the attempt's pacer.
        """
        place = self._places[name]
        place.memory_bytes = memory_bytes
        place.withheld = os.open(withheld, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.pwrite(place.withheld, struct.pack("=d", 0.0), 0)

    def hold(self, name: str) -> None:
        """Start limiting the attempt that is about to begin in the group `name`.

        Differs from `NodeGroups.hold`: the attempt's process has no limit to apply.
        """
        place = self._places[name]
        place.tree.look()
        place.resident_bytes = place.tree.resident_bytes
        place.counted_s, place.looked_s = place.tree.used_s, self._clock()
        self._put(self._shares.begin(name, self._clock(), self._used(name)))
        self._wake(name, place, place.interval_s)

    def begun(self, name: str, setup_cpu_s: float) -> None:
        """Exclude `setup_cpu_s` CPU seconds of setup from the use of the attempt whose own code has begun."""
        self._shares.forgive(name, setup_cpu_s)
        self._places[name].debt_s -= setup_cpu_s

    def ease(self, name: str) -> None:
        """Loosen the CPU limit of an attempt whose own code has reported its end.

        The attempt can then write its report quickly.
        """
        place = self._places[name]
        self._put(self._shares.end(name, self._clock(), self._used(name)))
        place.share, place.debt_s = max(self._core_speed, END_SHARE), 0.0
        self._release(place)

    def free(self, name: str) -> None:
        """Remove the limits of the group `name`, since no process is left in it."""
        if name in self._shares.held:
            self._put(self._shares.end(name, self._clock(), self._used()))
        if (place := self._places.pop(name, None)) is None:
            return
        if place.timer is not None:
            place.timer.cancel()
        if place.withheld is not None:
            os.close(place.withheld)

    def rebalance(self) -> None:
        """Divide CPU time that some attempts leave unused among the other attempts.

        Must be called several times a second.
        """
        if self._shares.crowded:
            self._put(self._shares.rebalance(self._clock(), self._used()))

    def set_cpu_factor(self, factor: float) -> None:
        """Multiply the declared CPU rate by `factor` from now on."""
        self._put(self._shares.set_factor(factor))

    def oom_kills(self, name: str) -> int:
        """Return the number of kills in the group because of an attempt's memory use."""
        return self._kills[name]

    def cpu_s(self, name: str) -> float | None:
        """Return the CPU time of the group's current attempt, in core-seconds of the host; None if none."""
        place = self._places.get(name)
        if place is None:
            return None
        place.tree.look()
        return place.tree.used_s

    # -------------------------------------------------------------------- CPU

    def _used(self, *more: str) -> dict[str, float | None]:
        """Return the CPU seconds used so far in each group, minus the seconds used above the group's share.

        The result has the groups of running attempts and the groups `more`.
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
        """Add the CPU seconds used since the last call to the group's debt, and return these seconds.

        The processes must have been measured just before.
        """
        used_s, place.counted_s = place.tree.used_s - place.counted_s, place.tree.used_s
        place.debt_s += used_s
        self._pass_time(place)
        return used_s

    def _pass_time(self, place: _Place) -> None:
        """Reduce the group's debt by the CPU seconds that its share allowed since the last call.

        While the processes are stopped, also add the elapsed time to the stopped time that the pacer reads.
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
        """Kill an attempt whose processes together use more memory than its limit.

        RLIMIT_DATA limits single processes.
        """
        limit = place.memory_bytes + SLACK_BYTES
        more = place.tree.resident_bytes - place.resident_bytes
        if more > limit and place.tree.held_bytes() > limit:
            self._kills[name] += 1
            place.tree.signal(signal.SIGKILL)

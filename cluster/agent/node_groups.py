"""Limits on CPU, memory and processes of attempts by control groups, of version 1 or 2. Each write is read
back.

Disk and NIC are left to software budgets: the kernel's block throttle fails for buffered writes, which
version 1 charges to the flusher thread and version 2 charges late.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from schedbed.cluster.agent.cgroups import NODE_GROUP, CgroupError, GroupFiles, Quota

# Quotas and periods
#
# The kernel limits CPU by a quota per period: after `quota` microseconds of CPU time, all processes of a group
# stand still until the next period. A share of 0.1 cores is 2 ms in 20 ms as well as 100 ms in 1 s, but not
# the same to what runs. With long periods an attempt computes at full speed and then stands for most of a
# second, so heartbeats, shuffles and short tasks see a node that stutters, and a task that ends within its
# first quota was not slowed at all. With short periods the kernel's own cost and the grain of its clock grow,
# and a quota below 1 ms is refused. Measured at core_speed 0.1 on two host cores, the share is off by 0.5 to
# 1% with 20 ms periods and by 2% with 100 ms. So the period is 20 ms, and longer only as far as the least
# quota demands. Each write renews the quota within the current period, which is a gift: so limits are written
# rarely, and only when they change.
PERIOD_US = 20_000
QUOTA_MIN_US = 1_000
PERIOD_MAX_US = 1_000_000
END_US = 4_000  # quota per period in which an ended attempt writes its report, whatever its speed
SLACK_BYTES = 16 * 2**20  # added to the limit, for a fork's copies of shared pages and some page cache
RECLAIMABLE = ("inactive_file", "active_file")  # fields of memory.stat
PROCESSES = 256
"""Maximum number of processes and threads that an attempt may have at a time."""


class MemoryPeaks:
    """Peak memory of attempts, from samples and the kernel's own peak, less reclaimable page cache."""

    def __init__(self, files: GroupFiles) -> None:
        self._files = files
        first = files.version == 1
        self._present = "memory.usage_in_bytes" if first else "memory.current"
        self._highest = "memory.max_usage_in_bytes" if first else "memory.peak"
        self._seen: dict[str, int] = {}
        self._before: dict[str, int | None] = {}

    def begin(self, name: str) -> None:
        """Begin to measure the peak memory of the next attempt in the control group `name`."""
        if self._files.version == 1:
            with contextlib.suppress(OSError):
                self._files.write(name, self._highest, "0")
        self._seen[name] = 0
        self._before[name] = self._number(name, self._highest)
        self.look(name)

    def look(self, name: str) -> None:
        """Sample the current memory use of the control group `name`."""
        held = self._number(name, self._present)
        if name in self._seen and held is not None:
            self._seen[name] = max(self._seen[name], held - self._cache(name))

    def end(self, name: str) -> int | None:
        """End the measurement of group `name`. Return the peak in bytes, or None if nothing was measured."""
        if name not in self._before:
            return None
        self.look(name)
        seen, before, highest = (
            self._seen.pop(name),
            self._before.pop(name),
            self._number(name, self._highest),
        )
        if before is not None and highest is not None and highest > before:
            seen = max(seen, highest - self._cache(name))  # The cache at the peak was hardly larger than now.
        return seen or None

    def _number(self, name: str, file: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(self._files.read(name, file))
        return None

    def _cache(self, name: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            lines = (line.split() for line in self._files.read(name, "memory.stat").splitlines())
            return sum(int(words[1]) for words in lines if words[0] in RECLAIMABLE)
        return 0


class NodeGroups:
    """The control groups of a node's attempts. A starting attempt has no limit; it applies that of `hold`
    itself.

    At most as many attempts as cores get a core each. Otherwise they share the CPU equally (`rebalance`).
    """

    def __init__(
        self,
        files: GroupFiles,
        names: Sequence[str],
        *,
        cores: int,
        core_speed: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = files.version
        self.controllers = files.controllers
        self._files = files
        self._names = tuple(names)
        self._core_speed = core_speed
        self._clock = clock
        self._shares = CpuShares(cores, core_speed)
        self.memory = MemoryPeaks(files)
        self._written: dict[tuple[str, str], str] = {}
        self._periods: dict[str, int] = {}  # the period of each group's quota in v1
        self._given: dict[str, tuple[float, float]] = {}  # shares of starting attempts: as given, and now

    def open(self) -> None:
        """Check that each limit can be set, and leave the groups without a CPU limit. Raises CgroupError."""
        if self._core_speed * PERIOD_MAX_US < QUOTA_MIN_US:
            raise CgroupError(f"a core_speed of {self._core_speed} is below the kernel's least quota")
        try:
            for name in self._names:
                self._limit_cpu(name, self._core_speed)
                self._release_cpu(name)
                if "pids" in self.controllers:
                    self._write(name, "pids.max", str(PROCESSES))
                if self.version == 2:
                    with contextlib.suppress(OSError):  # Older kernels kill only one process of the group.
                        self._files.write(name, "memory.oom.group", "1")
        except OSError as error:
            raise CgroupError(f"cgroup v{self.version}: {error}") from error

    def join(self, name: str, pid: int) -> None:
        self._files.move(name, pid)

    def hold(self, name: str) -> Quota:
        """Return the limit that a process applies itself just before its code, without waiting for the agent."""
        shares = self._shares.begin(name, self._clock(), self._used(name))
        self._given[name] = (shares[name], shares[name])
        self._put(shares)
        quota, period = _quota_and_period(shares[name])
        if self.version == 2:
            return Quota(self._files.handle(name, "cpu.max"), f"{quota} {period}")
        self._set_period(name, period)
        return Quota(self._files.handle(name, "cpu.cfs_quota_us"), str(quota))

    def begun(self, name: str, setup_cpu_s: float) -> None:
        """Adapt the limit when the code begins. `setup_cpu_s` was used since `hold`. Raises CgroupError, OSError."""
        self._shares.forgive(name, setup_cpu_s)
        given, share = self._given.pop(name, (0.0, 0.0))
        if share != given:
            self._limit_cpu(name, share)

    def ease(self, name: str) -> None:
        """Loosen the limit to at least one core for the report. It stays, as the end may have been reported falsely."""
        self._given.pop(name, None)
        quotas = self._shares.end(name, self._clock(), self._used())
        self._limit_cpu(name, max(self._core_speed, END_US / PERIOD_US))
        self._put(quotas)

    def free(self, name: str) -> None:
        """Remove group `name`'s limit. Call when all its processes have ended. Raises CgroupError, OSError."""
        self._given.pop(name, None)
        if name in self._shares.held:
            self._put(self._shares.end(name, self._clock(), self._used()))
        self._release_cpu(name)

    def rebalance(self) -> None:
        """Divide CPU time that attempts leave unused. Call several times per second. Raises CgroupError, OSError."""
        if self._shares.crowded:
            self._put(self._shares.rebalance(self._clock(), self._used()))

    def set_cpu_factor(self, factor: float) -> None:
        """Set the CPU rate to `factor` times the declared one. Raises CgroupError, OSError."""
        self._put(self._shares.set_factor(factor))

    def limit_memory(self, name: str, limit_bytes: int) -> None:
        """Limit the group's memory (with swap, if counted) to `limit_bytes` plus `SLACK_BYTES`. Raises CgroupError."""
        if "memory" not in self.controllers:
            return
        wanted = limit_bytes + SLACK_BYTES
        file = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        if self._written.get((name, file)) == str(wanted):
            return
        try:
            self._limit_swap(name, "-1")  # Swap's limit must never be below the memory limit.
            self._files.write(name, file, str(wanted))
            self._limit_swap(name, str(wanted))
            taken = self._files.read(name, file)
        except OSError as error:
            raise CgroupError(f"{name}: {file}: {error.strerror}") from error
        if not taken.isdigit() or abs(int(taken) - wanted) >= os.sysconf("SC_PAGE_SIZE"):
            raise CgroupError(f"{name}: {file} is {taken} after {wanted} was written")
        self._written[name, file] = str(wanted)

    def _limit_swap(self, name: str, both: str) -> None:
        """Limit memory and swap together to `both`; version 2 disables swap. Does nothing without counted swap."""
        file, text = ("memory.memsw.limit_in_bytes", both) if self.version == 1 else ("memory.swap.max", "0")
        with contextlib.suppress(OSError):
            self._files.write(name, file, text)

    # --------------------------------------------------------------- counters

    def oom_kills(self, name: str) -> int:
        """Return how many processes in the control group `name` were killed for lack of memory."""
        if "memory" not in self.controllers:
            return 0
        return self._count(name, "memory.oom_control" if self.version == 1 else "memory.events", "oom_kill")

    def refused_forks(self, name: str) -> int:
        return self._count(name, "pids.events", "max") if "pids" in self.controllers else 0

    def cpu_s(self, name: str = NODE_GROUP) -> float | None:
        """Return the group's core-seconds of the host so far, or None if not counted."""
        if self.version == 2:
            return self._count(name, "cpu.stat", "usage_usec") / 1e6
        if "cpuacct" not in self.controllers:
            return None
        with contextlib.suppress(OSError, ValueError):
            return int(self._files.read(name, "cpuacct.usage")) / 1e9
        return None

    def kill(self, name: str) -> bool:
        """Kill all processes in group `name`, whatever their session. Return whether there were any."""
        found = False
        with contextlib.suppress(OSError, ValueError):
            for pid in map(int, self._files.read(name, "cgroup.procs").split()):
                if pid > 0:  # 0 means a process of another pid namespace.
                    found = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        return found

    def _count(self, name: str, file: str, field: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            for line in self._files.read(name, file).splitlines():
                if line.startswith(field + " "):
                    return int(line.split()[1])
        return 0

    # -------------------------------------------------------------------- CPU

    def _used(self, *more: str) -> dict[str, float | None]:
        """Return the CPU seconds so far of the groups of running attempts and of `more`."""
        return {name: self.cpu_s(name) for name in (*self._shares.held, *more)}

    def _put(self, shares: dict[str, float]) -> None:
        for name, share in shares.items():
            if name in self._given:  # The fork is about to write the share that it was given.
                self._given[name] = (self._given[name][0], share)
            else:
                self._limit_cpu(name, share)

    def _release_cpu(self, name: str) -> None:
        if self.version == 1:
            self._files.write(name, "cpu.cfs_quota_us", "-1")
        else:
            self._files.write(name, "cpu.max", "max")

    def _limit_cpu(self, name: str, share: float) -> None:
        """Limit a group to `share` host cores. Call rarely: each write renews the quota within the current period."""
        quota, period = _quota_and_period(share)
        if self.version == 2:
            self._write(name, "cpu.max", f"{quota} {period}")
            return
        self._set_period(name, period)
        self._write(name, "cpu.cfs_quota_us", str(quota))

    def _set_period(self, name: str, period: int) -> None:
        """Set the quota period in version 1; version 2 writes it with the quota."""
        if self._periods.get(name) != period:
            self._periods.pop(name, None)
            self._release_cpu(name)  # The kernel could refuse the old quota with the new period.
            self._write(name, "cpu.cfs_period_us", str(period))
            self._periods[name] = period

    def _write(self, name: str, file: str, text: str) -> None:
        self._files.write(name, file, text)
        taken = self._files.read(name, file)
        if taken != text:
            raise CgroupError(f"{name}: {file} is {taken} after {text} was written")


def _quota_and_period(share: float) -> tuple[int, int]:
    """Return quota and period in microseconds."""
    period = min(PERIOD_MAX_US, max(PERIOD_US, math.ceil(QUOTA_MIN_US / share)))
    return max(QUOTA_MIN_US, round(period * share)), period


# The division of a node's CPU among attempts: a core each if there are enough cores, or else equal shares.
#
# Each attempt has a CPU quota of its own. A common quota of the node would not be divided equally: the
# kernel hands out a quota in slices of 5 ms, and one CPU of the host can receive all of a small quota in a
# period. For example, three attempts with a common quota of 0.2 host cores received 0.063, 0.065 and 0.028
# cores.
#
# An attempt that waits keeps a small quota to wake up with, and the other attempts receive the unused part
# of its share. If the attempts use more than the node's rate, the excess is a debt. The quotas are then
# reduced until the debt is paid back.

HUNGRY = 0.9  # An attempt that uses this fraction of its share could use more.
ROOM = 1.5  # Other attempts get their use times this factor, so that their use can grow.
LEAST = 0.5  # Every attempt keeps this fraction of an even share.
LOOK_S = 0.2  # Shorter measurements are too noisy, since a quota's period is at least 20 ms.
FIRST_LOOK_S = 0.06
"""The same after an attempt has begun, since it took CPU from the others and may not use that."""
HORIZON_S = 1.0  # Seconds in which a node pays back its use above its rate.
PAYBACK = 0.3  # Maximum fraction of the rate that pays back debt; attempts that wake together add no more.
CHANGE = 0.02  # Smaller relative changes are not written, since each write refills the quota at once.

Used = Mapping[str, float | None]
"""CPU time of each attempt so far, in core-seconds of the host; None if it is not counted."""


@dataclass(slots=True)
class _Held:
    """The CPU share of one attempt in host cores, and the measurements of its CPU use."""

    share: float
    since_s: float  # time of the last measurement
    seen_s: float | None  # CPU time used until the last measurement
    counted_s: float | None  # CPU time that the node's debt already contains
    rate: float | None = None  # measured use in host cores, None before the second measurement
    look_s: float = FIRST_LOOK_S  # minimum time until the next measurement

    def look(self, now_s: float, used_s: float | None) -> float:
        """Update the measured CPU use. Return the seconds used since the last call, 0 if not counted."""
        new_s = 0.0 if used_s is None or self.counted_s is None else used_s - self.counted_s
        self.counted_s = used_s
        elapsed_s = now_s - self.since_s
        if elapsed_s >= self.look_s:
            self.rate = None
            if used_s is not None and self.seen_s is not None:
                self.rate = (used_s - self.seen_s) / elapsed_s
            self.since_s, self.seen_s, self.look_s = now_s, used_s, LOOK_S
        return new_s


class CpuShares:
    """The CPU shares of one node's attempts, in host cores.

    Methods that change shares return {attempt: new share}, the smallest first. `used` maps each running
    attempt to its CPU seconds so far.
    """

    def __init__(self, cores: int, core_speed: float) -> None:
        self._cores = cores
        self._core_speed = core_speed
        self._factor = 1.0
        self._held: dict[str, _Held] = {}
        self._debt_s = 0.0
        self._looked_s = 0.0

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(self._held)

    @property
    def crowded(self) -> bool:
        return len(self._held) > self._cores

    def begin(self, name: str, now_s: float, used: Used) -> dict[str, float]:
        """Add an attempt. Return the changed shares."""
        self._look(now_s, used)
        used_s = used.get(name)
        self._held[name] = _Held(0.0, now_s, used_s, used_s)
        return self._share([name])

    def forgive(self, name: str, cpu_s: float) -> None:
        """Exclude `cpu_s` CPU seconds, which are not limited, from the measured use of attempt `name`."""
        if (held := self._held.get(name)) and held.counted_s is not None and held.seen_s is not None:
            held.counted_s += cpu_s
            held.seen_s += cpu_s

    def end(self, name: str, now_s: float, used: Used) -> dict[str, float]:
        """Remove an attempt. Return the changed shares."""
        self._look(now_s, used)
        self._held.pop(name, None)
        return self._share()

    def set_factor(self, factor: float) -> dict[str, float]:
        """Set the rate to `factor` times the declared one. Return all shares."""
        self._factor = factor
        return self._share(self._held)

    def rebalance(self, now_s: float, used: Used) -> dict[str, float]:
        """Measure the CPU use and adapt the shares to it. Return the changed ones."""
        self._look(now_s, used)
        return self._share()

    @property
    def _core(self) -> float:
        return self._core_speed * self._factor

    @property
    def _rate(self) -> float:
        return self._core * self._cores

    def _look(self, now_s: float, used: Used) -> None:
        new_s = sum([held.look(now_s, used.get(name)) for name, held in self._held.items()])
        self._debt_s = max(0.0, self._debt_s + new_s - self._rate * (now_s - self._looked_s))
        self._looked_s = now_s

    def _share(self, must: Collection[str] = ()) -> dict[str, float]:
        """Compute the shares. Return those that changed, and those of the attempts in `must`."""
        wanted = self._even() if self.crowded else dict.fromkeys(self._held, self._core)
        changed: dict[str, float] = {}
        for name, share in wanted.items():
            held = self._held[name]
            if name in must or abs(share - held.share) > CHANGE * held.share:
                held.share = changed[name] = share
        return dict(sorted(changed.items(), key=lambda item: item[1]))

    def _even(self) -> dict[str, float]:
        """Return max-min fair shares. An attempt that uses nearly all of its share demands a whole core."""
        left = self._rate - min(self._debt_s / HORIZON_S, PAYBACK * self._rate)
        even = left / len(self._held)
        demand = {name: self._demand(held) for name, held in self._held.items()}
        shares: dict[str, float] = {}
        for count, name in enumerate(sorted(demand, key=lambda name: demand[name])):
            shares[name] = min(demand[name], left / (len(demand) - count))
            left -= shares[name]
        return {
            name: share if share < demand[name] else min(self._core, max(share * ROOM, LEAST * even))
            for name, share in shares.items()
        }

    def _demand(self, held: _Held) -> float:
        if held.rate is None or held.rate >= HUNGRY * held.share:
            return self._core
        return min(self._core, held.rate)

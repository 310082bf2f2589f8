"""Limits on the CPU, memory and processes of a node's attempts by control groups of version 1 or 2.

Only the agent writes to these groups, through `GroupFiles`, and it reads each limit back. Disk and NIC are
not limited here: the kernel's block throttle does not work for buffered writes to a shared disk (they are
charged to the flusher in v1, and delayed in v2). So both stay software budgets (`tasks.pacing`) for nodes
that are processes of the host.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Sequence

from schedbed.cluster.agent.cgroup_find import CgroupError
from schedbed.cluster.agent.cpu_shares import CpuShares
from schedbed.cluster.agent.group_files import NODE_GROUP, GroupFiles, Quota

# Measured at core_speed 0.1 on two host cores: with 20 ms periods the share is off by 0.5-1%, with 100 ms by 2%;
# quotas below 1 ms are refused by the kernel.
PERIOD_US = 20_000
QUOTA_MIN_US = 1_000
PERIOD_MAX_US = 1_000_000
END_US = 4_000  # quota per period in which an ended attempt writes its report, whatever its speed
SLACK_BYTES = 16 * 2**20  # added to the limit, for a fork's copies of shared pages and some page cache
RECLAIMABLE = ("inactive_file", "active_file")  # fields of memory.stat
PROCESSES = 256
"""Maximum number of processes and threads that an attempt may have at a time."""


class MemoryPeaks:
    """The peak memory of each group's processes since `begin`, from samples and from the kernel's own peak.

    The page cache of files, which the kernel includes and can reclaim, is subtracted.
    """

    def __init__(self, files: GroupFiles) -> None:
        self._files = files
        first = files.version == 1
        self._present = "memory.usage_in_bytes" if first else "memory.current"
        self._highest = "memory.max_usage_in_bytes" if first else "memory.peak"
        self._seen: dict[str, int] = {}
        self._before: dict[str, int | None] = {}

    def begin(self, name: str) -> None:
        """Start measuring the peak memory of the next attempt in the group `name`."""
        if self._files.version == 1:
            with contextlib.suppress(OSError):
                self._files.write(name, self._highest, "0")
        self._seen[name] = 0
        self._before[name] = self._number(name, self._highest)
        self.look(name)

    def look(self, name: str) -> None:
        """Sample the current memory use of the group `name`."""
        held = self._number(name, self._present)
        if name in self._seen and held is not None:
            self._seen[name] = max(self._seen[name], held - self._cache(name))

    def end(self, name: str) -> int | None:
        """Return the peak memory in bytes after the attempt has ended; None if nothing was measured."""
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
    """The control groups of one node's attempts, each for one attempt at a time.

    `names` are the names of existing groups (from `slot_groups`). A group is unlimited until its forked
    process applies the limit that `hold` returned, since launching is work of the emulation. While there are
    at most as many attempts as cores, each attempt has a core. Otherwise the attempts share the node's CPU
    equally (`rebalance`).
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
        """Try each kind of limit once, then remove the CPU limits of all groups. Raises CgroupError."""
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
        """Move a process into the group `name`. Raises OSError."""
        self._files.move(name, pid)

    def hold(self, name: str) -> Quota:
        """Return the CPU limit of the attempt that is about to begin, to be applied by its forked process.

        The process applies the limit just before the attempt's own code, without another message from the
        agent. Raises CgroupError, OSError.
        """
        shares = self._shares.begin(name, self._clock(), self._used(name))
        self._given[name] = (shares[name], shares[name])
        self._put(shares)
        quota, period = _quota_and_period(shares[name])
        if self.version == 2:
            return Quota(self._files.handle(name, "cpu.max"), f"{quota} {period}")
        self._set_period(name, period)
        return Quota(self._files.handle(name, "cpu.cfs_quota_us"), str(quota))

    def begun(self, name: str, setup_cpu_s: float) -> None:
        """Adapt the CPU limit once the attempt's own code has begun.

        `setup_cpu_s` is the CPU time that its process used since `hold`. Raises CgroupError, OSError.
        """
        self._shares.forgive(name, setup_cpu_s)
        given, share = self._given.pop(name, (0.0, 0.0))
        if share != given:
            self._limit_cpu(name, share)

    def ease(self, name: str) -> None:
        """Loosen the CPU limit of an attempt whose own code has reported its end.

        The attempt's report then need not wait for quota periods. The group stays limited, since code could
        falsely report its end to get the whole host. Raises CgroupError, OSError.
        """
        self._given.pop(name, None)
        quotas = self._shares.end(name, self._clock(), self._used())
        self._limit_cpu(name, max(self._core_speed, END_US / PERIOD_US))
        self._put(quotas)

    def free(self, name: str) -> None:
        """Remove the CPU limit of an empty group, for the next attempt. Raises CgroupError, OSError."""
        self._given.pop(name, None)
        if name in self._shares.held:
            self._put(self._shares.end(name, self._clock(), self._used()))
        self._release_cpu(name)

    def rebalance(self) -> None:
        """Divide CPU time that some attempts leave unused among the other attempts.

        Must be called several times a second. Raises CgroupError, OSError.
        """
        if self._shares.crowded:
            self._put(self._shares.rebalance(self._clock(), self._used()))

    def set_cpu_factor(self, factor: float) -> None:
        """Multiply the declared CPU rate by `factor` from now on. Raises CgroupError, OSError."""
        self._put(self._shares.set_factor(factor))

    def limit_memory(self, name: str, limit_bytes: int) -> None:
        """Limit the memory of the group's processes to `limit_bytes` plus `SLACK_BYTES`. Raises CgroupError.

        Swap is included if the kernel counts swap.
        """
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
        """Set the limit of memory and swap together to `both` bytes, or disable swap in version 2.

        Does nothing if the kernel does not count swap.
        """
        file, text = ("memory.memsw.limit_in_bytes", both) if self.version == 1 else ("memory.swap.max", "0")
        with contextlib.suppress(OSError):
            self._files.write(name, file, text)

    # --------------------------------------------------------------- counters

    def oom_kills(self, name: str) -> int:
        """Return the number of processes of the group that the kernel killed for lack of memory."""
        if "memory" not in self.controllers:
            return 0
        return self._count(name, "memory.oom_control" if self.version == 1 else "memory.events", "oom_kill")

    def refused_forks(self, name: str) -> int:
        """Return the number of times that the kernel refused the group's processes a new process."""
        return self._count(name, "pids.events", "max") if "pids" in self.controllers else 0

    def cpu_s(self, name: str = NODE_GROUP) -> float | None:
        """Return the CPU time used so far in the group, in core-seconds of the host; None if not counted."""
        if self.version == 2:
            return self._count(name, "cpu.stat", "usage_usec") / 1e6
        if "cpuacct" not in self.controllers:
            return None
        with contextlib.suppress(OSError, ValueError):
            return int(self._files.read(name, "cpuacct.usage")) / 1e9
        return None

    def kill(self, name: str) -> bool:
        """Kill (SIGKILL) all processes in the group, regardless of their session.

        Return whether there were any.
        """
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
        """Return the CPU seconds used so far by the running attempts and by the groups `more`."""
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
        """Write the quota for `share` host cores and read it back.

        Each write refills the group's current period, so writes should be rare.
        """
        quota, period = _quota_and_period(share)
        if self.version == 2:
            self._write(name, "cpu.max", f"{quota} {period}")
            return
        self._set_period(name, period)
        self._write(name, "cpu.cfs_quota_us", str(quota))

    def _set_period(self, name: str, period: int) -> None:
        """Set the quota period of a group, which has a separate file in version 1."""
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
    """Return the quota and the period for `share` host cores, in microseconds."""
    period = min(PERIOD_MAX_US, max(PERIOD_US, math.ceil(QUOTA_MIN_US / share)))
    return max(QUOTA_MIN_US, round(period * share)), period

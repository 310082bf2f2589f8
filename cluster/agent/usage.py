"""A node's resource usage as fractions of its declared rates.

CPU and memory are measured from /proc, disk and network from the bytes charged to the node's rate limits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.pacing import Budget

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_CLOCK_SCHED = 2  # part of the id of a process's CPU clock: clock_getcpuclockid(3)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and the children that it waited for.

    Return 0 if the process has ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | _CLOCK_SCHED)  # more precise than the ticks in stat
    except OSError:
        return 0.0
    return own_s + sum(map(int, fields[13:15])) * _TICK_S


def process_rss_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class UsageMeter:
    """A meter that computes a node's resource usage from the differences between readings of counters.

    The counters are the CPU time of the attempts, and the disk and network bytes charged to `budget`, the
    file that limits the node's rates.
    """

    def __init__(self, node: NodeSpec, budget: Budget | None) -> None:
        self._node = node
        self._budget = budget
        self._last: tuple[float, dict[str, float]] | None = None

    def read(self, now_s: float, cpu_s: float, pids: Iterable[int]) -> Usage:
        """Return the usage between the previous call and `now_s`, as fractions of the declared rates.

        `cpu_s` is the total CPU time of all attempts so far, running and ended. `pids` are the processes
        whose memory is added up. Disk and network usage are 0 if the node's rates are not limited.
        """
        names = ("disk", "tx", "rx")
        totals = {name: self._budget.paid(name) if self._budget else 0.0 for name in names} | {"cpu": cpu_s}
        last_s, before = self._last or (now_s, totals)
        self._last = (now_s, totals)
        elapsed_s = max(now_s - last_s, 1e-6)
        rate = {name: max(0.0, totals[name] - before[name]) / elapsed_s for name in totals}
        return Usage(
            cpu_util=_share(rate["cpu"], self._node.cpu_rate),
            disk_util=_share(rate["disk"], self._node.disk_bps),
            net_util=_share(max(rate["tx"], rate["rx"]), self._node.network_bps),
            memory_bytes=sum(map(process_rss_bytes, pids)),
        )


def _share(rate: float, declared: float) -> float:
    return rate / declared if declared else 0.0

"""A node's resource usage as fractions of its declared rates, from kernel counters or its agent's report."""

from __future__ import annotations

from schedbed.cluster.machines.machine import KernelTotals
from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec

AGENT, KERNEL = "agent", "kernel"
"""The source of a usage figure. The agent does not see I/O that attempts do without charging its budgets."""

GAP_MIN_S = (
    0.02  # Closer readings are too noisy, since a group's quota is handed out in periods of tens of ms.
)


def counted_by(totals: KernelTotals) -> dict[str, str]:
    """Return a dictionary from cpu, memory, disk and network to the source of the usage: KERNEL or AGENT.

    The source is the kernel if `totals` contains its counter for the resource.
    """
    seen = {
        "cpu": totals.cpu_s,
        "memory": totals.memory_bytes,
        "disk": totals.disk_write_bytes,
        "network": totals.sent_bytes,
    }
    return {resource: AGENT if value is None else KERNEL for resource, value in seen.items()}


class NodeUsage:
    """A meter that computes a node's usage from the differences between readings of the kernel's counters.

    Each incarnation (each life of the node, from its start to its loss) has its own object.
    """

    def __init__(self, node: NodeSpec) -> None:
        self._node = node
        self._last: tuple[float, dict[str, float]] | None = None
        self._usage = Usage()

    def read(self, now_s: float, totals: KernelTotals, launch_cpu_s: float, said: Usage) -> Usage:
        """Return the usage since the previous call, as fractions of the declared rates.

        `totals` are the kernel's counters at time `now_s`. `said` is the agent's report, used for resources
        that the kernel does not count. `launch_cpu_s` is the total CPU time that starting and ending attempts
        has used so far; it is subtracted, because it is part of the emulation and not limited. A call less
        than GAP_MIN_S seconds after the previous call returns the previous fractions.
        """
        running = _running_totals(totals, launch_cpu_s)
        last_s, before = self._last or (now_s, running)
        elapsed_s = now_s - last_s
        if self._last is None or elapsed_s >= GAP_MIN_S:
            self._last = now_s, running
            self._usage = self._shares(running, before, max(elapsed_s, GAP_MIN_S), said)
        memory = said.memory_bytes if totals.memory_bytes is None else totals.memory_bytes
        return Usage(
            cpu_util=self._usage.cpu_util,
            disk_util=self._usage.disk_util,
            net_util=self._usage.net_util,
            memory_bytes=memory,
        )

    def _shares(
        self, running: dict[str, float], before: dict[str, float], elapsed_s: float, said: Usage
    ) -> Usage:
        rate = {
            name: max(0.0, value - before.get(name, value)) / elapsed_s for name, value in running.items()
        }
        node = self._node
        return Usage(
            cpu_util=_share(rate["cpu"], node.cpu_rate) if "cpu" in rate else said.cpu_util,
            disk_util=_share(rate["disk"], node.disk_bps) if "disk" in rate else said.disk_util,
            net_util=(
                _share(max(rate["sent"], rate["received"]), node.network_bps)
                if "sent" in rate
                else said.net_util
            ),
        )


def _running_totals(totals: KernelTotals, launch_cpu_s: float) -> dict[str, float]:
    """Return a dictionary with the kernel's counters of cpu, disk, sent and received, as far as they exist.

    The CPU time is in seconds, without the time `launch_cpu_s` for starting and ending attempts. The other
    counters are in bytes, and `disk` is the sum of reads and writes.
    """
    found: dict[str, float] = {}
    if totals.cpu_s is not None:
        found["cpu"] = totals.cpu_s - launch_cpu_s
    if totals.disk_write_bytes is not None:
        found["disk"] = totals.disk_write_bytes + (totals.disk_read_bytes or 0)
    if totals.sent_bytes is not None:
        found["sent"] = totals.sent_bytes
        found["received"] = totals.received_bytes or 0
    return found


def _share(rate: float, declared: float) -> float:
    return rate / declared if declared else 0.0

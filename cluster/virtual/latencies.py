"""Latencies of live attempts, for simulations: launch, end, fetches and output blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """A live attempt's latencies. `*_cpu_s` are core-seconds of the host, longer on slow emulated cores.

    The launch default was measured in the shipped scenarios: 30 ms with the reply, on cores of 0.08. Others
    are round trips of HTTP within one host.
    """

    launch_s: float = 0.010  # from the heartbeat's answer to the fork
    launch_cpu_s: float = 0.0014  # from the fork to the first line of task code
    end_s: float = 0.005  # from the last line of task code to the TaskTracker's notice
    end_cpu_s: float = 0.001
    fetch_s: float = 0.002  # a map output's round trip, without the transfer of its bytes
    fetch_cpu_s: float = 0.001
    block_s: float = 0.004  # requesting an output block from the NameNode, and completing the block
    block_cpu_s: float = 0.001
    core_share: float = 1.0  # share of a declared core that quotas give (quickstart: 1.00 to 1.04)
    launch_later_s: tuple[float, ...] = ()  # delays beyond `launch_s`; each attempt draws one

    def launch(self, core_speed: float) -> float:
        """Return the seconds from a launch command to the first line of task code (a plan's `start_s`)."""
        return self.launch_s + self.launch_cpu_s / core_speed

    def end(self, core_speed: float) -> float:
        """Return the seconds from the last line of task code to the TaskTracker's report."""
        return self.end_s + self.end_cpu_s / core_speed

    def fetch(self, core_speed: float) -> float:
        """Return the seconds to fetch a map output of zero bytes."""
        return self.fetch_s + self.fetch_cpu_s / core_speed

    def block(self, core_speed: float) -> float:
        """Return the seconds to write an output block of zero bytes."""
        return self.block_s + self.block_cpu_s / core_speed


NO_LATENCIES = Latencies(
    launch_s=0.0,
    launch_cpu_s=0.0,
    end_s=0.0,
    end_cpu_s=0.0,
    fetch_s=0.0,
    fetch_cpu_s=0.0,
    block_s=0.0,
    block_cpu_s=0.0,
    core_share=1.0,
)
"""Nothing but CPU, disk and network takes time."""

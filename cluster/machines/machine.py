"""The interface of machines (process group or container) for a TaskTracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from schedbed.cluster.agent.config import AgentConfig

HOST_PID = "host.pid"
"""The file in a node's folder on its host with the machine's first process, where that descends from no process of
ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A machine that is up: its agent's base URL and process, and what enforces each resource.

    `limits` maps cpu, memory, disk and network to `cgroup v1`, `cgroup v2`, `loop device`, `tc`, `off`, or `software
    (cooperating code only)` for limits that uncooperative code can evade.
    """

    url: str
    pid: int
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotals:
    """The kernel's counters of one incarnation of a node: its attempts with children, threads and shells.

    None where this host's kernel does not count for this node; only the agent's figures exist there. `cpu_s` is in
    core-seconds of the host; the others are bytes. `memory_bytes` is the current use, the rest are running totals.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None


class MachineFailed(Exception):
    """The agent did not start. The message is its own, or says where its log is."""


class Machine(Protocol):
    """An emulated node's machine for one incarnation: start, then stop or kill. Its files remain until `dispose`."""

    async def start(self) -> Hello:
        """Start the machine. Raises BadInput if the requested limits are impossible here."""
        ...

    async def stop(self) -> None:
        """Stop the machine in order. Only its files are left. May be called after `kill`, and more than once."""
        ...

    async def kill(self) -> None:
        """Kill the machine immediately, as in a power cut. What was written to its disk stays."""
        ...

    async def freeze(self) -> None:
        """Freeze everything on the machine. Connections stay open."""
        ...

    async def thaw(self) -> None:
        """Continue after `freeze`."""
        ...

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Inject a fault: multiply those declared rates from now on that the agent, which gets the same order, cannot
        change itself."""
        ...

    async def dispose(self) -> None:
        """Remove the node's files, unless they are in the run's own folder. Must be called after `stop`, when the node
        is no longer needed."""
        ...

    def totals(self) -> KernelTotals:
        """Return the kernel's counters of this node. Takes well below a millisecond."""
        ...

    def is_alive(self) -> bool:
        """Return whether the agent runs."""
        ...


def _nothing_to_check() -> None:
    """Do nothing: machines of this kind work on every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImage:
    """The base that machines of a kind are made from, if a host may lack it.

    `pieces` yields it on one host, in bounded pieces, and `load` loads them on another. Both raise BadInput on
    failure.
    """

    is_missing: Callable[[], bool]
    pieces: Callable[[], Iterator[bytes]]
    load: Callable[[Iterator[bytes]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """A choice of `--machines`, declared as `KIND` by the module of the machines.

    `make(agent, owner)` returns a new machine for one incarnation of a node: `agent` is the agent's configuration,
    with the node's folder on this host as `root`; `owner` marks the process for which it is made. `check` raises
    BadInput that says what to do if such machines do not work on this host. `ready` surrounds all runs of a command
    and leaves no machine behind. `image` is sent to hosts that lack it.
    """

    about: str
    make: Callable[[AgentConfig, str], Machine]
    check: Callable[[], None] = _nothing_to_check
    ready: Callable[[], AbstractContextManager[None]] = nullcontext
    image: MachineImage | None = None

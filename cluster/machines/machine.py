"""What a TaskTracker needs of a machine, whatever it is made of: a process group or a container."""

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

    `limits` maps cpu, memory, disk and network to `cgroup v1`, `cgroup v2`, `loop device`, `tc` or `off`, or to
    `software (cooperating code only)`, as is said of everything that code which does not cooperate can evade.
    """

    url: str
    pid: int
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotals:
    """What the kernel has counted of one life of a node: of its attempts, their children, threads and shells.

    None where this host's kernel does not count it for this node: there what the agent says is all that there is.
    `cpu_s` is in core-seconds of the host; the others are bytes. `memory_bytes` is what is held at this time, the rest
    are running totals.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None


class MachineFailed(Exception):
    """The agent did not come up: its own words, or where its log is."""


class Machine(Protocol):
    """One emulated node's machine; one life: start, then stop or kill. Its files outlive it, until `dispose`."""

    async def start(self) -> Hello:
        """Brings the machine up. Raises BadInput when the limits asked for are impossible here."""
        ...

    async def stop(self) -> None:
        """Orderly end; afterwards only its files are left. Also after kill, and more than once."""
        ...

    async def kill(self) -> None:
        """The machine dies at once, as by a power cut; what was written to its disk stays."""
        ...

    async def freeze(self) -> None:
        """Everything on the machine stands still, connections stay open."""
        ...

    async def thaw(self) -> None:
        """End `freeze`."""
        ...

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """A fault: multiplies declared rates from now on, as far as the agent, which is told as well, cannot."""
        ...

    async def dispose(self) -> None:
        """Removes the node's files, unless they lie in the run's own folder; after `stop`, when the node ends."""
        ...

    def totals(self) -> KernelTotals:
        """Read the kernel's counters of this node; takes well below a millisecond."""
        ...

    def is_alive(self) -> bool:
        """Tell whether the agent runs."""
        ...


def _nothing_to_check() -> None:
    """Return: machines of this kind can be had on every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImage:
    """What machines of a kind are made of where a host may lack that: `pieces` yields it on one host, in bounded
    pieces, and `load` takes them in on another. Each raises BadInput when it cannot be done."""

    is_missing: Callable[[], bool]
    pieces: Callable[[], Iterator[bytes]]
    load: Callable[[Iterator[bytes]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """One choice of `--machines`, declared as `KIND` by the module that makes machines of this kind.

    `make(agent, owner)` returns a fresh machine for one life of a node: `agent` is what its agent is told, with the
    node's folder on this host as `root`; `owner` marks the process for which all is made. `check` raises BadInput
    saying what to do when such machines cannot be had on this host; `ready` is entered around
    all runs of a command and leaves no such machine behind; `image` is what is sent to hosts that lack it.
    """

    about: str
    make: Callable[[AgentConfig, str], Machine]
    check: Callable[[], None] = _nothing_to_check
    ready: Callable[[], AbstractContextManager[None]] = nullcontext
    image: MachineImage | None = None

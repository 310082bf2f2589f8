"""The interface of machines. A machine is a process group or a container in which an emulated node runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from schedbed.cluster.agent.config import AgentConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedMachine:
    """The description of a machine that has started: the agent's URL and pid, and how limits are enforced.

    `limits` maps cpu, memory, disk and network to the mechanism: `cgroup v1`, `cgroup v2`, `loop device`,
    `tc`, `off`, or `software (cooperating code only)` for a limit that uncooperative code can exceed.
    """

    url: str
    pid: int
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotals:
    """The kernel's counters of the resources used by the attempts of a node in one incarnation.

    Child processes, threads and shells are included. A counter is None if the kernel does not measure the
    resource for this node. `cpu_s` is in core-seconds of the host, and the other counters are in bytes.
    `memory_bytes` is the current use; the other counters are totals since the node's start.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None


class MachineFailed(Exception):
    """A machine could not be started or limited. The message is from the agent, its log, or a failed tool."""


class Machine(Protocol):
    """The machine of an emulated node for one incarnation. Call `start`, then `stop` or `kill`.

    The node's files remain until `dispose` is called.
    """

    async def start(self) -> StartedMachine:
        """Start the machine and the agent. Return the agent's URL and pid, and how limits are enforced.

        Raises BadInput if the requested limits are impossible on this host.
        """
        ...

    async def stop(self) -> None:
        """Shut the machine down. The node's files remain. May be called again, and also after `kill`."""
        ...

    async def kill(self) -> None:
        """Kill the machine immediately, as in a power failure. Data on the node's disk remain."""
        ...

    async def freeze(self) -> None:
        """Freeze all processes of the machine. Network connections stay open."""
        ...

    async def thaw(self) -> None:
        """Continue all processes of the machine, which `freeze` has stopped."""
        ...

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Inject a fault: set the rates of CPU, disk and network to the declared rates times these factors.

        The machine sets only the rates that the agent cannot set. The agent receives the same factors and
        sets the other rates.
        """
        ...

    async def dispose(self) -> None:
        """Remove those files of the node that are outside the run's folder.

        Must be called after `stop`, when the node is no longer needed.
        """
        ...

    def totals(self) -> KernelTotals:
        """Return the kernel's counters of this node. The call takes well below a millisecond."""
        ...

    def is_alive(self) -> bool:
        """Return whether the node's agent is running."""
        ...


def _nothing_to_check() -> None:
    """Do nothing, because machines of this kind work on every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImage:
    """Functions that copy the base image of a kind of machines to a host without the image.

    `is_missing` returns whether this host lacks the image. `pieces` yields the image of this host in small
    pieces, and `load` stores such pieces as the image of another host. All functions raise BadInput on
    failure.
    """

    is_missing: Callable[[], bool]
    pieces: Callable[[], Iterator[bytes]]
    load: Callable[[Iterator[bytes]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """A kind of machines for the option `--machines`, declared as `KIND` by the module that implements it.

    `make(agent, owner)` returns a new machine for one incarnation of a node, where `agent` is the agent's
    configuration and `owner` identifies the process to which the machine belongs. `check` raises BadInput,
    with advice, if such machines do not work on this host. `ready` returns a context manager for all runs of
    a command, which removes all machines at the end. `image` contains functions that copy the image needed by
    such machines to other hosts, or is None if no image is needed.
    """

    about: str
    make: Callable[[AgentConfig, str], Machine]
    check: Callable[[], None] = _nothing_to_check
    ready: Callable[[], AbstractContextManager[None]] = nullcontext
    image: MachineImage | None = None

"""The interface of machines. A machine is a process group or a container in which an emulated node runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from schedbed.cluster.agent.config import AgentConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedMachine:
    """A started machine. `limits` maps cpu, memory, disk and network to what limits each.

    That is `cgroup v1`, `cgroup v2`, `loop device`, `tc`, `off`, or `software (cooperating code only)`.
    """

    url: str
    pid: int
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotals:
    """Resources that a node's attempts used in one incarnation, with children and shells. None: not measured.

    `cpu_s` is in core-seconds of the host. `memory_bytes` is the current use, the others are totals since the
    node's start.
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
    """A node's machine for one incarnation: `start`, then `stop` or `kill`. Files remain until `dispose`."""

    async def start(self) -> StartedMachine:
        """Start the machine and its agent. Raises BadInput if the limits are impossible on this host."""
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
        """Set the declared rates times these factors, only those that the agent, which is told too, cannot."""
        ...

    async def dispose(self) -> None:
        """Remove the node's files outside the run's folder. Call after `stop`."""
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
    """Copies the base image to a host that lacks it: `load` stores `pieces`. All raise BadInput."""

    is_missing: Callable[[], bool]
    pieces: Callable[[], Iterator[bytes]]
    load: Callable[[Iterator[bytes]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """A kind of machines for `--machines`, declared as `KIND` by its module.

    `make(agent, owner)` returns a machine for one incarnation; `owner` marks the process to which it belongs.
    `check` raises BadInput with advice. `ready` surrounds a command's runs and removes all machines. `image`
    is None if there is none to copy. `run_apart`, if there is one, runs a module with a user's code for the driver
    in a machine: from run id, module, request, folder and time limit in s to the answer.
    """

    about: str
    make: Callable[[AgentConfig, str], Machine]
    check: Callable[[], None] = _nothing_to_check
    ready: Callable[[], AbstractContextManager[None]] = nullcontext
    image: MachineImage | None = None
    run_apart: Callable[[str, str, bytes, Path, float], bytes] | None = None

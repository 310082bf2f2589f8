"""What a TaskTracker needs of a machine, whatever it is made of: a process group or a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from schedbed.cluster.run_config import RunConfig
    from schedbed.cluster.spec import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A machine that is up: its agent's base URL and process, and what enforces each resource.

    `limits` maps cpu, memory, disk and network to `cgroup v1`, `cgroup v2`, `software` or `off`; of a container to
    `docker cgroup v1` (or v2), `software in docker cgroup v1`, `tc`.
    """

    url: str
    pid: int
    limits: Mapping[str, str]


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
        """Ends `freeze`."""
        ...

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """A fault: multiplies declared rates from now on, as far as the agent, which is told as well, cannot."""
        ...

    async def dispose(self) -> None:
        """Removes the node's files, unless they lie in the run's own folder; after `stop`, when the node ends."""
        ...

    def is_alive(self) -> bool:
        """Whether the agent runs."""
        ...


def _nothing_to_check() -> None:
    """Return: machines of this kind can be had on every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """One choice of `--machines`, declared as `KIND` by the module that makes machines of this kind.

    `make(config, node, told)` returns a fresh machine for one life of a node, `told` being what its agent is told.
    `check` raises BadInput saying what to do when such machines cannot be had on this host; `ready` is entered around
    all runs of a command and leaves no such machine behind.
    """

    about: str
    make: Callable[[RunConfig, NodeSpec, Mapping[str, Any]], Machine]
    check: Callable[[], None] = _nothing_to_check
    ready: Callable[[], AbstractContextManager[None]] = nullcontext

"""What a TaskTracker needs of a machine, whatever it is made of: a process group or a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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

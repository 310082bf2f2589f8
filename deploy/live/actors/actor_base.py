"""The base classes of all Ray actors."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.cluster.masters import MasterGone, Method
from schedbed.cluster.priority import raise_priority
from schedbed.cluster.run_config import RunConfig, is_held_down
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.cluster.wire.server_end import ServerEnd

if TYPE_CHECKING:
    from schedbed.deploy.security.listeners import Listener

# By default, Ray lowers the priority of actors below all other processes. Ray reads this when it starts.
os.environ.setdefault("RAY_worker_niceness", "0")


@dataclass(frozen=True, slots=True)
class MasterService:
    """A master's work in one run. `calls` are the methods that other processes may call."""

    calls: Mapping[str, Method]
    stop: Callable[[], Awaitable[None]]


class RunActor:
    """The base class of the Ray actors, which raises the priority of its process."""

    def __init__(self) -> None:
        logging.basicConfig(level=logging.WARNING)
        raise_priority()

    async def ready(self) -> int:
        """Return the process's id. The driver calls this to wait for the actor's start."""
        return os.getpid()

    async def listeners(self) -> list[Listener]:
        """Return this process's and its children's listening sockets, without those behind Ray's token."""
        from schedbed.deploy.security.listeners import listeners_of
        from schedbed.deploy.security.strange_calls import without_guarded_ray

        return await asyncio.to_thread(lambda: without_guarded_ray(listeners_of(os.getpid())))


class MasterActor(RunActor, ABC):
    """The base of the masters' actors. After a start or restart, the first call creates the service."""

    NAME = ""
    DOOR: type[Any]
    NEEDS_CLOCK = False  # Whether the service needs the run's start time.

    def __init__(self, control: str, place: Endpoint) -> None:
        super().__init__()
        self._control = Path(control)
        self._place = place
        self._listening = asyncio.Lock()
        self._serves_at: Endpoint | None = None
        self._service: MasterService | None = None

    async def endpoint(self) -> Endpoint:
        """Return the endpoint of the master, which the first call opens."""
        async with self._listening:
            if self._serves_at is None:
                self._serves_at = await ServerEnd(self.DOOR, self._call).listen(self._place)
                self._place = self._serves_at  # The endpoint without the private key.
            return self._serves_at

    async def _call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call the current run's service on behalf of another process."""
        return await (await self._service_of_run()).calls[method](**arguments)

    async def _service_of_run(self) -> MasterService:
        """Return the current run's service, created if missing. Raises MasterGone while a fault holds it down."""
        if self._service is None:
            if is_held_down(self._control, self.NAME, time.time()):
                raise MasterGone("a fault keeps it down")
            self._service = await self._make(self._config())
        return self._service

    @abstractmethod
    async def _make(self, config: RunConfig) -> MasterService:
        """Create the master's service for the run `config` and return it."""

    def _config(self) -> RunConfig:
        config = RunConfig.load(self._control)
        if config is None or (self.NEEDS_CLOCK and not config.epoch_s):
            raise MasterGone("no run goes on")  # A late call of an earlier run.
        return config

    async def begin(self) -> None:
        self._service = await self._make(self._config())

    async def end(self) -> None:
        """Stop the service of the current run."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop()

"""The way to the two masters: Ray says where each serves now, a socket carries the calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError

from schedbed.cluster.doors import Send, make_stub
from schedbed.cluster.masters import MasterGone, NameNodeDoor
from schedbed.cluster.wire.client_end import ClientEnd
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.deploy.live.driver_door import DriverDoor


class RayMasters:
    """The two masters, actors of a namespace, as an actor reaches them: from one event loop, without an end."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.to_job_tracker: Send = ClientEnd(DriverDoor, partial(self._find, "jobtracker")).call
        self.to_name_node: Send = ClientEnd(NameNodeDoor, partial(self._find, "namenode")).call
        self.job_tracker = make_stub(DriverDoor, self.to_job_tracker)
        self.name_node = make_stub(NameNodeDoor, self.to_name_node)

    def __reduce__(self) -> tuple[type[RayMasters], tuple[str]]:
        return RayMasters, (self._namespace,)  # An actor makes connections of its own.

    async def _find(self, name: str) -> Endpoint:
        try:
            master: Any = ray.get_actor(name, namespace=self._namespace)
            return await master.endpoint.remote()
        except (RayError, ValueError) as error:
            raise MasterGone(f"{name}: {str(error).splitlines()[0]}") from None


class DriverMasters:
    """The two masters as the driver reaches them: from any thread and event loop. A call may take `timeout_s`."""

    def __init__(self, namespace: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="masters", daemon=True)
        self._thread.start()
        masters = RayMasters(namespace)
        self.to_job_tracker: Send = partial(self._carry, "jobtracker", masters.to_job_tracker)
        self.to_name_node: Send = partial(self._carry, "namenode", masters.to_name_node)
        self.job_tracker = make_stub(DriverDoor, self.to_job_tracker)
        self.name_node = make_stub(NameNodeDoor, self.to_name_node)

    async def _carry(
        self, name: str, send: Send, method: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        async def carried() -> Any:
            return await send(method, args, named)

        call = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(carried(), self._loop))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except TimeoutError:
            raise MasterGone(f"the {name} did not answer within {self._timeout_s} s") from None

    def close(self) -> None:
        """End the thread that carries the calls."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

"""Connections to the two masters, the JobTracker and the NameNode, through sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from schedbed.cluster.doors import Send, make_stub
from schedbed.cluster.masters import MasterGone, NameNodeDoor
from schedbed.cluster.wire.client_end import ClientEnd
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.deploy.live.driver_door import DriverDoor

FindMaster = Callable[[str], Awaitable[Endpoint]]
"""Returns the current endpoint of `jobtracker` or `namenode`. Raises MasterGone. Can be pickled."""


class SocketMasters:
    """Connections of an actor to the JobTracker and the NameNode, for use in one event loop.

    Calls have no time limit. `find` is a function that returns the current endpoint (socket path or address)
    of a master.
    """

    def __init__(self, find: FindMaster) -> None:
        self._find = find
        self.to_job_tracker: Send = ClientEnd(DriverDoor, partial(find, "jobtracker")).call
        self.to_name_node: Send = ClientEnd(NameNodeDoor, partial(find, "namenode")).call
        self.job_tracker = make_stub(DriverDoor, self.to_job_tracker)
        self.name_node = make_stub(NameNodeDoor, self.to_name_node)

    def __reduce__(self) -> tuple[type[SocketMasters], tuple[FindMaster]]:
        return SocketMasters, (self._find,)  # Each actor opens new connections.


class DriverMasters:
    """Connections of the driver, the process of the command, to the JobTracker and the NameNode.

    They can be used in any thread and event loop. `find` is a function that returns the current endpoint of a
    master. A call raises MasterGone if it is not answered within `timeout_s` seconds.
    """

    def __init__(self, find: FindMaster, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="masters", daemon=True)
        self._thread.start()
        masters = SocketMasters(find)
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
        """Stop the thread that sends the calls."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

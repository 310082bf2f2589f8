"""The NameNode as an asynchronous service, which adds the current time to each call.

After a restart, calls that need the nodes of replicas wait for block reports (HDFS calls this safe mode).
"""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any, cast

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import Method, NameNodeDoor, methods_of

SETTLE_STEP_S = 0.05
SETTLE_LIMIT_S = 20.0
"""The longest time that a call to a restarted NameNode waits for the nodes' block reports."""
WAITING = ("allocate", "plan_input", "locate")
"""The calls that wait for block reports, since they choose or return nodes of replicas."""


def served(names: NameNode, clock: RunClock) -> NameNodeDoor:
    """Return an object whose calls are those of the door: each calls the NameNode's method of the same name.

    A method that takes `now_s` gets the run's time, which is 0 before the clock has begun.
    """

    def now_s() -> float:
        return clock.now_s() if clock.epoch_s else 0.0

    async def settle() -> None:
        waited_s = 0.0
        while waited_s < SETTLE_LIMIT_S and names.settling(now_s()):
            await asyncio.sleep(SETTLE_STEP_S)
            waited_s += SETTLE_STEP_S

    def method_of(name: str) -> Method:
        method = getattr(names, name)
        takes_time, waits = "now_s" in inspect.signature(method).parameters, name in WAITING

        async def call(*args: Any, **named: Any) -> Any:
            if waits:
                await settle()
            return method(now_s(), *args, **named) if takes_time else method(*args, **named)

        return call

    async def begin_clock(epoch_s: float) -> None:
        clock.begin(epoch_s)

    async def time_of_day() -> float:
        return clock.time_of_day_s(clock.now_s())

    own: dict[str, Method] = {"begin_clock": begin_clock, "time_of_day": time_of_day}
    calls = {name: own.get(name) or method_of(name) for name in methods_of(NameNodeDoor)}
    return cast(NameNodeDoor, SimpleNamespace(**calls))

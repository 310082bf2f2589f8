"""A node's connection to the masters under faults: cut off, delayed, or losing messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from schedbed.cluster.masters import MasterGone
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId


class FaultyLink:
    """A node's link to the masters, which faults can cut, delay or make lossy.

    Calls pass unchanged until `set` is called. `real_s` converts a delay to real seconds. `seed` determines
    which messages are lost.
    """

    def __init__(self, node: NodeId, seed: int, real_s: Callable[[float], float] = float) -> None:
        self._node = node
        self._real_s = real_s
        self._seed = seed
        self._sent = 0  # messages that could have been lost; each message has its own random draw
        self._cut_off = False
        self._delay_s = 0.0
        self._shares: dict[str, float] = {}

    def set(self, *, cut_off: bool, delay_s: float, lose_requests: float, lose_replies: float) -> None:
        """Set the faults of the link from now on.

        The arguments are those of the order `messages` of `Conditions.orders`: whether the link is cut, the
        delay of each message in seconds, and the fractions of requests and replies that are lost.
        """
        self._cut_off, self._delay_s = cut_off, delay_s
        self._shares = {"lose_requests": lose_requests, "lose_replies": lose_replies}

    async def carry(self, call: Callable[[], Awaitable[Any]], *, may_be_lost: bool = False) -> Any:
        """Make a call over the link and return its answer.

        Raises MasterGone if the call or the answer is lost. A call whose answer is lost has been carried out.
        Only calls with `may_be_lost` (heartbeats to the JobTracker) can be lost at random.
        """
        if self._cut_off:
            raise MasterGone(f"{self._node} is cut off from the masters")
        if self._delay_s:
            await asyncio.sleep(self._real_s(self._delay_s))
        if may_be_lost and self._is_lost("lose_requests"):
            raise MasterGone("the request was lost")
        answer = await call()
        if self._delay_s:
            await asyncio.sleep(self._real_s(self._delay_s))
        if self._cut_off or (may_be_lost and self._is_lost("lose_replies")):
            raise MasterGone("the reply was lost")
        return answer

    def _is_lost(self, kind: str) -> bool:
        share = self._shares.get(kind, 0.0)
        if not share:
            return False
        self._sent += 1
        return chance(self._seed, kind, self._node, self._sent).random() < share

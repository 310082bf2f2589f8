"""A node's connection to the masters under faults: cut off, delayed, or losing messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from schedbed.cluster.masters import MasterGone
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId


class FaultyLink:
    """Carries one node's calls, undisturbed until `set`. `real_s` converts a delay into real seconds."""

    def __init__(self, node: NodeId, seed: int, real_s: Callable[[float], float] = float) -> None:
        self._node = node
        self._real_s = real_s
        self._seed = seed
        self._sent = 0  # messages that could have been lost, so that each has a coin of its own
        self._cut_off = False
        self._delay_s = 0.0
        self._shares: dict[str, float] = {}

    def set(self, *, cut_off: bool, delay_s: float, lose_requests: float, lose_replies: float) -> None:
        """Apply the order `messages` of `Conditions.orders` from now on."""
        self._cut_off, self._delay_s = cut_off, delay_s
        self._shares = {"lose_requests": lose_requests, "lose_replies": lose_replies}

    async def carry(self, call: Callable[[], Awaitable[Any]], *, may_be_lost: bool = False) -> Any:
        """Return the answer to a call. Raises MasterGone if the call or its answer is lost.

        The call may be sent more than once. Only calls with `may_be_lost` (heartbeats to the JobTracker) are lost.
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

"""A node's connection to the masters, with faults: the connection is cut, or messages are delayed or lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from schedbed.cluster.masters import MasterGone
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId


class FaultyLink:
    """A node's connection to the masters with faults, none until `set`. `seed` determines lost messages."""

    def __init__(self, node: NodeId, seed: int, real_s: Callable[[float], float] = float) -> None:
        self._node = node
        self._real_s = real_s
        self._seed = seed
        self._sent = 0  # messages that could have been lost; each message has its own random draw
        self._cut_off = False
        self._delay_s = 0.0
        self._shares: dict[str, float] = {}

    def set(self, *, cut_off: bool, delay_s: float, lose_requests: float, lose_replies: float) -> None:
        """Replace the faults: a cut, a delay of each request and reply, and lost fractions of heartbeats."""
        self._cut_off, self._delay_s = cut_off, delay_s
        self._shares = {"lose_requests": lose_requests, "lose_replies": lose_replies}

    async def carry(self, call: Callable[[], Awaitable[Any]], *, may_be_lost: bool = False) -> Any:
        """Make a call subject to the faults. If only its reply is lost (MasterGone), it was carried out.

        Random losses affect only calls with `may_be_lost`, the heartbeats to the JobTracker.
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

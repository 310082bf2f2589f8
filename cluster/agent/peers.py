"""The other nodes as an agent knows them: where they are, and which a network fault keeps away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from schedbed.tasks.chance import chance

HEADER = "X-Node"


class Peers:
    """URLs and racks by node, and the nodes that a partition blocks."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.urls: dict[str, str] = {}
        self.racks: dict[str, str] = {}
        self.blocked: frozenset[str] = frozenset()
        self._delays: Mapping[str, float] = {}
        self._losses: Mapping[str, float] = {}
        self._heard = 0  # connections that could have been lost

    def disturb(self, delays: Mapping[str, float], losses: Mapping[str, float]) -> None:
        """Connections from and to these nodes come about so much later (seconds), or not (that share of them)."""
        self._delays, self._losses = dict(delays), dict(losses)

    def meet(self, urls: Mapping[str, str], racks: Mapping[str, str]) -> None:
        """Replaces what is known."""
        self.urls, self.racks = dict(urls), dict(racks)

    def url(self, node: str) -> str | None:
        """The agent of a node that can be reached, None of others."""
        return None if node in self.blocked else self.urls.get(node)

    async def admit(self, request: web.Request) -> str:
        """Who asks, empty for a client outside the cluster. Raises 503 when a network fault keeps the sender away."""
        sender = request.headers.get(HEADER, "")
        if sender in self.blocked:
            raise web.HTTPServiceUnavailable(text=f"{self.own} is cut off from {sender}")
        if sender and sender != self.own and (self._delays or self._losses):
            await asyncio.sleep(self._delays.get(sender, 0.0) + self._delays.get(self.own, 0.0))
            self._heard += 1
            share = max(self._losses.get(sender, 0.0), self._losses.get(self.own, 0.0))
            if chance(0, "loss", sender, self.own, self._heard).random() < share:
                raise web.HTTPServiceUnavailable(text=f"a connection from {sender} to {self.own} was lost")
        return sender

    def way_to(self, node: str) -> tuple[str, ...]:
        """The budgets that bytes to `node` pass here: none when they stay, the uplink too when they leave the rack."""
        if node == self.own:
            return ()
        leaves_rack = node in self.racks and self.racks[node] != self.racks.get(self.own)
        return ("tx", "uplink") if leaves_rack else ("tx",)

"""The other nodes as an agent knows them: where they are, and which a network fault keeps away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from schedbed.cluster.agent.link_budgets import CORE_SWITCH, downlink_of, uplink_of
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
        """Return the agent of a node that can be reached, None of others."""
        return None if node in self.blocked else self.urls.get(node)

    async def admit(self, request: web.Request) -> str:
        """Return who asks, empty for a client outside the cluster.

        Raises 503 when a network fault keeps the sender away.
        """
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

    def way_out(self, node: str) -> tuple[str, ...]:
        """Return the budgets that bytes to `node` pass on their way out: none when they stay, the uplink too when they
        leave the rack."""
        if node == self.own:
            return ()
        return ("tx", uplink_of(self.racks.get(self.own, ""))) if self._is_elsewhere(node) else ("tx",)

    def way_in(self, node: str) -> tuple[str, ...]:
        """Return the budgets that bytes from `node` pass on their way in: none when they stay, the core switch and the
        downlink too when they come from another rack."""
        if node == self.own:
            return ()
        into = (CORE_SWITCH, downlink_of(self.racks.get(self.own, "")))
        return ("rx", *into) if self._is_elsewhere(node) else ("rx",)

    def way_to(self, node: str) -> tuple[str, ...]:
        """Return the budgets that bytes pass which `node` asked for: its agent charges nothing, and its attempts only
        charge `rx`."""
        if not self._is_elsewhere(node):
            return self.way_out(node)
        return (*self.way_out(node), CORE_SWITCH, downlink_of(self.racks[node]))

    def _is_elsewhere(self, node: str) -> bool:
        """Return whether the node is known to be in another rack."""
        return node in self.racks and self.racks[node] != self.racks.get(self.own)

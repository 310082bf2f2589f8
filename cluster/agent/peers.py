"""An agent's view of the other nodes: their addresses and racks, and network faults between nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from schedbed.cluster.agent.link_budgets import CORE_SWITCH, downlink_of, uplink_of
from schedbed.tasks.chance import chance

HEADER = "X-Node"


class Peers:
    """The URLs and racks of all nodes, and the nodes that a network partition makes unreachable.

    `own` is the name of the agent's node.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        self.urls: dict[str, str] = {}
        self.racks: dict[str, str] = {}
        self.blocked: frozenset[str] = frozenset()
        self._delays: Mapping[str, float] = {}
        self._losses: Mapping[str, float] = {}
        self._heard = 0  # number of connections that could have been lost

    def disturb(self, delays: Mapping[str, float], losses: Mapping[str, float]) -> None:
        """Set the network faults: the delay in seconds and the fraction of lost connections of each node.

        Both apply to connections from and to the node.
        """
        self._delays, self._losses = dict(delays), dict(losses)

    def meet(self, urls: Mapping[str, str], racks: Mapping[str, str]) -> None:
        """Store the addresses and racks of all nodes."""
        self.urls, self.racks = dict(urls), dict(racks)

    def url(self, node: str) -> str | None:
        """Return the URL of a node's agent, or None if the node is unknown or a partition blocks it."""
        return None if node in self.blocked else self.urls.get(node)

    async def admit(self, request: web.Request) -> str:
        """Return the name of the node that sent the request, or "" for a client outside the cluster.

        If a fault delays messages of the node, wait for the delay. Raises HTTP error 503 if a fault blocks
        the node or loses the connection.
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
        """Return the names of the rate budgets to charge for bytes that this node sends to `node`.

        The tuple is empty if `node` is this node. The uplink of this node's rack is included if `node` is in
        another rack.
        """
        if node == self.own:
            return ()
        return ("tx", uplink_of(self.racks.get(self.own, ""))) if self._is_elsewhere(node) else ("tx",)

    def way_in(self, node: str) -> tuple[str, ...]:
        """Return the names of the rate budgets to charge for bytes that this node receives from `node`.

        The tuple is empty if `node` is this node. If `node` is in another rack, the switch between racks and
        the downlink of this node's rack are included.
        """
        if node == self.own:
            return ()
        into = (CORE_SWITCH, downlink_of(self.racks.get(self.own, "")))
        return ("rx", *into) if self._is_elsewhere(node) else ("rx",)

    def way_to(self, node: str) -> tuple[str, ...]:
        """Return the names of the rate budgets to charge for bytes that `node` has requested from this node.

        If `node` is in another rack, the result includes the links of both racks and the switch between them.
        The sender charges all of these links, because the receiver charges at most the bytes that it receives
        (`rx`), and no link.
        """
        if not self._is_elsewhere(node):
            return self.way_out(node)
        return (*self.way_out(node), CORE_SWITCH, downlink_of(self.racks[node]))

    def _is_elsewhere(self, node: str) -> bool:
        """Return whether `node` is in another rack than the agent's node.

        Return False for an unknown rack.
        """
        return node in self.racks and self.racks[node] != self.racks.get(self.own)

"""Rate limits that the nodes of a host share: one budget file for each link of a rack and each shared disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from schedbed.cluster.spec import LinkRates, NodeSpec, shared_disks
from schedbed.tasks.chance import chance
from schedbed.tasks.pacing import LINK_BUCKET, Budget, Stream

CORE_SWITCH = "core-switch"


def uplink_of(rack: str) -> str:
    return f"uplink-{quote(rack, safe='')}"


def downlink_of(rack: str) -> str:
    return f"downlink-{quote(rack, safe='')}"


def disk_of(name: str) -> str:
    return f"disk-{name}"


def rates_of(nodes: Sequence[NodeSpec], links: LinkRates, stretch: float) -> Iterator[tuple[str, float]]:
    """Yield (budget, bytes per real second) of links and shared disks. `links` uses emulated seconds."""
    links = links.slowed(stretch)
    for name, node in shared_disks(nodes).items():
        yield disk_of(name), node.disk_bps / stretch
    for rack in sorted({node.rack for node in nodes}):
        if links.up_bps is not None:
            yield uplink_of(rack), links.up_bps
        if links.down_bps is not None:
            yield downlink_of(rack), links.down_bps
    if links.core_bps is not None:
        yield CORE_SWITCH, links.core_bps


def make_links(folder: Path, nodes: Sequence[NodeSpec], links: LinkRates, stretch: float) -> None:
    """Create `folder` with the budget files for `nodes`, which are those of this host."""
    folder.mkdir(exist_ok=True)
    seek = {disk_of(name): node.seek for name, node in shared_disks(nodes).items()}
    for name, rate_bps in rates_of(nodes, links, stretch):
        Budget.create(folder / name, {LINK_BUCKET: rate_bps}, {LINK_BUCKET: seek.get(name, 0.0)}).close()
        if name in seek:
            (folder / name).chmod(0o666)  # Attempts may run as separate users.


class LinkBudgets:
    """The budget files of a folder by `make_links`, opened when first used. Links without a file are not limited."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Budget | None] = {}

    def streams(self, names: Iterable[str]) -> list[Stream]:
        """Return a stream for each limited link or disk in `names`."""
        budgets = [self._budget(name) for name in names]
        return [budget.stream(LINK_BUCKET) for budget in budgets if budget is not None]

    def _budget(self, name: str) -> Budget | None:
        if name not in self._open:
            path = self._folder / name
            self._open[name] = Budget.open(path) if path.exists() else None
        return self._open[name]

    def close(self) -> None:
        """Close the budget files. The files are not deleted, because other processes use them."""
        for budget in self._open.values():
            if budget is not None:
                budget.close()
        self._open.clear()


# An agent's view of the other nodes: their addresses and racks, and network faults between nodes.

HEADER = "X-Node"


class Peers:
    """The URLs and racks of all nodes, and those that a partition blocks. `own` is the agent's node."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.urls: dict[str, str] = {}
        self.racks: dict[str, str] = {}
        self.blocked: frozenset[str] = frozenset()
        self._delays: Mapping[str, float] = {}
        self._losses: Mapping[str, float] = {}
        self._heard = 0  # number of connections that could have been lost

    def disturb(self, delays: Mapping[str, float], losses: Mapping[str, float]) -> None:
        """Set delays in seconds and fractions of lost connections, which apply from and to each node."""
        self._delays, self._losses = dict(delays), dict(losses)

    def meet(self, urls: Mapping[str, str], racks: Mapping[str, str]) -> None:
        self.urls, self.racks = dict(urls), dict(racks)

    def url(self, node: str) -> str | None:
        """Return the URL of a node's agent, or None if the node is unknown or a partition blocks it."""
        return None if node in self.blocked else self.urls.get(node)

    async def admit(self, request: web.Request) -> str:
        """Return the sender, "" outside the cluster, after a fault's delay. Raises 503 if a fault blocks it."""
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
        """Return the budgets to charge for bytes to `node`: none to itself, with the uplink to another rack."""
        if node == self.own:
            return ()
        return ("tx", uplink_of(self.racks.get(self.own, ""))) if self._is_elsewhere(node) else ("tx",)

    def way_in(self, node: str) -> tuple[str, ...]:
        """Return the budgets to charge for bytes from `node`: none from itself, with links from another rack."""
        if node == self.own:
            return ()
        into = (CORE_SWITCH, downlink_of(self.racks.get(self.own, "")))
        return ("rx", *into) if self._is_elsewhere(node) else ("rx",)

    def way_to(self, node: str) -> tuple[str, ...]:
        """Return the budgets to charge for bytes that `node` asked for. The sender charges both racks' links."""
        if not self._is_elsewhere(node):
            return self.way_out(node)
        return (*self.way_out(node), CORE_SWITCH, downlink_of(self.racks[node]))

    def _is_elsewhere(self, node: str) -> bool:
        """Return whether `node` is in another rack than the agent's node. Return False for an unknown rack."""
        return node in self.racks and self.racks[node] != self.racks.get(self.own)

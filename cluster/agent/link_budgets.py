"""Rate limits that the nodes of a host share: one budget file for each link of a rack and each shared disk.

All processes that use a link or disk charge their bytes to its file, and wait when its rate is exceeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from schedbed.cluster.spec import LinkRates, NodeSpec, shared_disks
from schedbed.tasks.pacing import LINK_BUCKET, Budget, Stream

CORE_SWITCH = "core-switch"


def uplink_of(rack: str) -> str:
    """Return the name of the budget file that limits the rate of bytes that leave a rack."""
    return f"uplink-{quote(rack, safe='')}"


def downlink_of(rack: str) -> str:
    """Return the name of the budget file that limits the rate of bytes that enter a rack."""
    return f"downlink-{quote(rack, safe='')}"


def disk_of(name: str) -> str:
    """Return the name of the budget file that limits the rate of the shared disk `name`."""
    return f"disk-{name}"


def rates_of(nodes: Sequence[NodeSpec], links: LinkRates, stretch: float) -> Iterator[tuple[str, float]]:
    """Yield (name of the budget, rate in bytes per real second) for each limited link and each shared disk.

    `links` has rates per emulated second, which lasts `stretch` real seconds.
    """
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
    """Create `folder` with a budget file for each limited rack link and each shared disk of `nodes`.

    `nodes` are the nodes of this host. An emulated second lasts `stretch` real seconds.
    """
    folder.mkdir(exist_ok=True)
    seek = {disk_of(name): node.seek for name, node in shared_disks(nodes).items()}
    for name, rate_bps in rates_of(nodes, links, stretch):
        Budget.create(folder / name, {LINK_BUCKET: rate_bps}, {LINK_BUCKET: seek.get(name, 0.0)}).close()
        if name in seek:
            (folder / name).chmod(0o666)  # Attempts may run as separate users.


class LinkBudgets:
    """The budget files, which limit rates, in a folder that `make_links` created.

    Each file is opened when it is first used. The rate of a link without a file is not limited.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Budget | None] = {}

    def streams(self, names: Iterable[str]) -> list[Stream]:
        """Return a stream, which limits the rate of a transfer, for each limited link or disk in `names`."""
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

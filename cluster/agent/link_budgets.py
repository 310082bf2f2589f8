"""The links between racks as budgets that the agents of a host share: one file for each link, in one folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from schedbed.cluster.spec import LinkRates
from schedbed.tasks.pacing import Budget, Stream

CORE_SWITCH = "core-switch"
LINK_BUCKET = "tx"
"""The bucket of a link's file that its bytes pass; the others are not used."""


def uplink_of(rack: str) -> str:
    """Return the name of the link that bytes pass on their way out of a rack."""
    return f"uplink-{quote(rack, safe='')}"


def downlink_of(rack: str) -> str:
    """Return the name of the link that bytes pass on their way into a rack."""
    return f"downlink-{quote(rack, safe='')}"


def rates_of(racks: Iterable[str], links: LinkRates) -> Iterator[tuple[str, float]]:
    """Yield the name and the rate of each link that has a limit."""
    for rack in sorted(racks):
        if links.up_bps is not None:
            yield uplink_of(rack), links.up_bps
        if links.down_bps is not None:
            yield downlink_of(rack), links.down_bps
    if links.core_bps is not None:
        yield CORE_SWITCH, links.core_bps


def make_links(folder: Path, racks: Iterable[str], links: LinkRates) -> None:
    """Make the folder with the budgets of the links, for the agents of this host."""
    folder.mkdir(exist_ok=True)
    for name, rate_bps in rates_of(racks, links):
        Budget.create(folder / name, {LINK_BUCKET: rate_bps}).close()


class LinkBudgets:
    """The budgets in a folder of `make_links`, opened when the first bytes pass; a link without a file has no limit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Budget | None] = {}

    def streams(self, names: Iterable[str]) -> list[Stream]:
        """Begin a stream through each of the links that has a limit."""
        budgets = [self._budget(name) for name in names]
        return [budget.stream(LINK_BUCKET) for budget in budgets if budget is not None]

    def _budget(self, name: str) -> Budget | None:
        if name not in self._open:
            path = self._folder / name
            self._open[name] = Budget.open(path) if path.exists() else None
        return self._open[name]

    def close(self) -> None:
        """Close all files; the budgets stay for the others."""
        for budget in self._open.values():
            if budget is not None:
                budget.close()
        self._open.clear()

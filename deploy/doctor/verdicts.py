"""A table of declared and achieved resources of nodes. A row is one measurement of a limit under a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.failures import RunFailed
from schedbed.tasks.units import format_bytes, format_rate

TOLERANCE = {"cpu": 0.03, "disk": 0.05, "network": 0.05, "memory": 0.0}
"""Tolerated relative error of the achieved amount under loads of several seconds."""


HOST_BUSY = "host busy"
"""The verdict on a rate that is too low while the host has no spare CPU time."""


@dataclass(frozen=True, slots=True)
class Achieved:
    """The use of a resource on a node under a load. `ratio` is achieved / declared."""

    node: str
    resource: str
    ratio: float
    by: str
    load: str
    """A short description of the load."""
    tolerance: float | None
    """None if something other than the limit determines the rate: the row has no verdict."""
    resolution: float = 0.0
    """The possible error of the ratio, due to the short time of measurement."""
    busy: str = ""
    """A text about the host's load if it had no spare CPU time; else empty."""

    @property
    def error(self) -> float:
        """Return the relative error, negative if too low."""
        return self.ratio - 1

    @property
    def holds(self) -> bool:
        """Return whether the error is within `tolerance` (None: no verdict) plus `resolution` of a short
        measurement.

        A rate that is too low while the host was busy also holds.
        """
        if self.tolerance is None or abs(self.error) <= self.tolerance + self.resolution:
            return True
        return self.error < 0 and bool(self.busy)

    @property
    def verdict(self) -> str:
        """Return the verdict for the table: "holds", "does not hold", "host busy" or "not judged"."""
        if self.tolerance is None:
            return "not judged"
        if self.busy and self.error < -self.tolerance:
            return HOST_BUSY
        return "holds" if self.holds else "does not hold"


def attempt_memory(node: NodeSpec, at_most_bytes: int = 192 * 2**20) -> int:
    """Return a test attempt's memory limit: at most half of the node's, since two run at once."""
    return min(at_most_bytes, node.memory_bytes // 2)


def declared(node: NodeSpec, resource: str) -> float:
    """Return the declared value of a node's resource, in cores or bytes/s; for memory, bytes per attempt."""
    return {
        "cpu": node.cpu_rate,
        "disk": node.disk_bps,
        "network": node.network_bps,
        "memory": attempt_memory(node),
    }[resource]


def show(found: Sequence[Achieved], nodes: Sequence[NodeSpec], console: Console) -> None:
    """Print a table of measurements. Raises RunFailed if a limit does not hold."""
    columns = ("node", "resource", "tested with", "configured", "achieved", "error", "by", "")
    table = Table(*columns, title="Achieved, all nodes busy")
    specs = {node.node: node for node in nodes}
    for each in found:
        value = declared(specs[each.node], each.resource)
        row = (_shown(each.resource, value), _shown(each.resource, value * each.ratio), f"{each.error:+.1%}")
        table.add_row(each.node, each.resource, each.load, *row, each.by, each.verdict)
    console.print(table)
    for busy in dict.fromkeys(each.busy for each in found if each.verdict == HOST_BUSY):
        console.print(f"The host was busy: {busy}.")
    outside = [each for each in found if not each.holds]
    if outside:
        worst = max(outside, key=lambda each: abs(each.error) - (each.tolerance or 0.0))
        raise RunFailed(
            f"{len(outside)} of {len(found)} limits do not hold, the worst is {worst.resource} of {worst.node} "
            f"under {worst.load} ({worst.error:+.1%}, at most {worst.tolerance or 0.0:.0%}): is the host busy with "
            "something else?"
        )


def _shown(resource: str, value: float) -> str:
    if resource == "cpu":
        return f"{value:.3f} cores"
    return format_bytes(value) if resource == "memory" else format_rate(value)

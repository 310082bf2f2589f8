"""Notes about approximate disk and network rates in simulations, which save time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schedbed.cluster.virtual.fluid.max_min import REACH

if TYPE_CHECKING:
    from schedbed.deploy.results.runfile import RunFile

KEY = "approximate_rates"


def approximate_rates(run: RunFile) -> dict[str, Any]:
    """Return the entry of summary.json about approximate rates, empty if all rates were exact."""
    told = [record.rates for record in run.runs if record.rates]
    if not told:
        return {}
    return {
        KEY: {
            "reach": REACH,
            "runs": len(told),
            "solved": sum(rates["times"] for rates in told),
            "cut_short": sum(rates["cut_short"] for rates in told),
        }
    }


def rate_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a list with a sentence about approximate rates, empty if all rates were exact."""
    found = summary.get(KEY)
    if found is None:
        return []
    share = 100 * found["cut_short"] / found["solved"]
    shown = f"{share:.1f}%" if share >= 0.1 else "less than 0.1%"
    return [
        f"Simulated disk and network rates are approximate: in {shown} of the updates more than {found['reach']} "
        "transfers shared resources, and only the nearest ones got new rates at once (docs/simulator.md)."
    ]

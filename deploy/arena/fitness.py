"""The fitness of one policy in the arena, for programs that search for better policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def score_of(summary: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return the policy's result for a search program, taken from the arena's summary.

    The result contains `score`, the slowdown on each workload, the mean metrics and a note. `score` is the
    negative mean slowdown over all workloads, so larger is better. It is None if a simulation failed.
    """
    cells = summary["cells"][policy]
    values = [cell[summary["ranked_by"]] for cell in cells.values()]
    known = [value for value in values if value is not None]
    whole = bool(values) and len(known) == len(values)
    why = next((cell["why"] for cell in cells.values() if cell[summary["ranked_by"]] is None), "")
    return {
        "policy": policy,
        "score": -sum(known) / len(known) if whole else None,
        "workloads": dict(zip(cells, values, strict=True)),
        **summary["policies"][policy],
        "note": why,
    }

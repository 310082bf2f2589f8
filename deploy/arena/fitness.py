"""The fitness of one policy, for programs that search for better policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def score_of(summary: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return the policy's entry for a search program: its `score`, its value per workload, its means, and a
    note.

    The score is minus the mean slowdown over workloads, so larger is better; None if a cell failed.
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

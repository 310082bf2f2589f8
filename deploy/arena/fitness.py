"""The score of one policy, for a loop that searches for a better one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def score_of(summary: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return the score: minus the mean slowdown over workloads, larger is better; None if a cell failed."""
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

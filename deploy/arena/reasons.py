"""Sentences that explain a policy's result on a workload: why tasks waited, or why simulations failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.deploy.arena.cells import CAUSE_COLUMNS, CAUSES, Row

WORDS: Mapping[str, str] = {
    "splitting": "for a split of their map",
    "data": "for a node with their data",
    "share": "because their user was at its share or another went first",
    "slot": "for a free slot",
    "offer": "for an offer that the policy took",
}
SHARE_TOLD = 0.2
"""The least share of the wait of a cause that a sentence names."""


def mean(rows: Sequence[Row], column: str) -> float | None:
    """Return the mean of a column over the rows that have a value, or None if no row has one."""
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) / len(known) if known else None


def sentence(rows: Sequence[Row]) -> str:
    """Return a sentence that explains one policy's result on one workload.

    `rows` are the result rows of this policy and workload, one per seed.
    """
    lost = [row for row in rows if row["state"] != "succeeded"]
    if lost:
        return f"Lost in {len(lost)} of {len(rows)}: {lost[0]['note'] or 'no reason known'}"
    waited = mean(rows, "task_wait_s")
    if waited is None:
        return "No wait was measured."
    parts = [f"A task waited {waited:.1f} s on average"]
    causes = {cause: mean(rows, column) for cause, column in zip(CAUSES, CAUSE_COLUMNS, strict=True)}
    told = sorted(
        ((seconds, cause) for cause, seconds in causes.items() if seconds and seconds >= SHARE_TOLD * waited),
        reverse=True,
    )
    if told and waited > 0:
        parts.append(", ".join(f"{seconds / waited:.0%} {WORDS[cause]}" for seconds, cause in told))
    beside = _beside(rows)
    return ": ".join(parts) + (f"; {beside}." if beside else ".")


def _beside(rows: Sequence[Row]) -> str:
    said: list[str] = []
    for column, text in (("locality", "{:.0%} of the input was read locally"), ("late", "{:.1f} jobs late")):
        value: Any = mean(rows, column)
        if value is not None and (value or column == "locality"):
            said.append(text.format(value))
    return ", ".join(said)

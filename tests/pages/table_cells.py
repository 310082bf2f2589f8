"""Text in the cells of Markdown tables."""

from __future__ import annotations


def cell(text: str | None) -> str:
    """Return the text in one line, with bars that do not end the cell."""
    return " ".join((text or "").split()).replace("|", "\\|")

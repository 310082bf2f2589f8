"""Convert text for cells of Markdown tables."""

from __future__ import annotations


def cell(text: str | None) -> str:
    """Return the text in one line, with `|` escaped."""
    return " ".join((text or "").split()).replace("|", "\\|")

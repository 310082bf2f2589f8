"""The trace formats, a module each. Its name is the format's; it declares `FORMAT`, and nothing else lists it."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.discover import names_in

NAMES = names_in(Path(__file__).parent)
"""All formats, as `--format` and `workload.format` take them."""

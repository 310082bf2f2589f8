"""The trace formats, one per module, named as the format. A module declares `FORMAT`, and no other list exists."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.discover import names_in

NAMES = names_in(Path(__file__).parent)
"""All formats, as `--format` and `workload.format` take them."""

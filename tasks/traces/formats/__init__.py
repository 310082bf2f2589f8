"""The trace formats. Each module declares a format as the variable `FORMAT`, and its name is that of the format."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.discover import names_in

NAMES = names_in(Path(__file__).parent)
"""The names of all formats, as used in `--format` and `workload.format`."""

"""The trace formats, one module per format, named like the format.

Each module declares `FORMAT`; no list to update.
"""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.discover import names_in

NAMES = names_in(Path(__file__).parent)
"""All formats, as `--format` and `workload.format` take them."""

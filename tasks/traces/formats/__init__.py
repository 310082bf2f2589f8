"""The trace formats: one module per format, with the format's name. Each module declares a variable
`FORMAT`.
"""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.discover import names_in

NAMES = names_in(Path(__file__).parent)
"""The names of all formats, as used in `--format` and `workload.format`."""

"""A live run of a scenario given as a mapping, without its printing: its tables and its summary."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed import run

if TYPE_CHECKING:
    import pandas as pd


def live_run(scenario: dict[str, Any]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Runs it under FIFO; raises what `deploy.run` raises."""
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            tables = run({**scenario, "policies": ["fifo"]}, out=folder, check=False)
        return tables, json.loads((Path(folder) / "summary.json").read_text())

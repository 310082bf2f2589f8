"""Import of files with users' policies.

Changes that the import makes to the process are undone and refused.
"""

from __future__ import annotations

import builtins
import time
from pathlib import Path

import pytest

from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput

CLASS = "\nclass Mine:\n    def decide(self, view, node, kind):\n        return None\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import time; time.sleep = print", "time.sleep"),
        ("import builtins; del builtins.len", "builtins.len"),
    ],
)
def test_an_import_that_replaces_what_all_depends_on_is_refused_and_undone(
    line: str, name: str, tmp_path: Path
) -> None:
    kept = time.sleep, builtins.len
    (tmp_path / "mine.py").write_text(line + CLASS)
    with pytest.raises(BadInput, match=rf"its import replaces {name}, expected .* \(mine\.py, line 1\)$"):
        build_policy(f"{tmp_path / 'mine.py'}:Mine")
    assert (time.sleep, builtins.len) == kept

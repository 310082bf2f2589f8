"""The arithmetic of the recovery benchmark: which blocks have their replicas again, and when outputs are
equal.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.bench.recovery import outputs, restored


def blocks(*rows: tuple[str, str, str, float, float | None, str]) -> pd.DataFrame:
    """Return a blocks table with rows of (block, file, node, added, removed, cause)."""
    return pd.DataFrame(rows, columns=pd.Index(["block", "file", "node", "added", "removed", "cause"]))


def test_a_block_is_whole_when_others_hold_all_its_replicas() -> None:
    table = blocks(
        ("b1", "/in/a", "n3", 0.0, 9.0, "input"),  # lost, and copied
        ("b1", "/in/a", "n1", 0.0, None, "input"),
        ("b1", "/in/a", "n2", 12.0, None, "repair"),
        ("b2", "/in/a", "n3", 0.0, 9.0, "input"),  # lost, and not yet
        ("b2", "/in/a", "n1", 0.0, None, "input"),
        ("b3", "/in/a", "n1", 0.0, None, "input"),  # never there
        ("b4", "/out/j/part-00000", "n3", 1.0, 9.0, "write"),  # no input
    )
    assert restored(table, "n3", 4.0, 2) == (0.5, pytest.approx(8.0))
    assert restored(table[table["block"] == "b1"], "n3", 4.0, 2)[0] == 1.0


def test_outputs_are_compared_by_their_bytes(tmp_path: Path) -> None:
    part = tmp_path / "outputs" / "fair" / "0" / "job_0001" / "part-00000"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"word\t1\n")
    assert outputs(tmp_path) == {"outputs/fair/0/job_0001/part-00000": b"word\t1\n"}

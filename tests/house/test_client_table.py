"""The table of clients: each failed or skipped test has a reason, and one without a reason is reported."""

from __future__ import annotations

from pathlib import Path

from tests.bench.client_table import NAMED, ClientFile, ClientResult, table
from tests.bench.pages import RESULTS

SNAPSHOT = "test_client.TestSnapshot"


def test_misses_are_grouped_and_those_without_a_reason_stand_out(tmp_path: Path) -> None:
    skipped = [f"{SNAPSHOT}.test_a", f"{SNAPSHOT}.test_b"]
    suite = ClientResult(client="hdfs 2", how="tests", passed=7, failed=["test_x.test_y"], skipped=skipped)
    broken = ClientResult(client="Polars", how="", trouble="KeyError: 5")
    kept = ClientFile(date="2026-01-02", host="2 cores", command="run it", clients=[suite, broken])
    kept.save(tmp_path / "clients.json")
    lines = table(ClientFile.load(tmp_path / "clients.json")).splitlines()
    assert "| hdfs 2 | tests | 7 passed, 1 failed, 2 left out |" in lines
    assert "| Polars |  | failed: KeyError: 5 |" in lines
    assert lines[-2:] == [
        "| hdfs: `test_x.test_y` | 1 | not explained |",
        f"| hdfs: `{SNAPSHOT}` | 2 | {NAMED[SNAPSHOT]} |",
    ]
    assert (suite.unexplained, broken.unexplained) == (["test_x.test_y"], ["KeyError: 5"])


def test_no_kept_result_is_unexplained_and_no_reason_is_left_over() -> None:
    kept = ClientFile.load(RESULTS / "clients.json")
    assert [each.unexplained for each in kept.clients] == [[]] * len(kept.clients)
    missed = {test for each in kept.clients for test in (*each.failed, *each.skipped)}
    assert [name for name in NAMED if not any(test.startswith(name) for test in missed)] == []

"""The NameNode's journal: what was changed or lost is noticed, and what was undone is not."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from schedbed.cluster.blocks.namenode_journal import NamespaceJournal
from schedbed.cluster.checksum_chain import JournalDamaged

CHANGES = [{"op": "mkdir", "path": f"/in/{number}"} for number in range(100)]


def filled(path: Path) -> None:
    journal = NamespaceJournal(path)
    for change in CHANGES:
        journal.append([change])
    journal.close()


def test_another_process_goes_on_where_the_journal_ends(tmp_path: Path) -> None:
    filled(tmp_path / "j")
    journal = NamespaceJournal(tmp_path / "j")
    journal.append([{"op": "a"}, {"op": "b"}])
    journal.close()
    assert list(NamespaceJournal(tmp_path / "j").changes()) == [*CHANGES, {"op": "a"}, {"op": "b"}]


def test_what_was_undone_is_not_missing(tmp_path: Path) -> None:
    filled(tmp_path / "j")
    journal = NamespaceJournal(tmp_path / "j")
    run(
        "CREATE TRIGGER full BEFORE INSERT ON changes WHEN NEW.change LIKE '%bad%' BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )(tmp_path / "j")
    with pytest.raises(sqlite3.DatabaseError, match="is full"):
        journal.append([{"op": "a"}, {"op": "bad"}])
    journal.append([{"op": "b"}])
    journal.close()
    assert list(NamespaceJournal(tmp_path / "j").changes()) == [*CHANGES, {"op": "b"}]


def run(sql: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with sqlite3.connect(path) as other:
            other.execute(sql)

    return harm


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (run("UPDATE changes SET change = '{}' WHERE id = 30"), "event 30 of 100 is missing or was changed"),
        (run("DELETE FROM changes WHERE id = 30"), "event 30 of 100 is missing or was changed"),
        (run("DELETE FROM changes WHERE id > 30"), "the last 70 of 100 events are missing"),
        (run("DELETE FROM changes"), "the last 100 of 100 events are missing"),
        (cut, "missing|malformed|not a database"),
        (lambda path: path.with_name("j-end").unlink(), "the number of its last event is missing"),
    ],
)
def test_a_damaged_journal_is_refused_in_a_line_that_names_it(
    tmp_path: Path, harm: Callable[[Path], None], why: str
) -> None:
    filled(tmp_path / "j")
    harm(tmp_path / "j")
    with pytest.raises(JournalDamaged) as refused:
        list(NamespaceJournal(tmp_path / "j").changes())
    line = str(refused.value)
    assert line.startswith("the NameNode's journal j is damaged (") and "\n" not in line
    assert re.search(why, line), line

"""The journal on disk: snapshots replace older events, and a damaged snapshot is skipped."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.checksum_chain import JournalDamaged
from schedbed.scheduler import journal
from schedbed.scheduler.event_log import EventList, EventLog
from schedbed.scheduler.journal import Journal


def fill(log: EventLog, first: int, last: int) -> None:
    for number in range(first, last + 1):
        log.append(float(number), "tick", number)


def held(log: EventLog) -> list[tuple[bytes | None, list[float]]]:
    """Return each snapshot from which a replay can start, or None, with the times of the events after it."""
    return [(snapshot, [event[0] for event in events]) for snapshot, events in log.beginnings()]


@pytest.fixture(params=("disk", "memory"))
def log(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EventLog:
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 3 * journal.EVENT_BYTES)
    monkeypatch.setattr(EventList, "EVERY", 3)
    return Journal(tmp_path / "j") if request.param == "disk" else EventList()


def test_two_snapshots_are_kept_and_the_events_since_the_older_one(log: EventLog) -> None:
    assert held(log) == [(None, [])]
    fill(log, 1, 2)
    assert not log.is_due()
    fill(log, 3, 3)
    assert log.is_due()
    log.keep(b"three")
    assert not log.is_due()
    assert held(log) == [(b"three", []), (None, [1.0, 2.0, 3.0])]
    fill(log, 4, 6)
    assert log.is_due()
    log.keep(b"six")
    assert held(log) == [(b"six", []), (b"three", [4.0, 5.0, 6.0])]
    fill(log, 7, 9)
    log.keep(b"nine")
    fill(log, 10, 10)
    assert held(log) == [(b"nine", [10.0]), (b"six", [7.0, 8.0, 9.0, 10.0])]


def test_another_process_goes_on_where_the_journal_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 3 * journal.EVENT_BYTES)
    for first in (1, 3, 5, 7):
        log = Journal(tmp_path / "j")
        fill(log, first, first + 1)
        if log.is_due():
            log.keep(b"%d" % (first + 1))
        log.close()
    assert held(Journal(tmp_path / "j")) == [(b"8", []), (b"4", [5.0, 6.0, 7.0, 8.0])]


def test_a_large_snapshot_is_not_followed_by_another_one_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 1)
    log = Journal(tmp_path / "j")
    fill(log, 1, 1)
    log.keep(b"x" * 10 * journal.EVENT_BYTES)
    fill(log, 2, 10)
    assert not log.is_due()
    fill(log, 11, 11)
    assert log.is_due()


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Journal(tmp_path / "j")
    for first in (1, 4, 7):
        fill(log, first, first + 2)
        log.keep(b"after %d" % (first + 2))
    fill(log, 10, 10)
    with sqlite3.connect(tmp_path / "j") as other:
        other.execute("UPDATE snapshots SET state = ? WHERE number = 9", (b"after 8",))
    assert held(log) == [(b"after 6", [7.0, 8.0, 9.0, 10.0])]
    assert caplog.messages == ["the snapshot after event 9 is damaged"]


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 100_000)
    log = Journal(tmp_path / "j")
    for number in range(4_000):
        log.append(float(number), "heartbeat", b"x" * 500)
        if log.is_due():
            log.keep(b"s" * 10_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_000_000 + (5 << 20)
    assert (tmp_path / "j").stat().st_size < 500_000


def damaged(path: Path, harm: str) -> str:
    """Return the line with which a journal of 400 events, and then harmed, is refused."""
    log = Journal(path)
    for number in range(200):
        log.append(float(number), "tick", "x" * 100)
    log.keep(b"two hundred")
    for number in range(200):
        log.append(float(number), "tick", "x" * 100)
    # A process that is killed closes nothing, and leaves the write-ahead log.
    database, wal = path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()
    end = path.with_name(f"{path.name}-end").read_bytes()
    log.close()
    path.write_bytes(database[: len(database) // 2] if harm == "file and log cut" else database)
    log_bytes = {"log cut": len(wal) // 2, "file and log cut": len(wal) // 2, "log lost": 0}
    path.with_name(f"{path.name}-wal").write_bytes(wal[: log_bytes.get(harm, len(wal))])
    path.with_name(f"{path.name}-end").write_bytes(b"" if harm == "end lost" else end)
    if harm == "rot":
        with sqlite3.connect(path) as other:
            other.execute("UPDATE events SET t = 7.5 WHERE number = 300")
    elif harm == "gap":
        with sqlite3.connect(path) as other:
            other.execute("DELETE FROM events WHERE number = 300")
    other_process = Journal(path)
    with pytest.raises(JournalDamaged) as refused:
        for _, events in other_process.beginnings():
            list(events)
    other_process.close()
    return str(refused.value)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("log cut", "the last [0-9]+ of [0-9]+ events are missing|malformed|not a database"),
        ("log lost", "the last [0-9]+ of [0-9]+ events are missing|malformed|not a database"),
        ("file and log cut", "missing|malformed|not a database|no such"),
        ("end lost", "the number of its last event is missing"),
        ("rot", "event 300 of 400 is missing or was changed"),
        ("gap", "event 300 of 400 is missing or was changed"),
    ],
)
def test_a_damaged_journal_is_refused_in_a_line_that_names_the_journal(
    tmp_path: Path, harm: str, why: str
) -> None:
    line = damaged(tmp_path / "jobtracker.sqlite", harm)
    assert line.startswith("the JobTracker's journal jobtracker.sqlite is damaged (")
    assert re.search(why, line) and "\n" not in line


def test_an_event_that_was_written_as_the_process_was_killed_is_kept(tmp_path: Path) -> None:
    log = Journal(tmp_path / "j")
    fill(log, 1, 3)
    log.close()
    (tmp_path / "j-end").write_bytes((2).to_bytes(8))
    assert held(Journal(tmp_path / "j")) == [(None, [1.0, 2.0, 3.0])]

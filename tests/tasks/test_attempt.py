"""Tests of the files of an attempt: status, report, counters, and a reason of one line if it fails."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedbed.tasks.apps.sort import sample_boundaries
from schedbed.tasks.apps.synthetic import Filler, burn
from schedbed.tasks.attempt import reason_of, run_on
from schedbed.tasks.attempt_status import Meter, StatusFile
from schedbed.tasks.blockfile import Piece
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, TaskKind
from tests.harness.memory_node import FakeCluster, FakeNode, a_spec, report_of

SPEC = a_spec(TaskKind.MAP, file="/in", length=8, file_length=8)


class BrokenNode(FakeNode):
    """A node whose reads fail."""

    def __init__(self, root: Path, error: Exception) -> None:
        super().__init__(root)
        self.error = error

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "over its memory limit of 4096 MiB"),
        (RuntimeError("can't start new thread"), "over its memory limit of 4096 MiB"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk full"),
        (
            OSError("no replica of blk_1 could be read\n(n2: 404)"),
            "OSError: no replica of blk_1 could be read (n2: 404)",
        ),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (BadInput("grep: no"), "grep: no"),
    ],
)
def test_a_failure_is_reported_in_one_line(tmp_path: Path, error: Exception, reason: str) -> None:
    assert run_on(SPEC, BrokenNode(tmp_path, error), tmp_path, 0.0, 1.0) == 1
    report = report_of(tmp_path, SPEC)
    assert (report["state"], report["reason"]) == ("failed", reason)
    assert not (tmp_path / "mapout").exists()


def test_a_failed_attempt_gives_back_the_disk_it_used(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % n for n in range(2000))
    node = FakeNode(tmp_path, {"/in": data})
    reads = node.read

    def read(file: str, start: int, end: int) -> Iterator[Piece]:
        yield from reads(file, start, 5000)
        raise OSError(errno.ENOSPC, "No space left on device")

    node.read = read
    spec = a_spec(
        TaskKind.MAP, file="/in", length=len(data), file_length=len(data), params={"sort_buffer": 1000}
    )
    assert run_on(spec, node, tmp_path, 0.0, 1.0) == 1
    assert report_of(tmp_path, spec)["reason"] == "disk full" and node.meter.counters().spill_bytes > 0
    assert sorted(path.name for path in (tmp_path / "attempts" / spec.attempt).iterdir()) == [
        "report.json",
        "status",
    ]


def test_bad_parameters_fail_the_attempt_with_their_message(tmp_path: Path) -> None:
    spec = a_spec(TaskKind.MAP, app="grep", params={"pattern": "("}, file="/in", length=8, file_length=8)
    run_on(spec, FakeNode(tmp_path, {"/in": b"01234567"}), tmp_path, 0.0, 1.0)
    assert "grep: pattern '(' is no regular expression" in report_of(tmp_path, spec)["reason"]
    assert len(reason_of(ValueError("x" * 1000), 1)) < 320


def test_a_map_reports_partitions_counters_and_times(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, b"b a\nb c\n")
    report = cluster.attempt(a_spec(TaskKind.MAP, file="/in", length=8, file_length=8, reduces=2))
    counters = report["counters"]
    assert (counters["records_in"], counters["records_out"]) == (2, 3)
    assert sum(report["partitions"]) == counters["output_bytes"] == counters["spill_bytes"] == 12
    assert counters["cpu_s"] > 0 and counters["memory_peak_bytes"] > 10**6
    assert 1.6e9 < report["start_s"] <= report["end_s"]


def test_a_reduce_reports_when_its_phases_ended(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, b"b a\nb c\n")
    cluster.job("wordcount", [], 1)
    report = cluster.reports[-1]
    counters = report["counters"]
    assert report["start_s"] <= counters["shuffle_end"] <= counters["sort_end"] <= report["end_s"]
    assert (counters["shuffle_bytes"], counters["output_bytes"], counters["records_out"]) == (12, 12, 3)


def test_status_is_written_when_the_phase_changes_and_else_every_fifth_of_a_second(tmp_path: Path) -> None:
    now = [100.0]
    progress = StatusFile(tmp_path / "status", 90.0, lambda: now[0])

    def written(phase: str, share: float, at: float) -> tuple[str, float]:
        now[0] = at
        progress.report(phase, share)
        status = json.loads((tmp_path / "status").read_text())
        assert status["started_s"] == 10.0
        return status["phase"], status["progress"]

    assert written("map", 0.0, 100.0) == ("map", 0.0)
    assert written("map", 0.3, 100.1) == ("map", 0.0)
    assert written("map", 0.4, 100.21) == ("map", 0.4)
    assert written("sort", 7.0, 100.22) == ("sort", 1.0)


def test_a_meter_counts_only_what_counters_have() -> None:
    meter = Meter()
    meter.add("spill_bytes", 3)
    meter.add("spill_bytes", 4)
    meter.mark("sort_end", 1.5)
    assert (meter.counters().spill_bytes, meter.counters().sort_end) == (7, 1.5)


def test_burning_ends_when_the_cpu_clock_says_so() -> None:
    clock, ticks = [0.0], []

    def cpu_clock() -> float:
        clock[0] += 0.1
        return clock[0]

    burn(1.05, lambda: ticks.append(clock[0]), cpu_clock)
    assert ticks == pytest.approx([0.1 * n for n in range(1, 11)])


def test_a_synthetic_attempt_uses_the_cpu_it_was_given(tmp_path: Path) -> None:
    begun = time.process_time()
    given_s = 0.2  # what this test process has used already is not the attempt's
    cost = Cost(cpu_s=given_s / 0.001, write_bytes=1000)
    FakeCluster(tmp_path).attempt(a_spec(TaskKind.MAP, app="synthetic", reduces=0, cost=cost, output="/out"))
    assert given_s <= time.process_time() - begun < 2 * given_s


def test_filler_goes_on_where_it_stopped() -> None:
    one, other = Filler(1, "x"), Filler(1, "x")
    in_parts = b"".join(b"".join(one.take(size)) for size in (5, 300_000, 1, 400_000))
    assert in_parts == b"".join(other.take(700_006))
    assert in_parts[:1000] != b"".join(Filler(2, "x").take(1000))


def test_boundaries_part_evenly_and_are_the_same_each_time() -> None:
    data = b"".join(bytes([n // 40, n % 40]) + bytes(98) for n in range(4000))
    sampled = [
        sample_boundaries(lambda at, length: data[at : at + length], len(data), 4, 1, samples=400)
        for _ in range(2)
    ]
    assert sampled[0] == sampled[1]
    assert [abs(int(key[:2], 16) - 25 * (part + 1)) <= 6 for part, key in enumerate(sampled[0])] == [True] * 3
    assert sample_boundaries(lambda at, length: b"", 0, 4, 1) == []
    assert sample_boundaries(lambda at, length: data[at : at + length], len(data), 1, 1) == []

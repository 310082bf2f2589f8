"""Commands as mappers and reducers: their semantics, and one error line for each kind of failure."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from schedbed.tasks.own import stages
from tests.harness.own_apps import OwnJob

WORDS = "tr -s ' ' '\\n' | awk '{print $1 \"\\t1\"}'"
SUM = (
    'awk -F\'\\t\' \'($1 "") != k { if (NR > 1) print k "\\t" n; k = $1 ""; n = 0 } { n += $2 } '
    'END { if (NR) print k "\\t" n }\''
)
TEXT = b"".join(b"the cat saw %d cats and the dog\n" % (n % 37) for n in range(3000))


def counted(parts: list[bytes]) -> dict[bytes, int]:
    """Return the lines `word<TAB>count` of all parts as a dictionary. Check that no word occurs twice."""
    pairs = [line.split(b"\t") for part in parts for line in part.splitlines()]
    assert len({key for key, _ in pairs}) == len(pairs)
    return {key: int(value) for key, value in pairs}


@pytest.mark.parametrize("combiner", ["", SUM])
def test_word_count_gives_what_a_shell_gives(tmp_path: Path, combiner: str) -> None:
    job = OwnJob(tmp_path, TEXT, mapper=WORDS, reducer=SUM, combiner=combiner)
    parts = job.run(reduces=2, cuts=(10_001, 40_000))
    assert all(parts) and counted(parts) == Counter(TEXT.split())
    shell = subprocess.run(
        ["sh", "-c", f"{WORDS} | LC_ALL=C sort | {SUM}"], input=TEXT, capture_output=True, check=True
    )
    assert sorted(b"".join(parts).splitlines()) == sorted(shell.stdout.splitlines())


def test_a_combiner_makes_the_shuffle_smaller(tmp_path: Path) -> None:
    fetched = []
    for combiner in ("", SUM):
        folder = tmp_path / f"c{len(combiner)}"
        folder.mkdir()
        job = OwnJob(folder, TEXT, mapper=WORDS, reducer=SUM, combiner=combiner)
        job.run()
        fetched.append(job.cluster.reports[-1]["counters"]["shuffle_bytes"])
    assert fetched[1] < fetched[0] / 10
    assert fetched[0] == sum(len(word) + 3 for word in TEXT.split())


def test_the_reducer_sees_its_lines_sorted_by_key_each_as_often_as_it_was_written(tmp_path: Path) -> None:
    data = b"b\t2\na\t1\nb\t1\nnokey\na\t1\n"
    assert OwnJob(tmp_path, data, mapper="cat", reducer="cat").run() == [b"a\t1\na\t1\nb\t1\nb\t2\nnokey\n"]


def test_a_sort_that_spills_gives_the_same(tmp_path: Path) -> None:
    data = b"".join(b"%d\t%d\n" % (n * 7919 % 100_003, n) for n in range(60_000))
    job = OwnJob(tmp_path, data, mapper="cat", reducer="cat", sort_buffer=1)
    job.cluster.piece = 65536
    [part] = job.run(memory_bytes=4 * 2**20)
    assert part == b"".join(sorted(data.splitlines(keepends=True)))


def test_without_a_reducer_maps_write_what_the_command_writes(tmp_path: Path) -> None:
    job = OwnJob(tmp_path, b"b\na", mapper="tr ab xy")
    job.cluster.job("streaming", (), 0, job.params, output="/out/0")
    assert job.cluster.files["/out/0"] == b"y\nx\n"


def test_a_command_may_stop_reading_and_may_write_nothing(tmp_path: Path) -> None:
    job = OwnJob(tmp_path, TEXT * 20, mapper="head -n 2", reducer="cat")
    assert job.run() == [b"".join(sorted(TEXT.splitlines(keepends=True)[:2]))]
    (tmp_path / "other").mkdir()
    assert OwnJob(tmp_path / "other", TEXT, mapper="true", reducer="cat").run() == [b""]


def test_scripts_travel_and_the_task_is_told_who_it_is(tmp_path: Path) -> None:
    script = tmp_path / "map.sh"
    script.write_text('#!/bin/sh\ncat >/dev/null; echo "$mapreduce_task_id $mapreduce_map_input_file"; ls\n')
    script.chmod(0o755)
    job = OwnJob(tmp_path, TEXT, mapper="map.sh", reducer="cat")
    job.ship(script)
    [part] = job.run()
    assert part.splitlines() == [b"job_0001_m_000000 /in", b"map.sh", b"mapper.stderr"]
    kept = tmp_path / "node" / "programs" / job.params["files"][0]["sha256"]
    assert kept.read_bytes() == script.read_bytes()
    kept.write_text("echo false")  # by another attempt: the digest is wrong, so nobody takes it
    assert job.run(reduces=1)[0].splitlines()[1] == b"map.sh"


def test_what_the_commands_use_counts_as_the_attempts(tmp_path: Path) -> None:
    burn = f"{sys.executable} -S -c 'import time\nwhile time.process_time() < 0.3: pass'"
    job = OwnJob(tmp_path, b"x\n", mapper=burn, reducer="cat")
    before_s = _cpu_s(OwnJob(tmp_path, b"x\n", mapper="cat", reducer="cat"))
    assert _cpu_s(job) > before_s + 0.25


def _cpu_s(job: OwnJob) -> float:
    from schedbed.tasks.attempt_status import cpu_s

    before_s = cpu_s()
    job.run()
    return cpu_s() - before_s


@pytest.mark.parametrize(
    ("mapper", "reason"),
    [
        (
            "echo one >&2; echo 'two  bad' >&2; exit 3",
            "mapper `echo one >&2; echo 'two bad' >&2; exit 3` exited with status 3: one | two bad",
        ),
        ("exit 4", "mapper `exit 4` exited with status 4, nothing on its standard error"),
        ("kill -9 $$", "mapper `kill -9 $$` was killed by SIGKILL, nothing on its standard error"),
        ("yes | head -c 30000000 >&2; exit 5", "exited with status 5: y | y | y"),
        ("no-such-tool -x", "mapper `no-such-tool -x` was not found on the node: "),
        ("/etc/passwd", "mapper `/etc/passwd` cannot be executed on the node: "),
    ],
)
def test_a_command_that_fails_is_told_in_one_line(tmp_path: Path, mapper: str, reason: str) -> None:
    assert reason in OwnJob(tmp_path, TEXT, mapper=mapper, reducer="cat").reason()


@pytest.mark.parametrize(
    ("mapper", "reason"),
    [
        (
            "echo here >&2; exec sleep 60",
            "hangs: it neither reads, writes nor ends for 400ms (task_timeout): here",
        ),
        ("sleep 60 & cat", "has ended, but a process that it started keeps its output open for 400ms"),
        ("sleep 60 & exit 7", "mapper `sleep 60 & exit 7` exited with status 7"),
    ],
)
def test_a_command_that_hangs_is_ended(tmp_path: Path, mapper: str, reason: str) -> None:
    said = OwnJob(tmp_path, TEXT, mapper=mapper, reducer="cat", task_timeout=0.4).reason()
    assert reason in said


def test_output_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = OwnJob(tmp_path, TEXT, mapper="yes", reducer="cat", output_limit=2**20)
    assert job.reason() == "the map wrote more than 1.0 MiB: output_limit in params allows more"
    monkeypatch.setattr(stages, "LINE_MAX_BYTES", 2**20)
    endless = OwnJob(tmp_path, TEXT, mapper="cat /dev/zero", reducer="cat")
    assert endless.reason() == "mapper `cat /dev/zero` wrote a line of more than 1.0 MiB"


def test_a_file_that_changed_since_the_scenario_was_read_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "map.sh"
    script.write_text("cat")
    job = OwnJob(tmp_path, TEXT, mapper="sh map.sh", reducer="cat")
    job.ship(script)
    job.cluster.files[next(path for path in job.cluster.files if path.startswith("/apps/"))] = b"dog"
    assert job.reason() == "map.sh has changed since the scenario was read: start the run again"

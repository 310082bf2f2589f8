"""Detection of formats: a file that is no known trace is told in one line what it is, or what is expected."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import detect, read_trace
from schedbed.tasks.traces.text import files_of

TEXT = b"job0\t1\t1\t100\t0\t0\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bz2.compress(TEXT)[:-9], "byte 0 (unpacked): the bzip2 file is damaged or cut short"),
        (lzma.compress(TEXT)[:-9], "the xz file is damaged or cut short"),
        (
            b"\x04\x22\x4d\x18\x04\x00",
            "packed with lz4, expected text, gzip, bzip2, xz or zstd: unpack it with `lz4 -d`",
        ),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (gzip.compress(b"\x28\xb5\x2f\xfd\x04\x00", mtime=0), "packed with zstd"),
        (b"PAR1\x15\x04\xff", "a Parquet file, expected a trace as text"),
        (b"Obj\x01\x04", "an Avro container"),
        (b"Avro-Binary\n\x00\xff", "the second line is no Avro schema, expected a binary job history"),
        (b'{"name": 1, "size": 2}', 'no trace format known here (it begins \'{"name": 1, "size": 2}\')'),
        (b'[{"a": 1}]', "JSON is rumen with jobID, spark with Event"),
        (
            b"name\tsize\tuser\na\t1\tb\n",
            "Columns between tabs are swim, with five numbers after the job's name",
        ),
        (b"time,name\n1,2\n", "no trace format known here (it begins 'time,name')"),
    ],
)
def test_what_is_no_trace_is_told_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("start", ["BZhang\t1\t1\t1\t1\t1\n", "ORC 1 1 1 1 1\n", "PAR1\t1\t1\t1\t1\t1\n"])
def test_text_that_begins_like_a_packed_file_is_text(tmp_path: Path, start: str) -> None:
    path = tmp_path / "t"
    path.write_text(start)
    assert detect(path) == "swim"


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress, gzip.compress, lambda data: zstd(data)])
def test_a_packed_file_is_the_file(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    (tmp_path / "packed").write_bytes(packed(TEXT))
    (tmp_path / "plain").write_bytes(TEXT)
    assert read_trace(tmp_path / "packed") == read_trace(tmp_path / "plain")


def zstd(data: bytes) -> bytes:
    if shutil.which("zstd") is None:
        pytest.skip("the command zstd is not here")
    return subprocess.run(["zstd", "-cq"], input=data, capture_output=True, check=True).stdout


def test_without_the_command_zstd_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "t").write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")
    with pytest.raises(BadInput, match="packed with zstd, expected the command zstd to unpack it, or gzip"):
        read_trace(tmp_path / "t")


def test_a_folder_is_one_trace_of_the_files_in_it(tmp_path: Path) -> None:
    """Files are taken in the order of the numbers in their names, and a server's other files are left out."""
    done = tmp_path / "done" / "2026"
    done.mkdir(parents=True)
    (done / "part-10").write_bytes(gzip.compress(b"job2\t3\t2\t100\t0\t0", mtime=0))
    (done / "part-9").write_bytes(b"job1\t1\t1\t100\t0\t0")  # The last line has no end.
    for name in ("job_1_conf.xml", ".part-9.crc", "_SUCCESS", "README.md", "appstatus_app-1"):
        (done / name).write_text("<configuration/>")
    (done / "empty").touch()
    assert [job.name for job in read_trace(tmp_path).jobs] == ["job1", "job2"]
    (done / "part-10").write_bytes(b"job2\t3\tx\t100\t0\t0")
    with pytest.raises(BadInput, match=r"/part-10:1: .*'x' is not a number"):
        read_trace(tmp_path, "swim")
    (done / "part-10").write_text("time,name\n")
    with pytest.raises(BadInput, match="/part-10: no trace format known here"):
        read_trace(tmp_path)
    (done / "part-10").write_text(json.dumps({"Event": "SparkListenerJobEnd", "Job ID": 0}))
    with pytest.raises(BadInput, match=r"several formats, expected one: .*part-10 spark, .*part-9 swim"):
        read_trace(tmp_path)


def test_events_that_spark_has_compacted_count_once(tmp_path: Path) -> None:
    for name in ("events_1_a", "events_2_a.compact", "events_2_a", "events_3_a", "events_10_a.zstd"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in files_of(tmp_path)] == [
        "events_2_a.compact",
        "events_3_a",
        "events_10_a.zstd",
    ]


def test_a_folder_without_traces_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a folder without traces, expected files of alibaba"):
        detect(tmp_path)


def test_tasks_of_which_nothing_is_known_are_told(tmp_path: Path) -> None:
    from schedbed.tasks.workloads.from_trace import Assume, assumed

    times = {"submitTime": 1000, "outcome": "SUCCESS", "totalMaps": 2, "totalReduces": 0}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"jobID": "job_1_1", **times, "mapTasks": [{"attempts": []}] * 2}))
    [line] = [line for line in assumed(read_trace(path).jobs, 0, Assume()) if "launch" in line]
    assert line.startswith("assumed: 2 tasks take only the time of a launch")

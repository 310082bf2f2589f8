"""Detection of formats: a file that is no known trace is told in one line what it is, or what is expected."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import detect, read_trace

TEXT = b"job0\t1\t1\t100\t0\t0\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bz2.compress(TEXT), "packed with bzip2, expected text or gzip: unpack it with `bzip2 -d`"),
        (lzma.compress(TEXT), "packed with xz, expected text or gzip: unpack it with `xz -d`"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "packed with zstd"),
        (gzip.compress(b"\x28\xb5\x2f\xfd\x04\x00", mtime=0), "packed with zstd"),
        (b"PAR1\x15\x04\xff", "a Parquet file, expected a trace as text"),
        (b"Obj\x01\x04", "an Avro container"),
        (b"Avro-Binary\n\x00\xff", "a job history in Avro's binary form, expected JSON"),
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


def test_the_folder_of_a_rolled_log_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    with pytest.raises(BadInput, match="a folder, expected a trace file"):
        detect(folder)
    (folder / "events_1_app-1").touch()
    with pytest.raises(
        BadInput, match=r"a rolled Spark event log, expected a file: cat eventlog_v2_app-1/events_\*"
    ):
        detect(folder)


def test_tasks_of_which_nothing_is_known_are_told(tmp_path: Path) -> None:
    from schedbed.tasks.workloads.from_trace import Assume, assumed

    times = {"submitTime": 1000, "outcome": "SUCCESS", "totalMaps": 2, "totalReduces": 0}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"jobID": "job_1_1", **times, "mapTasks": [{"attempts": []}] * 2}))
    [line] = [line for line in assumed(read_trace(path).jobs, 0, Assume()) if "launch" in line]
    assert line.startswith("assumed: 2 tasks take only the time of a launch")

"""SWIM files: both column layouts, and the line that an error names."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.describe import facts
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.formats.swim import read_swim

SIX = "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t0\t432269\n"
EIGHT = "job0\t49\t49\t740773\t2339561\t627471\tinput/a\toutput/b\n"


def written(tmp_path: Path, text: str | bytes, name: str = "t.tsv") -> Path:
    """Write the text to a file, and return the path."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_six_columns(tmp_path):
    trace = read_swim(written(tmp_path, SIX))
    assert [(j.name, j.submit_s, j.input_bytes, j.shuffle_bytes, j.output_bytes) for j in trace.jobs] == [
        ("job0", 49, 740773, 2339561, 627471),
        ("job1", 101, 736346, 0, 432269),
    ]


@pytest.mark.parametrize(
    "text", [EIGHT, EIGHT.replace("\t", "   "), EIGHT.replace("\n", "\r\n"), f"# x\n\n{EIGHT}"]
)
def test_eight_columns_spaces_and_line_ends(tmp_path, text):
    assert [job.output_bytes for job in read_swim(written(tmp_path, text)).jobs] == [627471]


def test_gzip_is_found_by_content(tmp_path):
    assert len(read_trace(written(tmp_path, gzip.compress(SIX.encode()), "plain-name")).jobs) == 2


def test_lines_out_of_order_are_sorted_and_told(tmp_path):
    trace = read_swim(written(tmp_path, "b\t9\t0\t1\t1\t1\na\t3\t0\t1\t1\t1\n"))
    assert [job.name for job in trace.jobs] == ["a", "b"]
    assert "lines not in order of submission were sorted" in trace.warnings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{SIX}job2\t3\n", "t.tsv:3: 2 columns, expected 6 "),
        (f"{SIX}job2\t3\t4\t5\t6\tx\n", "t.tsv:3: reduce output B: 'x' is not a number of 0 or more"),
        (f"{SIX}job2\t-3\t4\t5\t6\t7\n", "t.tsv:3: submit s: '-3' is not a number of 0 or more"),
        (f"{SIX}job2\tnan\t4\t5\t6\t7\n", "t.tsv:3: submit s: 'nan' is not a number of 0 or more"),
        (f"{SIX}\t3\t4\t5\t6\t7\n", "t.tsv:3: the job has no name"),
        ("# only a comment\n", "t.tsv: no job in it, expected lines of 6 columns"),
        (b"job0\t\xff\t3", "t.tsv: byte 5: not UTF-8 text"),
        (gzip.compress(SIX.encode(), mtime=0)[:-9], "the gzip file is damaged or cut short"),
    ],
)
def test_the_wrong_line_is_named(tmp_path, text, told):
    with pytest.raises(BadInput) as caught:
        read_swim(written(tmp_path, text))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet="job\t 0123.eE-\n\r", max_size=200).map(str.encode))
)
@example(b"\x1f\x8b")
@example(b"a\t1\t1\t1e400\t1\t1")
def test_any_bytes_are_a_trace_or_bad_input(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), content, "garbage.tsv")
    for reader in (read_swim, read_trace):
        try:
            assert reader(path).jobs
        except BadInput as error:
            assert "garbage.tsv" in str(error)


def test_the_published_file_with_paths_ends_each_line_with_a_tab(tmp_path):
    """Lines have nine fields, of which the last is empty; the input and output paths are kept."""
    path = tmp_path / "t.tsv"
    path.write_text(
        "job0\t0\t0\t10\t20\t30\tinputPath7\toutputPath0\t\njob1\t5\t5\t1\t0\t2\tinputPath7\t\t\n"
    )
    trace = read_trace(path)
    assert [(job.input_path, job.output_path) for job in trace.jobs] == [
        ("inputPath7", "outputPath0"),
        ("inputPath7", None),
    ]
    assert dict(facts(trace))["input paths"] == "1 read by 2 jobs; 1 by several, inputPath7 by 2"

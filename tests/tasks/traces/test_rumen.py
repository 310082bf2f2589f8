"""Rumen files: values from attempts, several objects in one file, and invalid content of every kind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Priority
from schedbed.tasks.traces import jsonstream, text
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.formats.rumen import read_rumen


def attempt(**fields: Any) -> dict[str, Any]:
    """Return a successful attempt of 4 s."""
    return {"result": "SUCCESS", "startTime": 10_000, "finishTime": 14_000, **fields}


def task(kind: str, *attempts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a task with its attempts."""
    return {"taskType": kind, "attempts": list(attempts), "preferredLocations": [], **fields}


def job(number: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a job with one map, in the form that Rumen writes."""
    maps = [task("MAP", attempt(hdfsBytesRead=100, cpuUsages=[500, 700, -1]))]
    base = {"jobID": f"job_1_{number:04d}", "submitTime": number * 1000, "finishTime": 90_000, "user": "ana"}
    return {**base, "outcome": "SUCCESS", "totalMaps": 1, "totalReduces": 0, "mapTasks": maps, **fields}


def written(folder: Path, *jobs: Any, packed: bool = False) -> Path:
    """Write the objects one after another to a file, compressed if `packed`; return the path."""
    content = "\n".join(json.dumps(one, indent=1) for one in jobs).encode()
    path = folder / "trace.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_several_objects_plain_and_gzipped(tmp_path, packed):
    trace = read_trace(written(tmp_path, job(2, priority="VERY_HIGH", queue="q"), job(1), packed=packed))
    assert [(j.name, j.submit_s, j.user, j.queue, j.priority) for j in trace.jobs] == [
        ("job_1_0001", 1.0, "ana", None, Priority.NORMAL),
        ("job_1_0002", 2.0, "ana", "q", Priority.VERY_HIGH),
    ]


def test_costs_are_those_of_the_successful_attempt(tmp_path):
    failed = attempt(result="FAILED", finishTime=99_000, cpuUsages=[9_000_000])
    good = attempt(hdfsBytesRead=100, fileBytesWritten=40, cpuUsages=[500, 700])
    shuffled = attempt(shuffleFinished=13_000, reduceShuffleBytes=40, hdfsBytesWritten=7)
    raw = job(mapTasks=[task("MAP", failed, good, inputBytes=-1)], reduceTasks=[task("REDUCE", shuffled)])
    traced = read_rumen(written(tmp_path, raw))
    one = traced.jobs[0].maps[0]
    assert (one.input_bytes, one.output_bytes, one.duration_s, one.cpu_s) == (100, 40, 4.0, 1.2)
    assert one.failed_attempts == 1
    reduce = traced.jobs[0].reduces[0]
    assert (reduce.input_bytes, reduce.output_bytes, reduce.duration_s, reduce.work_s) == (40, 7, 4.0, 1.0)
    assert "1 map attempts failed or were killed; they cost nothing here" in traced.warnings
    assert "1 reduce tasks without a CPU time" in traced.warnings


def test_a_map_only_job_writes_to_the_file_system(tmp_path):
    good = attempt(hdfsBytesRead=100, fileBytesWritten=1, hdfsBytesWritten=60)
    traced = read_rumen(written(tmp_path, job(mapTasks=[task("MAP", good)]))).jobs[0]
    assert (traced.output_bytes, traced.shuffle_bytes) == (60, 0)


def test_preferred_hosts_lose_their_escapes(tmp_path):
    places = [
        {"layers": ["10\\.0", "h1\\.com"]},
        {"layers": ["only-a-rack"]},
        {"layers": ["dc", "10.1", "h2"]},
    ]
    raw = job(mapTasks=[task("MAP", attempt(), preferredLocations=places)])
    assert read_rumen(written(tmp_path, raw)).hosts == (("10.0", "h1.com"), ("10.1", "h2"))


def test_jobs_without_tasks_are_left_out_and_told(tmp_path):
    trace = read_rumen(written(tmp_path, job(1), job(2, mapTasks=None, totalMaps=7)))
    assert len(trace.jobs) == 1
    assert "1 jobs list no map tasks and are left out" in trace.warnings


def test_a_topology_is_understood(tmp_path):
    racks = [
        {"name": f"r{r}", "children": [{"name": f"h{r}{h}", "children": None} for h in range(3)]}
        for r in (1, 2)
    ]
    trace = read_trace(written(tmp_path, {"name": "<root>", "children": racks}))
    assert trace.topology is not None
    assert (len(trace.topology.hosts), trace.topology.racks) == (6, ("r1", "r2"))


@pytest.mark.parametrize(
    ("raws", "told"),
    [
        ([job(), {"x": 1}], "object 2: no jobID, expected an object of a Rumen trace"),
        ([job(), [1]], "object 2: expected a JSON object, got list"),
        ([job(submitTime=None)], "object 1: job_1_0001: submitTime: None is not a time in ms"),
        ([job(mapTasks=3)], "object 1: mapTasks is not a list of objects"),
        ([job(mapTasks=[])], "no job with tasks in it"),
    ],
)
def test_the_wrong_object_is_named(tmp_path, raws, told):
    with pytest.raises(BadInput) as caught:
        read_rumen(written(tmp_path, *raws))
    assert told in str(caught.value)


def test_a_trace_cut_short_names_the_object_and_byte(tmp_path):
    path = written(tmp_path, job(1), job(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(
        BadInput, match=r"object 2, byte \d+: not JSON or cut short: .* \(it starts at byte \d+\)"
    ):
        read_rumen(path)
    path.write_bytes(gzip.compress(whole)[:-20])
    with pytest.raises(BadInput, match="the gzip file is damaged or cut short"):
        read_rumen(path)


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_objects_are_found_however_the_text_arrives(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(text, "_PIECE_BYTES", piece)
    path = tmp_path / "t.json"
    path.write_text('{"a": "}{é\\""}\n  {"b": [1, 2, {"c": 3}]}{}')
    assert list(jsonstream.objects(path)) == [(1, {"a": '}{é"'}), (2, {"b": [1, 2, {"c": 3}]}), (3, {})]


def test_garbage_is_refused_before_the_file_is_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonstream, "_STRING_MAX", 100)
    monkeypatch.setattr(text, "_PIECE_BYTES", 1000)
    path = tmp_path / "t.json"
    path.write_text('{"a": nonsense' + " " * 1_000_000)
    stream = jsonstream._Stream(path)
    stream.skip_space()
    with pytest.raises(BadInput, match="object 1, byte 6"):
        stream.decode(1)
    assert next(stream._pieces, None) is not None


leaf = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.just("SUCCESS")
)
FIELDS = [
    *(
        "jobID",
        "submitTime",
        "finishTime",
        "mapTasks",
        "reduceTasks",
        "attempts",
        "result",
        "startTime",
        "cpuUsages",
    ),
    *(
        "preferredLocations",
        "layers",
        "inputBytes",
        "outputBytes",
        "children",
        "name",
        "user",
        "priority",
        "totalMaps",
    ),
]
anything = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=15,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=8), max_size=3))
@example([{"jobID": "j", "submitTime": 1e30, "mapTasks": [{}]}])
def test_any_objects_are_a_trace_or_bad_input(tmp_path_factory, raws):
    filled = [{"jobID": "j", "submitTime": 5, "mapTasks": [{}]} | raw for raw in raws]
    for objects in (raws, filled):
        path = written(tmp_path_factory.getbasetemp(), *objects)
        try:
            trace = read_rumen(path)
            assert trace.jobs or trace.topology is not None
        except BadInput as error:
            assert "trace.json" in str(error)


@given(
    st.one_of(
        st.binary(max_size=100), st.text(alphabet='{}[]":,0eE-. \n\\u"tru', max_size=100).map(str.encode)
    )
)
@example(b"{" * 50_000)
@example(b'{"a":' * 5_000)
@example(b'{"a": NaN}')
@example(b'{"a": 1' + b"0" * 5000 + b"}")
def test_any_bytes_are_a_trace_or_bad_input(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "garbage.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"garbage\.json"):
        read_rumen(path)


def test_a_map_only_job_of_hadoop_2_wrote_what_went_to_the_file_system(tmp_path):
    """The output of a job without reduces is what was written to HDFS (417 MB).

    Its tasks' outputBytes are what was written to local disks (72 kB).
    """
    good = attempt(hdfsBytesWritten=417_000_000, fileBytesWritten=72_000, mapOutputBytes=-1)
    traced = read_rumen(written(tmp_path, job(mapTasks=[task("MAP", good, outputBytes=72_000)]))).jobs[0]
    assert (traced.output_bytes, traced.maps[0].output_bytes) == (417_000_000, 417_000_000)


def test_a_shuffle_is_what_reduces_fetched_dealt_to_the_maps_by_their_own_counts(tmp_path):
    """The shuffle is what reduces fetched: 100 bytes each, although one of the two did not record it.

    Maps share it in proportion to their local writes, 300 and 100 bytes, which include every spill.
    """
    maps = [task("MAP", attempt(fileBytesWritten=count), outputBytes=count) for count in (300, 100)]
    reduces = [
        task("REDUCE", attempt(reduceShuffleBytes=100)),
        task("REDUCE", attempt(reduceShuffleBytes=-1)),
    ]
    traced = read_rumen(written(tmp_path, job(mapTasks=maps, reduceTasks=reduces))).jobs[0]
    assert traced.shuffle_bytes == 200
    assert [one.output_bytes for one in traced.maps] == [150, 50]

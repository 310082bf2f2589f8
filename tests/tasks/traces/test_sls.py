"""SLS files: several jobs, node files, and jobs drawn from old and new forms of a SYNTH specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.describe import facts
from schedbed.tasks.traces.detect import detect, read_trace
from schedbed.tasks.traces.formats.sls import read_sls
from schedbed.tasks.workloads.from_trace import Assume, synthesize


def container(start: int = 1000, end: int = 4000, **fields: Any) -> dict[str, Any]:
    """Return a container of a map on node1, 3 s long by default."""
    base = {"container.host": "/default-rack/node1", "container.start.ms": start, "container.end.ms": end}
    return {
        **base,
        "container.type": "map",
        **{key.replace("_", "."): value for key, value in fields.items()},
    }


def job(number: int = 1, tasks: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a job with one map, or with the given tasks."""
    base = {"am.type": "mapreduce", "job.start.ms": number * 1000, "job.end.ms": 90_000, "job.user": "ana"}
    base |= {"job.queue.name": "q", "job.id": f"job_{number}"}
    return {**base, "job.tasks": [container()] if tasks is None else tasks, **fields}


def written(folder: Path, *objects: Any) -> Path:
    """Write the objects one after another to a file, and return the path."""
    path = folder / "trace.json"
    path.write_text("\n".join(json.dumps(one, indent=1) for one in objects))
    return path


def test_jobs_in_a_row(tmp_path):
    tasks = [container(), container(container_type="reduce", container_end_ms=9000)]
    path = written(tmp_path, {"num.nodes": 3}, job(2, tasks), job(1))
    assert detect(path) == "sls"
    trace = read_trace(path)
    assert [(j.name, j.submit_s, j.user, j.queue, j.duration_s) for j in trace.jobs] == [
        ("job_1", 1.0, "ana", "q", 89.0),
        ("job_2", 2.0, "ana", "q", 88.0),
    ]
    first = trace.jobs[1]
    assert [task.work_s for task in (*first.maps, *first.reduces)] == [3.0, 8.0]
    assert first.maps[0].hosts == (("default-rack", "node1"),) and first.reduces[0].hosts == ()
    assert "1 jobs" not in str(trace.warnings) and "a cluster of 3 nodes in 1 racks" in str(trace.warnings)


def test_what_may_be_left_out_has_sls_s_defaults(tmp_path):
    sparse = {"job.tasks": [{"duration.ms": "5000", "count": 3}], "job.count": 2}
    jobs = read_sls(written(tmp_path, sparse)).jobs
    assert [(j.name, j.submit_s, j.user, j.queue, j.duration_s) for j in jobs] == [
        ("job_1-1", 0.0, "default", "default", None),
        ("job_1-2", 0.0, "default", "default", None),
    ]
    assert [task.duration_s for task in jobs[0].maps] == [5.0] * 3
    assert jobs[0].maps[0].hosts == ()


def test_the_containers_own_duration_comes_before_its_times(tmp_path):
    path = written(tmp_path, job(1, [container(container_duration_ms=7000, container_host="n9")]))
    task = read_sls(path).jobs[0].maps[0]
    assert (task.duration_s, task.hosts) == (7.0, (("default-rack", "n9"),))


def test_other_containers_and_what_is_not_kept_are_told(tmp_path):
    tasks = [container(container_type="stream", container_request_delay=5), container(container_memory=4096)]
    trace = read_sls(written(tmp_path, job(1, tasks), job(2, [container(container_type="reduce")])))
    assert [(len(j.maps), len(j.reduces)) for j in trace.jobs] == [(2, 0), (1, 0)]
    told = "\n".join(trace.warnings)
    assert "assumed: 1 kinds of container that are neither map nor reduce" in told
    assert "1 containers ask late" in told and "1 containers say their memory" in told
    assert "the reduces of 1 jobs without maps are taken as maps" in told


def test_maps_with_hosts_read_a_block(tmp_path):
    trace = read_sls(written(tmp_path, job(1, [container(end=11_000), container(container_host=None)])))
    made, notes = synthesize(trace, trace.jobs, Assume(block_bytes=100_000_000))
    assert [cost.read_bytes for cost in made[0].maps] == [100_000_000, 0]
    assert [cost.cpu_s for cost in made[0].maps] == [8.0, 3.0]  # 10 s less 2 s for 100 MB at 50 MB/s
    assert any("read by each map with hosts, in 1 jobs" in note for note in notes)


def test_node_files_are_topologies(tmp_path):
    racks = [
        {"rack": "rack1", "nodes": [{"node": "a", "memory-mb": 2048}, {"node": "b"}]},
        {"rack": "/rack2", "nodes": [{"node": "c"}]},
    ]
    trace = read_trace(written(tmp_path, *racks))
    assert trace.topology is not None
    assert trace.topology.hosts == (("rack1", "a"), ("rack1", "b"), ("rack2", "c"))
    assert facts(trace)[0] == ("format", "sls topology")
    assert trace.warnings[0].startswith("1 nodes say their memory or cores")


@pytest.mark.parametrize(
    ("raws", "told"),
    [
        ([job(), {"x": 1}], "object 2: neither an SLS job (job.tasks), nor nodes"),
        ([job(1, [])], "object 1: a job without tasks"),
        ([job(1, [container(), container(5, 5)])], "object 1: job.tasks[1]: lasts 0 ms, expected above 0"),
        ([job(1, [{"container.start.ms": 3}])], "job.tasks[0]: no duration.ms, and not both of"),
        ([job(1, [container(count="many")])], "job.tasks[0]: count: 'many' is not a number of 0 or more"),
        ([job(1, [container(count=10**7)])], "count: 10000000 is not a whole number of 0 to"),
        ([{**job(), "job.start.ms": -4}], "object 1: job.start.ms: -4 is not a number of 0 or more"),
        ([{"job.id": "x", "job.tasks": "none"}], "object 1: job.tasks is not a list of objects"),
        ([{"rack": "r", "nodes": [{}]}], "object 1: nodes[0]: no name (node)"),
        ([{"num.nodes": 3}], "no job and no node in it"),
        ([{"num_jobs": 3, "workloads": []}], "object 1: nothing to draw"),
    ],
)
def test_the_wrong_place_is_named(tmp_path, raws, told):
    with pytest.raises(BadInput) as caught:
        read_sls(written(tmp_path, *raws))
    assert told in str(caught.value) and "\n" not in str(caught.value)


# -- SYNTH ---------------------------------------------------------------------------------------------------

OLD: dict[str, Any] = {
    "class_name": "sort", "user_name": "bo", "class_weight": 1.0,
    "mtasks_avg": 50, "mtasks_stddev": 5, "rtasks_avg": 10, "rtasks_stddev": 1,
    "dur_avg": 60, "dur_stddev": 5, "mtime_avg": 10, "mtime_stddev": 2, "rtime_avg": 20, "rtime_stddev": 4,
    "chance_of_reservation": 0.5, "deadline_factor_avg": 10.0, "deadline_factor_stddev": 0.001,
}  # fmt: skip
NEW: dict[str, Any] = {
    "class_name": "scan", "class_weight": 3, "duration": {"val": 60}, "reservation": 1,
    "deadline_factor": {"val": 2},
    "tasks": [
        {"type": "map", "count": {"val": 4}, "time": {"val": 10, "std": 2, "dist": "NORM"}},
        {"type": "reduce", "count": {"discrete": ["1", 2], "weights": [1, 0]}, "time": {"val": 5}},
    ],
}  # fmt: skip


def spec(*classes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a specification of one workload with the job classes `classes`; `fields` are added or replaced.

    The workload has two time spans, and the second has no jobs.
    """
    spans = [{"time": 10, "weight": 100}, {"time": 60, "weight": 0}]
    workload = {
        "workload_weight": 0.5,
        "queue_name": "q",
        "job_classes": list(classes),
        "time_distribution": spans,
    }
    return {
        "num_jobs": 300,
        "num_nodes": 20,
        "nodes_per_rack": 4,
        "rand_seed": 2,
        "workloads": [workload],
        **fields,
    }


def test_jobs_are_drawn_as_the_older_form_says(tmp_path):
    trace = read_trace(written(tmp_path, spec(OLD)))
    jobs = trace.jobs
    assert len(jobs) == 300 and all(10 <= job.submit_s < 60 for job in jobs)
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert {(job.user, job.queue) for job in jobs} == {("bo", "q")}
    assert sum(len(job.maps) for job in jobs) / 300 == pytest.approx(50, rel=0.03)
    assert sum(len(job.reduces) for job in jobs) / 300 == pytest.approx(10, rel=0.03)
    times = [task.work_s for job in jobs for task in job.maps if task.work_s]
    assert sum(times) / len(times) == pytest.approx(10, rel=0.02)
    assert (sum((t - 10) ** 2 for t in times) / len(times)) ** 0.5 == pytest.approx(2, rel=0.1)
    deadlines = [job.deadline_s for job in jobs if job.deadline_s is not None]
    assert 110 < len(deadlines) < 190
    assert sum(deadlines) / len(deadlines) == pytest.approx(600, rel=0.05)


def test_jobs_are_drawn_as_the_newer_form_says(tmp_path):
    jobs = read_sls(written(tmp_path, spec(NEW, OLD))).jobs
    scans = [job for job in jobs if job.name.startswith("scan_")]
    assert 180 < len(scans) < 270  # three of four
    assert {(len(job.maps), len(job.reduces), job.deadline_s) for job in scans} == {(4, 1, 120.0)}
    assert {task.work_s for job in scans for task in job.reduces} == {5.0}
    assert len({task.work_s for job in scans for task in job.maps}) == 4 * len(scans)


def test_the_seed_decides(tmp_path):
    assert read_sls(written(tmp_path, spec(OLD))) == read_sls(written(tmp_path, spec(OLD)))
    assert read_sls(written(tmp_path, spec(OLD))) != read_sls(written(tmp_path, spec(OLD, rand_seed=3)))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({**NEW, "duration": {"val": "long"}}, "job_classes[0]: duration: val: 'long' is not a number"),
        (
            {**NEW, "duration": {"val": 1, "std": 1, "dist": "POISSON"}},
            "dist: 'POISSON' is neither LOGNORM nor",
        ),
        (
            {**NEW, "duration": {"discrete": [1], "weights": [1, 2]}},
            "discrete and weights are not lists of one",
        ),
        ({**NEW, "duration": {"discrete": []}}, "discrete: nothing to choose from"),
        ({**NEW, "class_weight": 0}, "job_classes[0]: all weights (class_weight) are 0"),
        ({**OLD, "mtasks_avg": 1e9}, "tasks, expected 5000000 at most"),
    ],
)
def test_the_wrong_part_of_a_specification_is_named(tmp_path, kind, told):
    with pytest.raises(BadInput) as caught:
        read_sls(written(tmp_path, spec(kind)))
    assert told in str(caught.value) and "workloads[0]: job_classes[0]" in str(caught.value)


leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just("map"))
KEYS = ["job.tasks", "job.id", "job.count", "count", "duration.ms", "container.type", "container.host", "nodes", "rack",
        "node", "workloads", "num_jobs", "job_classes", "tasks", "time_distribution", "time", "weight", "val", "std",
        "discrete", "weights", "class_weight", "workload_weight", "mtasks_avg", "mtime_avg"]  # fmt: skip
anything = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), anything, max_size=8), max_size=3))
@example([spec(OLD, num_jobs=1)])
def test_any_objects_are_a_trace_or_bad_input(tmp_path_factory, raws):
    path = written(tmp_path_factory.getbasetemp(), *raws)
    try:
        trace = read_sls(path)
        assert trace.jobs or trace.topology is not None
    except BadInput as error:
        assert "trace.json" in str(error) and "\n" not in str(error)

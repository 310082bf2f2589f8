"""Spark's event logs: stages become maps and reduces, and metrics become bytes and CPU times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schedbed
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import read_trace


def start(number: int, at_ms: int, stages: dict[int, list[int]]) -> dict[str, Any]:
    """Return the start event of a job; `stages` is a dictionary from stage to its parent stages."""
    infos = [{"Stage ID": stage, "Parent IDs": parents} for stage, parents in stages.items()]
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": number,
        "Submission Time": at_ms,
        "Stage Infos": infos,
        "Stage IDs": list(stages),
    }


def task(
    stage: int,
    index: int,
    begin_ms: int,
    end_ms: int,
    metrics: dict[str, Any] | None = None,
    *,
    reason: str = "Success",
) -> dict[str, Any]:
    """Return the event for the end of a task's attempt on host h1."""
    info = {
        "Index": index,
        "Launch Time": begin_ms,
        "Finish Time": end_ms,
        "Host": "h1",
        "Locality": "NODE_LOCAL",
    }
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task End Reason": {"Reason": reason},
        "Task Info": info,
        "Task Metrics": {"Executor CPU Time": 1_500_000_000, **(metrics or {})},
    }


def end(number: int, at_ms: int, result: str = "JobSucceeded") -> dict[str, Any]:
    """Return the event for the end of a job."""
    return {
        "Event": "SparkListenerJobEnd",
        "Job ID": number,
        "Completion Time": at_ms,
        "Job Result": {"Result": result},
    }


MAP: dict[str, Any] = {
    "Input Metrics": {"Bytes Read": 100},
    "Shuffle Write Metrics": {"Shuffle Bytes Written": 40},
}
REDUCE: dict[str, Any] = {
    "Shuffle Read Metrics": {"Remote Bytes Read": 30, "Local Bytes Read": 10},
    "Output Metrics": {"Bytes Written": 7},
}
LOG = [
    {"Event": "SparkListenerLogStart", "Spark Version": "3.5.0"},
    {"Event": "SparkListenerApplicationStart", "App Name": "etl", "User": "ana", "Timestamp": 1},
    start(0, 1000, {0: [], 1: [0]}),
    task(0, 0, 1100, 3100, reason="ExceptionFailure"),
    task(0, 0, 1200, 3200, MAP),
    task(1, 0, 3300, 4300, REDUCE),
    end(0, 4400),
    start(1, 5000, {0: [], 2: [0], 3: [2]}),
    task(2, 0, 5100, 6100, REDUCE),
    task(3, 0, 6100, 6600, REDUCE),
    end(1, 6700, "JobFailed"),
    {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd", "executionId": 0},
]


def written(tmp_path: Path, events: list[Any]) -> Path:
    """Write the events to a file without spaces, as Spark does, and return the path."""
    path = tmp_path / "application_1"
    path.write_text("\n".join(json.dumps(one, separators=(",", ":")) for one in events))
    return path


def test_stages_become_maps_and_reduces(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, LOG))
    first, second = trace.jobs
    assert (trace.format, first.name, first.user, first.submit_s, first.duration_s) == (
        "spark",
        "etl-0",
        "ana",
        1.0,
        pytest.approx(3.4),
    )
    one = first.maps[0]
    assert (one.input_bytes, one.output_bytes, one.duration_s, one.cpu_s, one.failed_attempts) == (
        100,
        40,
        2.0,
        1.5,
        1,
    )
    assert one.hosts == (("default-rack", "h1"),)
    assert [(task.input_bytes, task.output_bytes) for task in first.reduces] == [(40, 7)]
    assert (first.shuffle_bytes, first.output_bytes) == (40, 7)
    assert (len(second.maps), len(second.reduces)) == (1, 1), (
        "a stage whose parent was skipped waits for nothing"
    )
    assert "1 jobs did not succeed in the trace and are taken as if they had" in trace.warnings
    assert "no racks or deadlines in a Spark event log" in trace.warnings[0]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([LOG[0], {"x": 1}], "event 2: no Event, expected a line of a Spark event log"),
        ([LOG[0]], "no job with tasks that ended in it"),
        ([LOG[0], start(0, 1, {0: []}) | {"Submission Time": "x"}], "Submission Time: 'x' is not a number"),
        ([LOG[0], start(0, 1, {0: []}), task(0, 0, 1, 2) | {"Task Info": 3}], "Task Info is not an object"),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path: Path, events: list[Any], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, events))
    assert told in str(caught.value)


def test_pool_and_description_are_queue_and_name(tmp_path: Path) -> None:
    properties = {"spark.scheduler.pool": "etl", "spark.job.description": "nightly load"}
    log = [start(0, 1000, {0: []}) | {"Properties": properties}, task(0, 0, 1100, 2100), end(0, 2200)]
    trace = read_trace(written(tmp_path, log))
    assert [(job.queue, job.name) for job in trace.jobs] == [("etl", "nightly load")]
    assert not any("pool" in warning for warning in trace.warnings)


@pytest.mark.parametrize(
    ("locality", "metrics", "has_place"),
    [
        ("NODE_LOCAL", {}, True),
        ("PROCESS_LOCAL", MAP, True),  # read from the executor's cache
        ("PROCESS_LOCAL", {}, False),  # what Spark calls a task without preferred hosts
        ("RACK_LOCAL", MAP, False),
        ("ANY", MAP, False),
    ],
)
def test_a_task_has_a_place_where_its_data_were(
    tmp_path: Path, locality: str, metrics: dict[str, Any], has_place: bool
) -> None:
    one = task(0, 0, 1100, 2100, metrics)
    one["Task Info"]["Locality"] = locality
    [job] = read_trace(written(tmp_path, [start(0, 1000, {0: []}), one, end(0, 2200)])).jobs
    assert bool(job.maps[0].hosts) is has_place


def test_a_task_that_never_succeeded_is_a_task_with_failed_attempts(tmp_path: Path) -> None:
    tries = [task(0, 1, at_ms, at_ms + 500, reason="ExceptionFailure") for at_ms in (1100, 1700, 2300, 2900)]
    log = [start(0, 1000, {0: []}), task(0, 0, 1100, 2100), *tries, end(0, 3500, "JobFailed")]
    trace = read_trace(written(tmp_path, log))
    assert [(each.failed_attempts, each.duration_s) for each in trace.jobs[0].maps] == [(0, 1.0), (4, 0.5)]
    assert any("1 tasks never succeeded" in warning for warning in trace.warnings)


def test_a_job_waits_for_the_job_that_ran_the_stage_it_skips(tmp_path: Path) -> None:
    """Spark keeps the number of a stage or gives a new one for the same RDDs. A stage that still runs is shared."""
    jobs = read_trace(written(tmp_path, LOG)).jobs
    assert [(job.number, job.after, job.think_s) for job in jobs] == [
        (0, None, 0),
        (1, 0, pytest.approx(0.6)),
    ]
    renamed = json.loads(
        json.dumps(LOG).replace('"Stage ID": 0', '"Stage ID": 0, "RDD Info": [{"RDD ID": 4}]')
    )
    first = renamed[7]["Stage Infos"][0]
    first["Stage ID"], renamed[7]["Stage Infos"][1]["Parent IDs"] = 9, [9]
    assert [job.after for job in read_trace(written(tmp_path, renamed)).jobs] == [None, 0]
    first["RDD Info"] = []
    trace = read_trace(written(tmp_path, renamed))
    assert [job.after for job in trace.jobs] == [None, None]
    assert "1 jobs skipped stages that no job of the log ran; they wait for none" in trace.warnings


def test_a_stage_that_two_running_jobs_share_belongs_to_the_first(tmp_path: Path) -> None:
    log = [
        start(0, 1000, {0: [], 1: [0]}),
        start(1, 1500, {0: [], 2: [0]}),
        task(0, 0, 1100, 3000),
        task(2, 0, 3100, 4000),
        task(1, 0, 3100, 9000),
        end(0, 9100),
        end(1, 4100),
    ]
    trace = read_trace(written(tmp_path, log))
    assert [(len(job.maps), len(job.reduces), job.after) for job in trace.jobs] == [
        (1, 1, None),
        (1, 0, None),
    ]
    assert "1 jobs skipped stages of a job that still ran; they do not wait for it" in trace.warnings


RECORDED = Path(__file__).parents[4] / "shared" / "traces" / "spark-standalone"


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the folder with traces of real systems is not here")
def test_input_of_no_bytes_keeps_its_place_and_no_place_is_invented(tmp_path: Path) -> None:
    """In the recording, all data are on three of six nodes. Tasks that ran elsewhere do not say where theirs were."""
    scenario = tmp_path / "s.yaml"
    cluster = {"nodes": 6, "racks": 1, "node": {"map_slots": 2}}
    trace = {"trace": str(RECORDED / "w3-wait0-1.json.gz")}
    scenario.write_text(json.dumps({"cluster": cluster, "blocks": {"replication": 1}, "workload": trace}))
    result: Any = schedbed.run(
        scenario, machines="sim", policies=["delay:node_wait=99s,rack_wait=99s,clock=wall"]
    )
    jobs = read_trace(RECORDED / "w3-wait0-1.json.gz").jobs
    local = result.attempts[result.attempts["locality"].astype(str) == "node"]
    assert len(local) == sum(bool(task.hosts) for job in jobs for task in job.maps) > 20
    assert local["node"].nunique() == 3
    reasons = result.decisions.loc[result.decisions["answer"].astype(str) == "launch", "reason"].astype(str)
    assert (reasons == "no preferred node").sum() == len(result.attempts) - len(local) > 5


def test_stages_after_the_second_take_their_time_after_it(tmp_path: Path) -> None:
    """Two tasks of 2 s, then one of 3 s that waits for both, then one of 4 s: 9 s after the maps, as recorded."""
    log = [
        start(0, 0, {0: [], 1: [0], 2: [1], 3: [2, 0]}),
        task(0, 0, 0, 1000, MAP),
        *(task(1, index, 1000, 3000, REDUCE) for index in range(2)),
        task(2, 0, 3000, 6000, REDUCE),
        task(3, 0, 6000, 10000, REDUCE),
        end(0, 10000),
    ]
    [job] = (trace := read_trace(written(tmp_path, log))).jobs
    assert sorted(task.work_s or 0 for task in job.reduces) == [2, 9]
    assert sum(task.cpu_s or 0 for task in job.reduces) == 6.0
    assert (
        job.output_bytes == 14
    )  # Of the last task, and of the one of the second stage that has no other after it.
    assert any("run after each other in the same reduces" in line for line in trace.warnings)


def test_the_logs_of_two_applications_are_one_trace(tmp_path: Path) -> None:
    """Both number their jobs and stages from 0; the second one's job reuses a stage of its own."""
    for name, user, at_ms in (("etl", "ana", 1000), ("web", "bo", 500)):
        log = [
            {"Event": "SparkListenerApplicationStart", "App Name": name, "User": user},
            *(start(0, at_ms, {0: []}), task(0, 0, at_ms, at_ms + 100), end(0, at_ms + 100)),
            *(
                start(1, at_ms + 300, {0: [], 1: [0]}),
                task(1, 0, at_ms + 300, at_ms + 400),
                end(1, at_ms + 400),
            ),
        ]
        folder = tmp_path / f"eventlog_v2_{name}"
        folder.mkdir()
        # Rolled: the second file continues the first.
        (folder / "events_1_x").write_text("\n".join(map(json.dumps, log[:3])))
        (folder / "events_2_x").write_text("\n".join(map(json.dumps, log[3:])))
        (folder / "appstatus_x").touch()
    jobs = read_trace(tmp_path).jobs
    assert [(job.name, job.user, job.submit_s) for job in jobs] == [
        ("web-0", "bo", 0.5),
        ("web-1", "bo", 0.8),
        ("etl-0", "ana", 1.0),
        ("etl-1", "ana", 1.3),
    ]
    numbers = {job.number: job.name for job in jobs}
    assert [numbers[job.after] for job in jobs if job.after is not None] == ["web-0", "etl-0"]

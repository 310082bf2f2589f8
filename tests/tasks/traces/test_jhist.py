"""YARN's job history: attempts and counters, both spellings of Avro unions, and wrong lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import read_trace

PACKAGE = "org.apache.hadoop.mapreduce.jobhistory."


def event(kind: str, name: str, **fields: Any) -> str:
    """Return a line of a job history."""
    return json.dumps({"type": kind, "event": {PACKAGE + name: fields}})


def counters(**values: int) -> dict[str, Any]:
    """Return counters in the form in which events contain them."""
    counts = [{"name": name, "displayName": name, "value": value} for name, value in values.items()]
    return {"name": "COUNTERS", "groups": [{"name": "g", "displayName": "g", "counts": counts}]}


def of_task(kind: str, index: int) -> dict[str, Any]:
    """Return the fields that identify a task."""
    return {"taskid": f"task_1_1_{kind[0].lower()}_{index:06d}", "taskType": kind}


def attempt(kind: str, index: int, number: int, begin: int, end: int, **more: Any) -> list[str]:
    """Return the events of a successful attempt that starts at `begin` and ends at `end` (milliseconds)."""
    named = {**of_task(kind, index), "attemptId": f"attempt_1_1_{kind[0].lower()}_{index:06d}_{number}"}
    title = kind.capitalize()
    return [
        event(f"{kind}_ATTEMPT_STARTED", "TaskAttemptStarted", **named, startTime=begin),
        event(
            f"{kind}_ATTEMPT_FINISHED",
            f"{title}AttemptFinished",
            **named,
            finishTime=end,
            hostname="h1",
            rackname="/r1",
            **more,
        ),
    ]


def history(*, reduces: bool = True, union: bool = False) -> list[str]:
    """Return the lines of a job with two maps, one of which first failed, and with a reduce if `reduces`.

    If `union` is true, counters are written as Avro unions.
    """
    counted = counters(
        HDFS_BYTES_READ=100, MAP_OUTPUT_MATERIALIZED_BYTES=30, HDFS_BYTES_WRITTEN=70, CPU_MILLISECONDS=1500
    )
    held: Any = {f"{PACKAGE}JhCounters": counted} if union else counted
    lines = [
        "Avro-Json",
        json.dumps({"type": "record", "name": "Event", "fields": []}),
        event("AM_STARTED", "AMStarted", startTime=999),
        event(
            "JOB_SUBMITTED",
            "JobSubmitted",
            jobid="job_1_1",
            jobName="sort",
            userName="ana",
            submitTime=1000,
            jobQueueName={"string": "q"} if union else "q",
        ),
        event("TASK_STARTED", "TaskStarted", **of_task("MAP", 0), startTime=1100, splitLocations="h1,h2"),
        event(
            "MAP_ATTEMPT_FAILED",
            "TaskAttemptUnsuccessfulCompletion",
            **of_task("MAP", 0),
            attemptId="a0",
            status="FAILED",
        ),
        *attempt("MAP", 0, 1, 2000, 6000, counters=held),
        *attempt("MAP", 1, 0, 2000, 3000, counters=held),
    ]
    if reduces:
        shuffled = counters(REDUCE_SHUFFLE_BYTES=44, HDFS_BYTES_WRITTEN=5)
        lines += attempt("REDUCE", 0, 0, 3000, 9000, shuffleFinishTime=7000, counters=shuffled)
    return [*lines, event("JOB_FINISHED", "JobFinished", jobid="job_1_1", finishTime=9500)]


def written(tmp_path: Path, lines: list[str]) -> Path:
    """Write the lines to a file with empty lines between them, as some versions do; return the path."""
    path = tmp_path / "job.jhist"
    path.write_text("\n\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("union", [False, True])
def test_tasks_are_their_successful_attempts(tmp_path: Path, union: bool) -> None:
    trace = read_trace(written(tmp_path, history(union=union)))
    job = trace.jobs[0]
    assert (trace.format, job.name, job.user, job.queue, job.submit_s, job.duration_s) == (
        *("jhist", "sort", "ana"),
        *("q", 1.0, 8.5),
    )
    assert [(task.duration_s, task.cpu_s, task.input_bytes) for task in job.maps] == [
        (4.0, 1.5, 100),
        (1.0, 1.5, 100),
    ]
    assert job.maps[0].failed_attempts == 1 and job.maps[0].hosts == (("r1", "h1"), ("default-rack", "h2"))
    assert job.shuffle_bytes == 44 == sum(task.output_bytes or 0 for task in job.maps)
    reduce = job.reduces[0]
    assert (reduce.duration_s, reduce.work_s, reduce.input_bytes, reduce.output_bytes) == (6.0, 2.0, 44, 5)
    assert "no racks of input hosts" in trace.warnings[0]


def test_maps_without_reduces_write_to_the_file_system(tmp_path: Path) -> None:
    job = read_trace(written(tmp_path, history(reduces=False))).jobs[0]
    assert (job.output_bytes, job.shuffle_bytes) == (140, 0)


def test_files_one_after_another_are_several_jobs_and_failures_are_told(tmp_path: Path) -> None:
    cut_short = history()[:-1]
    trace = read_trace(written(tmp_path, [*history(), *cut_short]))
    assert len(trace.jobs) == 2
    assert "1 jobs did not succeed in the trace; their tasks run as long as they ran there" in trace.warnings


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["Avro-Json", "{"], ":3: no event of a job history"),
        (["Avro-Json", '{"type": "X", "event": 3}'], ":3: no event of a job history, expected {type, event}"),
        (
            ["Avro-Json", event("JOB_SUBMITTED", "JobSubmitted", submitTime="x")],
            "submitTime: 'x' is not a time in ms",
        ),
        (["Avro-Json"], "no job with map tasks in it"),
        (["Avro-Binary", "\x02"], "the second line is no Avro schema, expected a binary job history"),
    ],
)
def test_what_is_no_history_is_one_line(tmp_path: Path, lines: list[str], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, lines))
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_map_lasts_as_long_as_its_attempts_that_failed_and_that_lost_to_a_copy(tmp_path: Path) -> None:
    """Map 0: 2 s that failed and 4 s. Map 1: a copy of 3 s wins 9 s after the start of the first attempt."""

    def attempt(kind: str, task: int, name: str, **times: int) -> str:
        event = {"taskid": f"task_1_1_m_{task:06d}", "taskType": "MAP", "attemptId": name, **times}
        return json.dumps({"type": f"MAP_ATTEMPT_{kind}", "event": {"x": event}})

    lines = [
        "Avro-Json",
        json.dumps({"type": "JOB_SUBMITTED", "event": {"x": {"jobid": "j", "submitTime": 1000}}}),
        attempt("STARTED", 0, "a0", startTime=2000),
        attempt("FAILED", 0, "a0", finishTime=4000),
        attempt("STARTED", 0, "a1", startTime=5000),
        attempt("FINISHED", 0, "a1", finishTime=9000),
        attempt("STARTED", 1, "b0", startTime=2000),
        attempt("STARTED", 1, "b1", startTime=8000),
        attempt("FINISHED", 1, "b1", finishTime=11000),
        attempt("KILLED", 1, "b0", finishTime=11050),
        json.dumps({"type": "JOB_FINISHED", "event": {"x": {"finishTime": 12000, "totalMaps": 2}}}),
    ]
    [job] = read_trace(written(tmp_path, lines)).jobs
    assert [task.work_s for task in job.maps] == [6.0, 9.0]
    assert [task.duration_s for task in job.maps] == [4.0, 3.0]

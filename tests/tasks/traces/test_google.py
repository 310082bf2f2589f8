"""Google's traces of 2019 as CSV files: instances built from events, usage samples, and wrong lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Priority
from schedbed.tasks.traces.detect import read_trace

HEAD = "time,type,collection_id,instance_index,priority,machine_id,collection_type"
SECOND = 1_000_000
ROWS = [
    (5, 0, 77, 0, 200, 0, 0),
    (6, "SCHEDULE", 77, 0, 200, 31, 0),
    (8, 4, 77, 0, 200, 31, 0),  # evicted
    (9, 3, 77, 0, 200, 32, 0),
    (19, 6, 77, 0, 200, 32, 0),
    (5, 0, 77, 1, 200, 0, 0),
    (7, 3, 77, 1, 200, 31, 0),
    (10, 7, 77, 1, 200, 31, 0),  # killed
    (3, 0, 55, 0, 25, 0, 0),
    (4, 3, 55, 0, 25, 31, 0),
    (5, 0, 99, 0, 450, 0, 1),  # of an alloc set
]


def written(tmp_path: Path, text: str) -> Path:
    """Write the text to a CSV file of instance events, and return the path."""
    path = tmp_path / "instance_events.csv"
    path.write_text(text)
    return path


def test_an_instance_lasts_from_its_last_schedule_to_its_end(tmp_path: Path) -> None:
    rows = "\n".join(",".join(map(str, (time * SECOND, *rest))) for time, *rest in ROWS)
    trace = read_trace(written(tmp_path, f"{HEAD}\n{rows}\n"))
    (job,) = trace.jobs
    assert (trace.format, job.name, job.submit_s, job.priority) == ("google", "77", 5.0, Priority.HIGH)
    assert [(task.duration_s, task.failed_attempts) for task in job.maps] == [(10.0, 1), (3.0, 0)]
    assert trace.warnings[1] == "2 machines ran instances; their sizes are not in these events"
    assert "1 instances that did not start and end in the trace are left out" in trace.warnings
    assert "1 events of alloc sets, which run nothing themselves, are left out" in trace.warnings
    assert "no bytes, CPU times, queues or locations" in trace.warnings[0]


def test_a_sample_with_usage_windows_only(tmp_path: Path) -> None:
    head = (
        "n,time,instance_events_type,collection_id,instance_index,resource_request,start_time,end_time,user"
    )
    rows = [
        f"0,0,2,7,3,\"{{'cpus': 0.02}}\",{100 * SECOND},{400 * SECOND},ana",
        f"1,0,2,7,3,\"{{'cpus': 0.02}}\",{400 * SECOND},{700 * SECOND},ana",
    ]
    job = read_trace(written(tmp_path, "\n".join((head, *rows)))).jobs[0]
    assert (job.user, [task.duration_s for task in job.maps]) == ("ana", [600.0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD}\n1,0,7\n", ":2: 3 columns, expected 7 as in the head"),
        (f"{HEAD}\nx,0,7,0,0,0,0\n", ":2: time: 'x' is not a time in microseconds"),
        (f"{HEAD}\n1,DANCE,7,0,0,0,0\n", ":2: type: 'DANCE' is not an event such as 3 or SCHEDULE"),
        (f"{HEAD}\n1,0,,0,0,0,0\n", ":2: no collection_id or no instance_index"),
        (f"{HEAD}\n1,0,7,0,0,0,0\n", "no instance that ran in it"),
    ],
)
def test_the_wrong_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, text))
    assert told in str(caught.value)


def test_a_job_follows_the_jobs_that_it_names_if_they_had_ended(tmp_path: Path) -> None:
    head = "time,type,collection_id,instance_index,collection_name,start_after_collection_ids,parent_collection_id"
    rows = [
        *("1,0,5,0,a,,", "2,3,5,0,a,,", "9,6,5,0,a,,"),
        *("1,0,6,0,b,,", "2,3,6,0,b,,", "20,6,6,0,b,,"),
        *('3,0,7,0,c,"[5]",', '9,3,7,0,c,"[5]",', '15,6,7,0,c,"[5]",'),
        *('30,0,8,0,d,"[5, 7]",6', '31,3,8,0,d,"[5, 7]",6', '35,6,8,0,d,"[5, 7]",6'),
        *("3,0,9,0,e,,6", "4,3,9,0,e,,6", "12,6,9,0,e,,6"),  # Its parent goes on.
        *("3,0,10,0,f,,99", "4,3,10,0,f,,99", "12,6,10,0,f,,99"),
    ]
    text = "\n".join(
        [head, *(f"{int(time) * SECOND},{rest}" for time, _, rest in (row.partition(",") for row in rows))]
    )
    trace = read_trace(written(tmp_path, text))
    names = {job.number: job.name for job in trace.jobs}
    assert {job.name: (names[job.after], job.think_s) for job in trace.jobs if job.after is not None} == {
        "c": ("a", 0.0),
        "d": ("b", 10.0),
    }
    assert (
        "2 jobs follow others that are not in the trace or had not ended; they wait for none"
        in trace.warnings
    )

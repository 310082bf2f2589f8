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

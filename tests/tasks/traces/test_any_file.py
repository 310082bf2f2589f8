"""Random content in all trace formats: the result is a trace, or a `BadInput` of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import formats

pytestmark = pytest.mark.long  # seconds
HEADS = {
    "slurm": "JobID|Submit|Start|End|Elapsed|AllocCPUS|Timelimit|State\n",
    "google": "time,type,collection_id,instance_index,start_time,end_time\n",
}
CELLS = st.sampled_from(
    [
        "",
        "1",
        "-1",
        "7.5",
        "1e9",
        "Unknown",
        "2024-01-31T12:00:00",
        "1-00:00:00",
        "x",
        "0",
        "3",
        "6",
        '"',
        "9" * 30,
        "é",
    ]
)
leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4))
KEYS = {
    "jhist": [
        "submitTime",
        "finishTime",
        "startTime",
        "counters",
        "groups",
        "counts",
        "value",
        "hostname",
        "splitLocations",
    ],
    "spark": [
        "Job ID",
        "Stage ID",
        "Submission Time",
        "Stage Infos",
        "Parent IDs",
        "Task Info",
        "Task Metrics",
        "Index",
    ],
}
EVENTS = {
    "jhist": ["JOB_SUBMITTED", "TASK_STARTED", "MAP_ATTEMPT_STARTED", "MAP_ATTEMPT_FINISHED", "JOB_FINISHED"],
    "spark": ["JobStart", "TaskEnd", "JobEnd", "ApplicationStart"],
}


def judge(name: str, path: Path) -> None:
    """Read a file, and check that an error has one line that names the file."""
    try:
        assert formats()[name].read(path).jobs
    except BadInput as error:
        assert str(path) in str(error) and "\n" not in str(error)


def events_of(name: str) -> st.SearchStrategy[list[Any]]:
    """Return a Hypothesis strategy that draws events of the format `name` with any values in their fields."""
    values = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS[name]), inner, max_size=4)
        ),
        max_leaves=8,
    )
    fields = st.dictionaries(st.sampled_from(KEYS[name]), values, max_size=5)
    kinds = st.sampled_from(EVENTS[name])
    if name == "spark":
        made = st.builds(
            lambda kind, each: {"Event": f"SparkListener{kind}", "Submission Time": 1, **each}, kinds, fields
        )
    else:
        named = {"taskid": "task_1_1_m_000000", "taskType": "MAP", "attemptId": "a"}
        made = st.builds(lambda kind, each: {"type": kind, "event": {"x": {**named, **each}}}, kinds, fields)
    return st.lists(made | values, max_size=5)


@pytest.mark.parametrize("name", sorted(HEADS))
@given(data=st.data())
def test_any_rows_are_a_trace_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    head, mark = HEADS[name], HEADS[name][5] if name == "slurm" else ","
    width = head.count(mark) + 1
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width - 1, max_size=width), max_size=4))
    path = tmp_path_factory.getbasetemp() / f"any.{name}"
    path.write_text(head + "\n".join(mark.join(row) for row in rows))
    judge(name, path)


@pytest.mark.parametrize("name", sorted(EVENTS))
@given(data=st.data())
def test_any_events_are_a_trace_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any.{name}"
    path.write_text("\n".join(json.dumps(event) for event in data.draw(events_of(name))))
    judge(name, path)


@pytest.mark.parametrize("name", ["google", "jhist", "slurm", "spark"])
@given(content=st.binary(max_size=60))
def test_any_bytes_are_bad_input(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"bytes.{name}"
    path.write_bytes(content)
    judge(name, path)

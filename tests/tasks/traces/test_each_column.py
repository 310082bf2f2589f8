"""Each column that a reader parses is used, or a note names it: a change of its value changes the trace or is told.

A sample of each format has all columns that its reader knows; each value is changed in turn.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.formats import NAMES

Changed = tuple[str, str]
"""The text of a trace with one value changed, and the word that a note must have if the trace stays the same."""


def csv(head: str, rows: list[str], changes: dict[str, tuple[str, str]], separator: str) -> list[Changed]:
    """Return the rows, joined by `separator`, with a new value of one column of the last row in turn."""
    names = head.split(separator)
    assert set(changes) <= set(names)
    made = [("\n".join([head, *rows]), "")]
    for name, (value, word) in changes.items():
        cells = rows[-1].split(separator)
        cells[names.index(name)] = value
        made.append(("\n".join([head, *rows[:-1], separator.join(cells)]), word))
    return made


SWF = (
    "job;submit;wait;run;processors;cpu;used;asked;requested;memory;status;user;group;executable;queue;partition;"
    "after;think"
)
SWF_ROWS = ["1 0 5 60 4 30 7 4 90 8 1 3 1 2 1 1 -1 -1", "2 9 5 60 4 30 7 4 90 8 1 3 1 2 1 1 1 20"]
SWF_CHANGES = {
    "job": ("3", ""),
    "submit": ("8", ""),
    "wait": ("6", ""),
    "run": ("61", ""),
    "processors": ("5", ""),
    "cpu": ("31", ""),
    "used": ("9", "used"),
    "asked": ("5", ""),
    "requested": ("91", ""),
    "user": ("4", ""),
    "memory": ("9", "requested memory"),
    "status": ("0", ""),
    "group": ("2", "groups"),
    "executable": ("3", "executables"),
    "queue": ("2", ""),
    "partition": ("2", "partitions"),
    "after": ("-1", ""),
    "think": ("21", ""),
}


def swf() -> list[Changed]:
    """Of a job's processors, the requested ones count if the allocated ones are unknown."""
    unknown = [row.split() for row in SWF_ROWS]
    found = []
    for text, word in csv(SWF, [";".join(row) for row in unknown], SWF_CHANGES, ";"):
        lines = text.split("\n")[1:]
        asks_more = lines[-1].split(";")[7] != "4"
        cells = [line.split(";") for line in lines]
        if asks_more:
            cells[-1][4] = "-1"
        found.append(("\n".join(" ".join(row) for row in cells), word))
    return found


SACCT = "JobID|JobName|User|Partition|Submit|Eligible|Start|End|Elapsed|AllocCPUS|Timelimit|State|TotalCPU|NodeList"
SACCT_ROW = "7|a|u|p|100|100|110|170|00:01:00|2|00:02:00|COMPLETED|00:01:30|n1"
SACCT_CHANGES = {
    "JobID": ("8", ""),
    "JobName": ("b", "names"),
    "User": ("v", ""),
    "Partition": ("q", ""),
    "Submit": ("90", ""),
    "Eligible": ("105", ""),
    "Start": ("111", ""),
    "End": ("171", "End"),
    "Elapsed": ("00:01:01", ""),
    "AllocCPUS": ("3", ""),
    "Timelimit": ("00:03:00", ""),
    "State": ("FAILED", ""),
    "TotalCPU": ("00:01:31", ""),
    "NodeList": ("n2", ""),
}
GOOGLE = (
    "time,type,collection_id,instance_index,priority,machine_id,collection_type,user,collection_name,"
    "parent_collection_id,start_time,end_time"
)
GOOGLE_FIRST = [
    "1000000,0,5,0,200,0,0,u,first,,,",
    "2000000,3,5,0,200,31,0,u,first,,,",
    "4000000,6,5,0,200,31,0,u,first,,,",
]
GOOGLE_EVENT = "4500000,6,5,1,200,32,0,u,first,,1000000,4000000"
GOOGLE_USAGE = "5000000,8,7,0,200,31,0,u,second,5,5000000,9000000"
GOOGLE_CHANGES = {
    "collection_id": ("8", ""),
    "instance_index": ("0", ""),
    "type": ("7", ""),
    "machine_id": ("31", ""),
    "collection_type": ("1", ""),
}
GOOGLE_OF_COLLECTIONS = {
    "priority": ("0", ""),
    "user": ("w", ""),
    "collection_name": ("third", ""),
    "parent_collection_id": ("6", ""),
    "start_time": ("5500000", ""),
    "end_time": ("9500000", ""),
}
ALIBABA = "submit_time,duration,cpu,memory,job_id,task_id,instances_num"
ALIBABA_CHANGES = {
    "submit_time": ("11", ""),
    "duration": ("21", ""),
    "cpu": ("0.3", ""),
    "memory": ("0.9", "memory"),
    "job_id": ("2", ""),
    "task_id": ("4", "task"),
    "instances_num": ("3", ""),
}
SWIM = "job\tsubmit\tgap\tinput\tshuffle\toutput\tin\tout"
SWIM_CHANGES = {
    "job": ("b", ""),
    "submit": ("2", ""),
    "gap": ("2", "between arrivals"),
    "input": ("2", ""),
    "shuffle": ("2", ""),
    "output": ("2", ""),
    "in": ("/y", ""),
    "out": ("/y", ""),
}


def headless(rows: list[Changed]) -> list[Changed]:
    return [(text.partition("\n")[2], word) for text, word in rows]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all numbers, texts and truth values in a JSON value."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if items is None:
        return [path]
    return [place for key, inner in items for place in places(inner, (*path, key))]


def json_of(objects: list[dict[str, Any]], words: dict[str, str]) -> list[Changed]:
    """Return the objects with a new value at each place in turn. `words` are the notes of keys that change nothing."""
    made = [("\n".join(map(json.dumps, objects)), "")]
    for number, first in enumerate(objects):
        for place in places(first):
            changed = json.loads(json.dumps(objects))
            inner = changed[number]
            for key in place[:-1]:
                inner = inner[key]
            old = inner[place[-1]]
            inner[place[-1]] = old + 1 if isinstance(old, int | float) else f"{old}9"
            key = next(str(key) for key in reversed(place) if isinstance(key, str))
            made.append(("\n".join(map(json.dumps, changed)), words.get(key, "")))
    return made


SLS = {
    "job.start.ms": 1000,
    "job.end.ms": 9000,
    "job.id": "j",
    "job.user": "u",
    "job.queue.name": "q",
    "job.count": 1,
    "job.tasks": [
        {"container.host": "/r/h", "container.duration.ms": 500, "container.type": "map", "count": 2},
        {"container.duration.ms": 700, "container.type": "reduce", "container.memory": 1024},
    ],
}
ATTEMPT = {"result": "SUCCESS", "startTime": 2000, "finishTime": 5000, "cpuUsages": [100]}
RUMEN = {
    "jobID": "job_1_1",
    "jobName": "n",
    "user": "u",
    "queue": "q",
    "priority": "HIGH",
    "submitTime": 1000,
    "finishTime": 9000,
    "totalMaps": 1,
    "totalReduces": 1,
    "outcome": "SUCCESS",
    "mapTasks": [
        {
            "inputBytes": 10,
            "outputBytes": 20,
            "preferredLocations": [{"layers": ["/r", "h"]}],
            "attempts": [ATTEMPT],
        },
        {"inputBytes": 10, "outputBytes": 20, "preferredLocations": [], "attempts": [ATTEMPT]},
    ],
    "reduceTasks": [
        {"inputBytes": 3000, "outputBytes": 40, "attempts": [ATTEMPT | {"shuffleFinished": 4000}]}
    ],
}
SAMPLES: dict[str, list[Changed]] = {
    "swf": swf(),
    "slurm": csv(
        SACCT,
        ["6|a|u|p|50|50|60|80|00:00:20|2|00:02:00|COMPLETED|00:00:30|n1", SACCT_ROW],
        SACCT_CHANGES,
        "|",
    ),
    "google": csv(GOOGLE, [*GOOGLE_FIRST, GOOGLE_EVENT], GOOGLE_CHANGES, ","),
    "google of collections": csv(GOOGLE, [*GOOGLE_FIRST, GOOGLE_USAGE], GOOGLE_OF_COLLECTIONS, ","),
    "google of ends": csv(GOOGLE, GOOGLE_FIRST, {"time": ("4500000", "")}, ","),
    "alibaba": csv(ALIBABA, ["10,20,0.5,0.1,1,2,2"], ALIBABA_CHANGES, ","),
    "swim": headless(csv(SWIM, ["a\t1\t1\t1\t1\t1\t/x\t/x"], SWIM_CHANGES, "\t")),
    "sls": json_of([SLS], {"container.memory": "memory"}),
    "rumen": json_of([RUMEN], {"jobID": "jobID", "totalMaps": "totals", "totalReduces": "totals"}),
}
USED_ELSEWHERE = {
    ("rumen", "jobID"): "the name of a job without jobName",
    ("slurm", "End"): "the end of a job without Elapsed",
    ("alibaba", "task"): "the predecessors in names of Alibaba's own form",
}
"""Columns that count only where others are missing, by format and the word of the change."""
OWN_TESTS = {"jhist", "spark"}  # Event streams, whose tests follow each event.


def test_all_formats_are_here() -> None:
    assert {name.partition(" ")[0] for name in SAMPLES} | OWN_TESTS == set(NAMES)
    for head, changes in (
        *(
            (SWF, SWF_CHANGES),
            (SACCT.replace("|", ";"), SACCT_CHANGES),
            (SWIM.replace("\t", ";"), SWIM_CHANGES),
        ),
        (GOOGLE.replace(",", ";"), GOOGLE_CHANGES | GOOGLE_OF_COLLECTIONS | {"time": ("", "")}),
        (ALIBABA.replace(",", ";"), ALIBABA_CHANGES),
    ):
        assert set(head.split(";")) == set(changes)


@pytest.mark.parametrize(
    ("format", "number"), [(name, number) for name, rows in SAMPLES.items() for number in range(1, len(rows))]
)
def test_a_changed_value_changes_the_trace_or_is_told(tmp_path: Path, format: str, number: int) -> None:
    original, (changed, word) = SAMPLES[format][0][0], SAMPLES[format][number]
    traces = []
    for name, text in (("a", original), ("b", changed)):
        (tmp_path / name).write_text(text + "\n")
        traces.append(read_trace(tmp_path / name, format.partition(" ")[0]))
    before, after = traces
    same = replace(before, warnings=()) == replace(after, warnings=())
    told = before.warnings != after.warnings or any(word in note for note in after.warnings if word)
    assert not same or told or (format, word) in USED_ELSEWHERE, changed

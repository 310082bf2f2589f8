"""The output of `describe` for real traces, compared with counts that do not use schedbed's readers."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.describe import facts
from schedbed.tasks.traces.detect import read_trace

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces"))
pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(), reason=f"no traces at {TRACES} (SCHEDBED_TRACES names another place)"
)


class Count(NamedTuple):
    """The content of a trace: jobs, maps, reduces, failed attempts, seconds, and shuffled bytes."""

    jobs: int
    maps: int
    reduces: int
    failed: int
    span_s: float
    shuffle_bytes: float = 0.0


def text_of(path: Path) -> str:
    """Return the file's text, decompressed if necessary."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return all JSON objects in a text that contains one after another."""
    return json.loads("[" + re.sub(r"\}\s*\{", "},{", text.strip()) + "]")


def swim(text: str) -> Count:
    """Count a SWIM trace: each line is a job."""
    rows = [[float(cell) for cell in line.split("\t")[1:6]] for line in text.splitlines()]
    submits = [row[0] for row in rows]
    return Count(len(rows), 0, 0, 0, max(submits) - min(submits), sum(row[3] for row in rows))


def rumen(text: str) -> Count:
    """Count a Rumen trace: jobs with map tasks, and attempts whose result is not success."""
    jobs = [job for job in json_objects(text) if job["mapTasks"]]
    maps = [task for job in jobs for task in job["mapTasks"]]
    reduces = [task for job in jobs for task in job["reduceTasks"] or ()]
    results = [attempt["result"] for task in maps + reduces for attempt in task["attempts"]]
    submits = [job["submitTime"] / 1000 for job in jobs]
    shuffled = sum(shuffle_of(job) for job in jobs)
    failed = sum(result != "SUCCESS" for result in results)
    return Count(len(jobs), len(maps), len(reduces), failed, max(submits) - min(submits), shuffled)


def shuffle_of(job: dict[str, Any]) -> float:
    """Return the bytes that a job's reduces fetched, assuming that failed reduces fetched the average.

    If no reduce succeeded, the size of the maps' outputs is returned.
    """
    reduces = job["reduceTasks"] or []
    good = [a for task in reduces for a in task["attempts"] if a["result"] == "SUCCESS"]
    if not good:
        each = [
            next((a["fileBytesWritten"] for a in task["attempts"] if a["result"] == "SUCCESS"), 0)
            for task in job["mapTasks"]
        ]
        return sum(max(0, one) for one in each) if reduces else 0.0
    return sum(a["reduceShuffleBytes"] for a in good) / len(good) * len(reduces)


def sls(text: str) -> Count:
    """Count an SLS trace: the tasks of jobs."""
    jobs = json_objects(text)
    tasks = [task for job in jobs for task in job["job.tasks"]]
    starts = [job["job.start.ms"] / 1000 for job in jobs]
    return Count(len(jobs), len(tasks), 0, 0, max(starts) - min(starts))


def swf(text: str) -> Count:
    """Count an SWF trace: jobs that used processors, with one map per processor."""
    rows = [
        [float(cell) for cell in line.split()]
        for line in text.splitlines()
        if line.strip() and ";" not in line[:1]
    ]
    ran = [
        (row[1], int(row[4] if row[4] > 0 else row[7]))
        for row in rows
        if row[3] > 0 and max(row[4], row[7]) > 0
    ]
    return Count(len(ran), sum(size for _, size in ran), 0, 0, max(ran)[0] - min(ran)[0])


def alibaba(text: str) -> Count:
    """Count an Alibaba trace: jobs, and the instances of their tasks."""
    rows = list(csv.DictReader(text.splitlines()))
    submits = [float(row["submit_time"]) for row in rows]
    first: dict[str, float] = {}
    for row, submit in zip(rows, submits, strict=True):
        first[row["job_id"]] = min(submit, first.get(row["job_id"], submit))
    instances = sum(int(float(row["instances_num"])) for row in rows)
    return Count(len(first), instances, 0, 0, max(first.values()) - min(first.values()))


def jhist(text: str) -> Count:
    """Count a job history of YARN: the distinct names of tasks in events. What is killed has not failed."""
    tasks = set(re.findall(r'"(task_\d+_\d+_[mr]_\d+)"', text))
    failed = len(re.findall(r'"type":"(?:MAP|REDUCE)_ATTEMPT_FAILED"', text))
    return Count(1, sum("_m_" in one for one in tasks), sum("_r_" in one for one in tasks), failed, 0.0)


COUNTERS: dict[str, Callable[[str], Count]] = {
    "swim/*.tsv": swim,
    "hadoop-gridmix/*": rumen,
    "hadoop-mumak/*trace*": rumen,
    "hadoop-rumen/*trace*": rumen,
    "hadoop-sls/inputsls.json": sls,
    "swf/*.swf": swf,
    "alibaba-2018/*.csv": alibaba,
    "yarn-jhist/*": jhist,
}
FILES = [
    (path, count)
    for pattern, count in COUNTERS.items()
    for path in sorted(TRACES.glob(pattern))
    if "topology" not in path.name
]


@pytest.mark.long  # seconds
@pytest.mark.parametrize(("path", "count"), FILES, ids=lambda value: getattr(value, "name", ""))
def test_describe_agrees_with_an_independent_count(path: Path, count: Callable[[str], Count]) -> None:
    expected, trace = count(text_of(path)), read_trace(path)
    told = dict(facts(trace))
    assert int(told["jobs"].split()[0]) == expected.jobs
    if expected.maps:
        assert told["tasks"] == f"{expected.maps} maps, {expected.reduces} reduces"
        assert told["failed attempts"] == f"{expected.failed}"
    assert trace.jobs[-1].submit_s - trace.jobs[0].submit_s == pytest.approx(expected.span_s, abs=1e-6)
    if expected.shuffle_bytes:
        shuffled = sum(job.shuffle_bytes for job in trace.jobs)
        assert shuffled == pytest.approx(expected.shuffle_bytes, abs=len(trace.jobs))


RECORDED = ("slurm", "spark-standalone", "hadoop-yarn", "hadoop-mapreduce-yarn")
"""The folders of runs of real schedulers, recorded to compare simulations with."""


def test_every_file_is_counted_a_topology_or_refused_in_one_line() -> None:
    """Every file without recorded jobs is a topology, the specification syn.json, or refused in one line.

    README files, licenses and SWF's list of machines are refused. Runs that were recorded for comparison
    have tables of their own, and histories in forms that no reader knows yet: these are refused in one line.
    """
    counted = {path for path, _ in FILES}
    for path in sorted(TRACES.glob("*/*")):
        if path in counted:
            continue
        try:
            trace = read_trace(path)
        except BadInput as error:
            assert "\n" not in str(error) and str(path) in str(error)
            traces = (".gz", ".json", ".tsv", ".swf", ".jhist", ".csv")
            assert path.parent.name in RECORDED or path.suffix not in traces
        else:
            assert path.parent.name in RECORDED or trace.topology is not None or path.name == "syn.json"

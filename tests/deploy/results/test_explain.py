"""Tests the history of a task, told from its decisions and attempts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.results.explain import explain, story
from schedbed.deploy.results.record_check import merge_parts
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.scheduler.history import COLUMNS, History
from schedbed.tasks.errors import BadInput
from tests.harness import tables

TASK = "job_0001_m_000000"


def write(out: Path, policy: str, **rows: list[dict[str, Any]]) -> None:
    history = History(out, policy, 0)
    for name, some in rows.items():
        made = tables.table(name, some)[list(COLUMNS[name])]
        history.append(
            name, [tuple(None if v != v else v for v in row) for row in made.itertuples(index=False)]
        )
    history.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skips = [
        {"t": 1.0 + i, "node": "n2", "reason": f"waits {i}.0 of 20 s for a node with its data"}
        for i in range(12)
    ]
    write(
        tmp_path,
        "delay:node_wait=20s",
        jobs=[{"submit": 0.5, "finish": 30.0}],
        decisions=[
            *skips,
            {"t": 4.0, "kind": "reduce", "reason": "no map is done"},
            {"t": 5.0, "job": "job_0002", "reason": "another job"},
            {
                "t": 6.0,
                "job": "job_0002",
                "task": "job_0002_m_000000",
                "answer": "launch",
                "reason": "another job",
            },
            {"t": 13.0, "task": TASK, "answer": "launch", "reason": "node-local"},
            {"t": 17.0, "task": TASK, "node": "n2", "answer": "launch", "reason": "rack-local"},
        ],
        attempts=[
            {
                "task": TASK,
                "attempt": f"{TASK}_0",
                "locality": "node",
                "assigned": 13.0,
                "start": 13.01,
                "end": 16.0,
            }
            | {"state": "failed", "reason": "over its memory limit", "read_local_bytes": 2**20},
            {
                "task": TASK,
                "attempt": f"{TASK}_1",
                "locality": "rack",
                "assigned": 17.0,
                "start": 17.0,
                "end": 20.0,
            }
            | {"node": "n2", "split_of": ""},
        ],
    )
    write(
        tmp_path,
        "fifo",
        jobs=[{"submit": 0.5}],
        attempts=[{"task": TASK, "assigned": 1.0, "start": 1.0, "end": 2.0}],
    )
    policies = ["delay:node_wait=20s", "fifo"]
    runs = [RunRecord(policy=policy, repeat=0, epoch_s=0.0) for policy in policies]
    run = RunFile(scenario={}, policies=policies, repeats=1, seed=1, machines="process", runs=runs)
    run.save(tmp_path)
    merge_parts(tmp_path, run)
    return tmp_path


def test_the_story_has_the_offers_the_attempts_and_why_they_ended(folder: Path) -> None:
    text = story(folder, TASK, policy="delay")
    wanted = [
        "job_0001 (wc, sort, user ana) was submitted at 0.50 s",
        "waiting 12.50 s, other maps were launched: 1 to job_0002",
        "n2: skipped 12 times until 12.00 s (waits … of … s for a node with its data)",
        "13.00 s  n1: launch (node-local)",
        f"attempt {TASK}_0 assigned on n1 (rack a), node-local",
        "first line of its code, 10 ms later",
        "16.00 s  failed (over its memory limit), after 2.99 s",
        "read here 1.0 MiB",
        "17.00 s  n2: launch (rack-local)",
        "20.00 s  succeeded, after 3.00 s",
    ]
    places = [text.find(line) for line in wanted]
    assert -1 not in places and places == sorted(places)
    assert (
        "no map is done" not in text
        and "another" not in text
        and "fifo" not in text
        and "part of" not in text
    )
    assert text.count("launch (") == 2


def test_an_attempt_stands_for_its_task_and_every_policy_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(folder, f"{TASK}_1")
    assert capsys.readouterr().out.count(f"{TASK} under ") == 2


def test_on_a_narrow_terminal_lines_break_between_words(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    explain(folder, TASK)
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 60, "a pipe gets whole lines"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    explain(folder, TASK)
    folded = capsys.readouterr().out
    assert max(map(len, folded.splitlines())) <= 60 and folded.split() == whole.split()


@pytest.mark.parametrize(
    ("task", "filters", "said"),
    [
        ("job_0001_m_000009", {}, f"no such task in this run; near it are {TASK}"),
        ("nonsense", {}, "nonsense: no such task"),
        (
            TASK,
            {"policy": "fair"},
            "--policy fair: not in this run, expected one of delay:node_wait=20s, fifo",
        ),
        (TASK, {"repeat": 3}, "--repeat 3: not in this run, expected 0 to 0"),
    ],
)
def test_what_was_not_recorded_is_bad_input(
    folder: Path, task: str, filters: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        story(folder, task, **filters)
    assert said in str(caught.value) and "\n" not in str(caught.value)

"""Tests the live display: lines if the output is no terminal, a picture on a terminal, and cheap frequent
updates.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from schedbed.deploy.display.display import PlainLines
from schedbed.deploy.display.picture import chosen, draw, make_display
from schedbed.deploy.service.show import _show_one


def job(number: int, **changes: Any) -> dict[str, Any]:
    made = {
        "job": f"job_{number:04d}",
        "name": f"wc-{number}",
        "user": "ana",
        "queue": "q",
        "state": "running",
    }
    made |= {
        "maps": 10,
        "maps_done": 5,
        "maps_running": 2,
        "reduces": 2,
        "reduces_done": 0,
        "reduces_running": 0,
    }
    return made | {"submit_s": 1.0, "finish_s": None, "deadline_s": None, "reason": ""} | changes


def status(*jobs: dict[str, Any], now_s: float = 3.0, **node: Any) -> dict[str, Any]:
    one = {"node": "n1", "rack": "a", "state": "alive", "incarnation": 1, "cpu_util": 0.5, "disk_util": 0.1}
    one |= {"net_util": 0.0, "memory_bytes": 2**20, "map_slots": 2, "reduce_slots": 1, "running": []}
    recent = [
        {"t": 2.0, "node": "n1", "job": "job_0001", "task": None, "answer": "reject", "reason": "[red]"}
    ]
    made: dict[str, Any] = {
        "now_s": now_s,
        "policy": "fair",
        "repeat": 0,
        "repeats": 2,
        "of_policies": [1, 4],
    }
    return made | {"jobs": list(jobs), "nodes": [one | node], "recent": recent}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_tell_what_changed_once_and_now_and_then_the_whole() -> None:
    out, now = StringIO(), [0.0]
    lines = PlainLines(out, clock=lambda: now[0])
    with lines:
        lines.update(status(job(1)))
        lines.update(status(job(1)))
        lines.update(status(job(1, state="succeeded", finish_s=9.5), now_s=9.5, state="lost"))
        now[0] = 6.0
        lines.update(status(job(1, state="succeeded", finish_s=9.5), now_s=10.0, state="lost"))
    assert out.getvalue().splitlines() == [
        "fair, repeat 1 of 2 (run 1 of 4)",
        "    3.0 s  job_0001 wc-1 of ana submitted: 10 maps, 2 reduces",
        "    9.5 s  job_0001 wc-1 succeeded after 8.5 s",
        "    9.5 s  n1 is lost",
        "   10.0 s  1 of 1 jobs ended, 5 of 12 tasks done, 0 running, CPU 0% of 0 nodes",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_being_done_is_told_on_a_terminal_before_the_first_status(terminal: bool) -> None:
    out = Terminal() if terminal else StringIO()
    with make_display(out=out) as display:
        display.stage("starting 6 nodes")
        assert ("starting 6 nodes ..." in out.getvalue()) is terminal
        display.update(status(job(1)))
    assert "wc-1" in out.getvalue()


def test_a_new_run_starts_over() -> None:
    out = StringIO()
    lines = PlainLines(out, clock=lambda: 0.0)
    lines.update(status(job(1)))
    lines.update(status(job(1)) | {"policy": "fifo", "of_policies": [2, 4]})
    assert out.getvalue().count("submitted") == 2 and "fifo, repeat 1 of 2 (run 2 of 4)" in out.getvalue()


def test_without_a_terminal_or_with_no_live_there_are_lines() -> None:
    assert isinstance(make_display(out=StringIO()), PlainLines)
    assert isinstance(make_display(live=False, out=Terminal()), PlainLines)


def test_on_a_terminal_a_burst_of_updates_draws_rarely_and_the_last_state_stays() -> None:
    out = Terminal()
    with make_display(out=out) as display:
        for _ in range(50):
            display.update(status(job(1)))
    assert 1 <= out.getvalue().count("wc-1") < 10
    assert "fair, repeat 1 of 2 (run 1 of 4): 3.0 s" in out.getvalue()


def test_the_picture_shows_jobs_nodes_and_decisions_without_reading_markup_in_them() -> None:
    out = StringIO()
    late = job(2, state="succeeded", finish_s=9.0, deadline_s=8.0)
    failed = job(3, state="failed", reason="job_0003_m_000001 failed 4 times")
    running = status(job(1, name="[b]x"), late, failed, running=["job_0001_m_000003_1", "odd"])
    Console(file=out, width=140).print(draw(running, 40))
    text = out.getvalue()
    for wanted in (
        "[b]x",
        "5/10",
        "succeeded after 8.0 s, late",
        "failed: job_0003",
        "50%",
        "1m3'1 odd",
        "[red]",
    ):
        assert wanted in text


def test_when_not_all_jobs_fit_those_at_work_and_the_last_ended_are_shown() -> None:
    jobs = [job(n, state="succeeded" if n <= 3 else "running") for n in range(1, 6)]
    assert [j["job"] for j in chosen(jobs, 3)] == ["job_0003", "job_0004", "job_0005"]


def test_ids_stay_whole_on_a_narrow_terminal() -> None:
    out = StringIO()
    jobs = [
        job(n, name="a-very-long-name-of-a-job", user="somebody-else", maps=1000, maps_done=500)
        for n in (1, 12)
    ]
    running = ["job_0001_m_000003_0", "job_0012_r_000001_0"]
    drawn = status(*jobs, node="node-twelve", rack="the-rack-at-the-window", running=running)
    row = {"t": 1234.5, "answer": "launch", "node": "node-twelve", "job": "job_0012"}
    drawn["recent"] = [row | {"task": "job_0012_m_000003", "reason": "a node of the same rack, " * 4}]
    Console(file=out, width=80).print(draw(drawn, 40))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("launch  job_0012_m_000003  on node-twelve" in line for line in lines)
    for wanted in ("job_0001", "job_0012", "node-twelve"):
        assert any(line.startswith(wanted) for line in lines)


def test_the_status_of_a_cluster_has_whole_ids_on_a_narrow_terminal() -> None:
    out = StringIO()
    running = ["job_0001_m_000003_0", "job_0012_r_000001_0"]
    drawn = status(job(1, name="a-very-long-name-of-a-job", queue="interactive"), running=running)
    shown = {"name": "lab", "state": "up", "machines": "process", "out": "runs/lab"}
    shown |= {"users": [{"user": "ana", "jobs": {"running": 1}, "running_tasks": 2, "share": 1.0}]}
    _show_one(drawn | shown, Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in (*running, "job_0001 ", "5/10"))

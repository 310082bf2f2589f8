"""Tests the feed of the live page: each step contains the changes, and a page opened later sees the same
state.
"""

from __future__ import annotations

from typing import Any

from schedbed.deploy.watch import page_server
from schedbed.deploy.watch.page_server import RunFeed
from tests.harness.tables import NODE, rows


def status(now_s: float, *running: str, done: int = 0) -> dict[str, Any]:
    job = {"job": "job_0001", "state": "running", "maps": 4, "maps_done": done}
    node = {"node": "n1", "state": "alive", "cpu_util": 0.5, "running": list(running)}
    return {"now_s": now_s, "jobs": [job], "nodes": [node], "recent": []}


def begun() -> RunFeed:
    feed = RunFeed()
    feed.begin([NODE], {"policy": "fair", "repeat": 0, "of_policies": [1, 2]})
    return feed


def launch(task: str, at_s: float) -> list[tuple[Any, ...]]:
    return rows("decisions", {"t": at_s, "answer": "launch", "task": task, "node": "n1", "reason": "local"})


def test_a_step_has_only_what_changed() -> None:
    feed = begun()
    first = feed.take_status(status(1.0, "job_0001_m_000000_0"))["data"]
    assert [job["job"] for job in first["jobs"]] == ["job_0001"] and len(first["nodes"]) == 1
    second = feed.take_status(status(2.0, "job_0001_m_000000_0"))["data"]
    assert (second["jobs"], second["nodes"], second["now"]) == ([], [], 2.0)
    third = feed.take_status(status(3.0, "job_0001_m_000000_0", done=1))["data"]
    assert [job["maps_done"] for job in third["jobs"]] == [1] and third["nodes"] == []


def test_an_attempt_runs_since_its_launch_not_since_it_was_seen() -> None:
    feed = begun()
    feed.take_rows("decisions", launch("job_0001_m_000000", 0.7))
    step = feed.take_status(status(1.2, "job_0001_m_000000_0", "job_0001_m_000001_0"))["data"]
    assert step["nodes"][0]["running"] == [["job_0001_m_000000_0", 0.7], ["job_0001_m_000001_0", 1.2]]
    assert feed.take_status(status(9.0, "job_0001_m_000000_0"))["data"]["nodes"][0]["running"][0][1] == 0.7


def test_skips_are_not_told_and_reasons_are() -> None:
    feed = begun()
    feed.take_rows("decisions", rows("decisions", {"t": 0.1, "answer": "skip"}) + launch("t", 0.2))
    step = feed.take_status(status(1.0))["data"]
    assert [(row[1], row[5]) for row in step["decisions"]] == [("launch", "local")]
    assert feed.take_status(status(2.0))["data"]["decisions"] == []


def test_a_late_page_sees_what_the_steps_told_and_no_more_than_is_kept() -> None:
    feed = begun()
    one = {"attempt": "a_1_m_0_0", "node": "n1", "assigned": 0.0, "end": 1.0, "state": "succeeded"}
    feed.take_rows("attempts", rows("attempts", *[one] * (page_server.ATTEMPTS_KEPT + 5)))
    feed.take_rows("faults", [(0.5, "kill", "n1", None)])
    step = feed.take_status(status(1.0))
    found = feed.snapshot()
    assert len(found["ended"]) == page_server.ATTEMPTS_KEPT and found["faults"] == [[0.5, "kill", "n1", None]]
    assert found["seq"] == step["data"]["seq"], "so that the page skips a step that it knows already"
    assert found["specs"][0]["cpu_rate"] == 0.2


def test_runs_that_have_ended_stand_side_by_side() -> None:
    feed = begun()
    feed.take_rows(
        "jobs",
        rows(
            "jobs",
            {"state": "succeeded", "submit": 1.0, "finish": 5.0},
            {"state": "failed", "submit": 2.0, "finish": 9.0},
        ),
    )
    map_ = {"kind": "map", "state": "succeeded"}
    feed.take_rows("attempts", rows("attempts", map_ | {"locality": "node"}, map_ | {"locality": "rack"}))
    feed.finish("failed", "job_0002 failed")
    feed.begin([NODE], {"policy": "fifo", "repeat": 0})
    feed.finish("succeeded", "")
    first, second = feed.snapshot()["results"]
    assert (first["policy"], first["makespan_s"], first["completion_s"], first["local"]) == (
        "fair",
        8.0,
        4.0,
        0.5,
    )
    assert first["jobs"] == {"succeeded": 1, "failed": 1}
    assert (second["policy"], second["makespan_s"], second["attempts"]) == ("fifo", None, 0)


def test_what_waits_for_a_status_is_bounded() -> None:
    feed = begun()
    for _ in range(5 * page_server.ATTEMPTS_KEPT):
        feed.take_rows("decisions", launch("t", 0.2))
    assert len(feed.take_status(status(1.0))["data"]["decisions"]) <= 2 * page_server.ATTEMPTS_KEPT

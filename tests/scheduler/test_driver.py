"""The driver around the scheduler core: the plan of jobs, the journal and its replay, and the inputs of
attempts.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from schedbed.cluster.messages import AttemptReport, Launch
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.rows import Commit, NodeLost
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import BlockRange, Split
from tests.harness.world import Tape, job, node

BLOCK = BlockRange(block="b0", offset=0, length=100, nodes=("n1",))
INPUT = Split(index=0, file="/in/a", block="b0", hosts=("n1",), offset=0, length=100)


def driver(journal: EventList | None = None) -> Driver:
    return Driver(CoreConfig(), lambda: build_policy("fifo"), Tape(), journal=journal)


def plan(*jobs: str, at_s: float = 0.0, **changes: Any) -> Plan:
    return Plan(jobs=tuple(job(name, submit_s=at_s, **changes) for name in jobs), files={})


def test_jobs_are_submitted_when_their_time_has_come_the_earliest_first() -> None:
    made = driver()
    made.do(0.0, "plan", Plan(jobs=(job("job_0002", submit_s=5.0), job("job_0001", submit_s=9.0)), files={}))
    assert made.next_due_s == 5.0
    assert made.submit_due(4.9) == 0
    assert made.submit_due(5.0) == 1
    assert made.core.active_jobs() == ["job_0002"]
    assert (made.submit_due(100.0), made.next_due_s) == (1, inf)
    assert not made.all_ended()


def test_jobs_that_are_added_count_from_now_and_a_repeat_changes_nothing() -> None:
    made = driver()
    made.do(0.0, "plan", plan("job_0001", at_s=50.0))
    for now_s in (10.0, 20.0):
        made.do(now_s, "add", plan("job_0001", "job_0002", at_s=1.0, deadline_s=3.0))
    assert {name: known.submit_s for name, known in made.jobs.items()} == {"job_0001": 50.0, "job_0002": 11.0}
    assert made.jobs["job_0002"].deadline_s == 13.0
    assert [waits.job for waits in made.waiting] == ["job_0002", "job_0001"]


def test_jobs_that_wait_can_be_killed_like_those_that_run() -> None:
    made = driver()
    made.do(0.0, "plan", plan("job_0001", "job_0002", at_s=50.0))
    made.kill(1.0, ["job_0002", "job_0009"], "not wanted")
    assert [waits.job for waits in made.waiting] == ["job_0001"]
    made.kill(2.0, None, "not wanted either")
    assert made.all_ended()


def test_an_event_is_in_the_journal_before_the_core_fails_at_it() -> None:
    journal = EventList()
    made = driver(journal)
    made.do(0.0, "submit", job("job_0001"))
    with pytest.raises(ValueError, match="job_0001"):
        made.do(1.0, "submit", job("job_0001"))
    assert [(now_s, kind) for now_s, kind, _ in journal.events()] == [(0.0, "submit"), (1.0, "submit")]


def test_after_a_replay_the_same_jobs_wait_and_unfinished_commits_come_again() -> None:
    journal = EventList()
    made = driver(journal)
    made.do(0.0, "plan", Plan(jobs=(job("job_0001", 2), job("job_0002", submit_s=60.0)), files={}))
    made.submit_due(0.0)
    made.do(0.0, "register", node("n1", maps=2), 1)
    tracker = Tracker("n1", 1)
    reply = made.do(1.0, "heartbeat", tracker.heartbeat())
    both = [action.attempt for action in reply.actions if isinstance(action, Launch)]
    tracker.on_reply(reply)
    for attempt in both:
        tracker.on_ended(AttemptReport(attempt=attempt, state="succeeded", start_s=1.0, end_s=2.0))
    made.do(2.0, "heartbeat", tracker.heartbeat())
    assert len(made.take_effects()) == 2
    made.do(2.1, "committed", both[0])
    known = made.core.status()
    [commit] = made.recover(3.0)
    assert isinstance(commit, Commit)
    assert commit.attempt == both[1]
    assert made.core.status() == known
    assert [waits.job for waits in made.waiting] == ["job_0002"]


def test_a_node_that_has_come_back_is_not_given_up_after_a_replay() -> None:
    made = driver(EventList())
    for name in ("n1", "n2"):
        made.do(0.0, "register", node(name), 1)
        made.do(1.0, "node_lost", name)
    made.do(2.0, "register", node("n1"), 2)
    assert made.recover(3.0) == [NodeLost("n2")]


def test_a_tracker_has_the_expiry_time_from_the_recovery_on_and_then_is_lost() -> None:
    made = driver(EventList())
    assert made.recover(50.0) == []  # nothing has happened before
    for name in ("n1", "n2"):
        made.do(0.0, "register", node(name), 1)
    made.recover(100.0)
    made.do(100.1, "tick")
    made.do(102.0, "heartbeat", Tracker("n2", 1).heartbeat())
    silence_s = CoreConfig().silence_s
    made.do(100.0 + silence_s, "tick")
    assert [known.alive for known in made.ledger.nodes.values()] == [True, True]
    made.do(100.1 + silence_s, "tick")
    assert made.take_effects() == [NodeLost("n1")]
    made.recover(200.0)
    assert [known.alive for known in made.ledger.nodes.values()] == [False, True]


def test_jobs_that_have_ended_and_files_that_nobody_reads_any_more_are_forgotten() -> None:
    made = driver()
    both = tuple(replace(job(name), splits=(INPUT,)) for name in ("job_0001", "job_0002"))
    made.do(0.0, "plan", Plan(jobs=both, files={"/in/a": (BLOCK,)}))
    made.submit_due(0.0)
    made.do(0.5, "replicas_changed", "b0", ("n2",))
    for name, files in (("job_0001", ["/in/a"]), ("job_0002", [])):
        made.kill(1.0, [name], "not wanted")
        made.take_effects()
        assert name not in made.jobs and list(made.files) == files
        assert list(made.ledger.moved) == (["b0"] if files else [])
    made.do(2.0, "add", Plan(jobs=both, files={"/in/a": (BLOCK,)}))
    assert made.jobs == {} and made.submit_times_s == {"job_0001": 0.0, "job_0002": 0.0}
    later = replace(both[0], job="job_0003")
    made.do(2.0, "add", Plan(jobs=(later,), files={"/in/a": (BLOCK,)}))
    assert made.blocks_of(INPUT) == (BLOCK,)


def test_later_attempts_are_told_where_a_block_has_moved() -> None:
    made = driver()
    spec = replace(job("job_0001"), splits=(INPUT,))
    made.do(0.0, "plan", Plan(jobs=(spec,), files={"/in/a": (BLOCK,), "/in/b": ()}))
    made.submit_due(0.0)
    made.do(0.0, "register", node("n1"), 1)
    made.do(0.5, "replicas_changed", "b0", ("n2", "n3"))
    made.do(0.5, "replicas_changed", "b9", ("n2",))
    [launch] = [
        action
        for action in made.do(1.0, "heartbeat", Tracker("n1", 1).heartbeat()).actions
        if isinstance(action, Launch)
    ]
    told = made.assignment(launch)
    assert told.output == "/out/job_0001/_temporary/job_0001_m_000000_0"
    assert [block.nodes for block in made.blocks_of(told.split)] == [("n2", "n3")]


def test_a_job_that_waits_for_another_is_submitted_after_its_end_and_the_think_time() -> None:
    """The deadline moves with the submission, and a driver that recovers holds the same jobs."""
    made = driver(EventList())
    waits = job("job_0002", submit_s=5.0, deadline_s=25.0, after="job_0001", think_s=60.0)
    late = job("job_0003", submit_s=500.0, after="job_0001")
    made.do(0.0, "plan", Plan(jobs=(waits, job("job_0001", submit_s=0.0), late), files={}))
    made.submit_due(90.0)
    assert made.core.active_jobs() == ["job_0001"] and not made.all_ended()
    made.recover(95.0)
    assert [known.job for known in made.held["job_0001"]] == ["job_0002", "job_0003"]
    made.kill(100.0, ["job_0001"], "a killed job has also ended")
    made.take_effects()
    assert (made.next_due_s, made.held) == (160.0, {})
    made.recover(101.0)
    assert [(known.job, known.submit_s, known.deadline_s) for known in made.waiting] == [
        ("job_0002", 160.0, 180.0),
        ("job_0003", 500.0, None),
    ]
    assert made.submit_times_s["job_0002"] == 160.0


def test_jobs_that_wait_for_others_can_be_killed_and_added_later() -> None:
    made = driver()
    made.do(0.0, "plan", Plan(jobs=(job("job_0001"), job("job_0002", after="job_0001")), files={}))
    made.submit_due(0.0)
    made.kill(1.0, ["job_0002"], "not wanted")
    assert made.held == {}
    made.do(
        2.0,
        "add",
        Plan(jobs=(job("job_0003", after="job_0001"), job("job_0004", after="job_0002")), files={}),
    )
    made.take_effects()
    assert [known.job for known in made.held["job_0001"]] == ["job_0003"]
    assert [known.job for known in made.waiting] == ["job_0004"]  # The other one has ended before.
    made.kill(3.0, None, "nothing more")
    assert made.all_ended()

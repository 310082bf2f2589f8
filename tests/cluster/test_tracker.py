"""The TaskTracker's side of the heartbeat protocol, tested without any I/O."""

from __future__ import annotations

from schedbed.cluster.messages import (
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    ForgetJob,
    Heartbeat,
    Launch,
    Reply,
    Reregister,
    Usage,
)
from schedbed.cluster.tracker import Tracker
from schedbed.tasks.specs import TaskKind

A, B = "job_0001_m_000000_0", "job_0001_m_000001_0"


def launch(attempt: str) -> Launch:
    return Launch(attempt=attempt, job="job_0001", kind=TaskKind.MAP, index=0)


def ended(attempt: str) -> AttemptReport:
    return AttemptReport(attempt=attempt, state="succeeded", start_s=0.0, end_s=1.0)


def test_a_heartbeat_stays_the_same_until_its_reply_has_come() -> None:
    tracker = Tracker("n1", 7)
    first = tracker.heartbeat()
    assert (first.node, first.incarnation, first.sequence) == ("n1", 7, 1)
    tracker.on_reply(Reply(sequence=1, actions=(launch(A),)))
    second = tracker.heartbeat()
    tracker.on_ended(ended(A))
    assert tracker.heartbeat() is second, "what ended meanwhile waits"
    assert tracker.has_news
    tracker.on_reply(Reply(sequence=2))
    third = tracker.heartbeat()
    assert third.sequence == 3
    assert [report.attempt for report in third.finished] == [A]
    assert third.running == ()


def test_a_late_reply_to_an_old_heartbeat_does_nothing() -> None:
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=1))
    tracker.heartbeat()
    assert tracker.on_reply(Reply(sequence=1, actions=(launch(A),))) == ()
    assert not tracker.running


def test_what_was_launched_runs_until_it_ends_and_ends_once() -> None:
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=1, actions=(launch(A), launch(B))))
    status = AttemptStatus(attempt=A, progress=0.5, phase="map", started_s=1.0)
    foreign = AttemptStatus(attempt="job_0009_m_000000_0", progress=0.5, phase="map")
    tracker.on_running([status, foreign])
    tracker.usage = Usage(cpu_util=0.5)
    heartbeat = tracker.heartbeat()
    assert heartbeat.running[0] == status
    assert [s.attempt for s in heartbeat.running] == [A, B]
    assert heartbeat.usage.cpu_util == 0.5
    tracker.on_reply(Reply(sequence=2))
    tracker.on_ended(ended(A))
    tracker.on_ended(ended(A))
    assert [r.attempt for r in tracker.heartbeat().finished] == [A]
    assert list(tracker.running) == [B]


def test_reregister_is_heard_whatever_the_sequence() -> None:
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    assert tracker.on_reply(Reply(sequence=99, actions=(Reregister(),))) == (Reregister(),)


def test_a_new_life_reports_nothing_of_the_one_before() -> None:
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=1, actions=(launch(A), launch(B))))
    assert tracker.on_ended(ended(A))
    tracker.on_fetch_failed(FetchFailure(reduce_attempt=B, map_attempt=A))
    tracker.begin_life(2)
    assert not tracker.has_news
    assert not tracker.on_ended(ended(B)), "an attempt of the former life"
    assert tracker.heartbeat() == Heartbeat(node="n1", incarnation=2, sequence=1)


def test_an_attempt_that_the_node_leaves_out_three_times_in_a_row_is_not_there() -> None:
    """An attempt that is missing from three reports of its node in a row does not run.

    Its launch was lost on the way to the node, or the report of its end on the way back.
    """
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=1, actions=(launch(A), launch(B))))
    there = AttemptStatus(attempt=B, progress=0.5, phase="map")
    tracker.on_running([there])
    tracker.on_running([there])
    tracker.on_running([there, AttemptStatus(attempt=A, progress=0.0, phase="start")])
    for _ in range(2):
        tracker.on_running([there])
        assert list(tracker.running) == [A, B], "it was on its way once"
    tracker.on_running([there])
    assert list(tracker.running) == [B]
    assert not tracker.on_ended(ended(A))


def test_a_launch_that_the_node_has_not_heard_of_is_not_missing() -> None:
    """On a busy host, reports wait in line that the node made before the launch reached it."""
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=1, actions=(launch(A), launch(B))))
    for _ in range(9):
        tracker.on_running([], [A, B])
    for _ in range(2):
        tracker.on_running([], [B])
    assert list(tracker.running) == [A, B]
    tracker.on_running([], [B])
    assert list(tracker.running) == [B]


def test_jobs_are_known_until_they_are_forgotten_or_the_life_ends() -> None:
    tracker = Tracker("n1", 1)
    tracker.heartbeat()
    tracker.on_reply(
        Reply(sequence=1, actions=(launch(A), Launch("job_0002_m_000000_0", "job_0002", TaskKind.MAP, 0)))
    )
    tracker.heartbeat()
    tracker.on_reply(Reply(sequence=2, actions=(ForgetJob(job="job_0001"),)))
    assert list(tracker.jobs) == ["job_0002"]
    tracker.begin_life(2)
    assert not tracker.jobs

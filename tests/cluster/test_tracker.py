"""The TaskTracker's side of the heartbeat protocol, without any I/O."""

from __future__ import annotations

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Launch, Reply, Reregister, Usage
from schedbed.cluster.tracker import Tracker
from schedbed.tasks.specs import TaskKind

A, B = "job_0001_m_000000_0", "job_0001_m_000001_0"


def launch(attempt: str) -> Launch:
    return Launch(attempt=attempt, job="job_0001", kind=TaskKind.MAP, index=0)


def ended(attempt: str) -> AttemptReport:
    return AttemptReport(attempt=attempt, state="succeeded", start_s=0.0, end_s=1.0)


def test_a_heartbeat_stays_the_same_until_its_reply_has_come() -> None:
    tracker = Tracker("n1", 7)
    first = tracker.beat()
    assert (first.node, first.incarnation, first.sequence) == ("n1", 7, 1)
    tracker.on_reply(Reply(sequence=1, actions=(launch(A),)))
    second = tracker.beat()
    tracker.on_ended(ended(A))
    assert tracker.beat() is second, "what ended meanwhile waits"
    assert tracker.has_news
    tracker.on_reply(Reply(sequence=2))
    third = tracker.beat()
    assert third.sequence == 3
    assert [report.attempt for report in third.finished] == [A]
    assert third.running == ()


def test_a_late_reply_to_an_old_beat_does_nothing() -> None:
    tracker = Tracker("n1", 1)
    tracker.beat()
    tracker.on_reply(Reply(sequence=1))
    tracker.beat()
    assert tracker.on_reply(Reply(sequence=1, actions=(launch(A),))) == ()
    assert tracker.running == ()


def test_what_was_launched_runs_until_it_ends_and_ends_once() -> None:
    tracker = Tracker("n1", 1)
    tracker.beat()
    tracker.on_reply(Reply(sequence=1, actions=(launch(A), launch(B))))
    status = AttemptStatus(attempt=A, progress=0.5, phase="map", started_s=1.0)
    foreign = AttemptStatus(attempt="job_0009_m_000000_0", progress=0.5, phase="map")
    tracker.on_running([status, foreign], Usage(cpu_util=0.5))
    beat = tracker.beat()
    assert beat.running[0] == status
    assert [s.attempt for s in beat.running] == [A, B]
    assert beat.usage.cpu_util == 0.5
    tracker.on_reply(Reply(sequence=2))
    tracker.on_ended(ended(A))
    tracker.on_ended(ended(A))
    assert [r.attempt for r in tracker.beat().finished] == [A]
    assert tracker.running == (B,)


def test_reregister_is_heard_whatever_the_sequence() -> None:
    tracker = Tracker("n1", 1)
    tracker.beat()
    assert tracker.on_reply(Reply(sequence=99, actions=(Reregister(),))) == (Reregister(),)

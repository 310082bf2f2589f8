"""The heartbeat protocol: repeated and lost messages, restarts and dead nodes. No task is committed twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedbed.cluster.messages import (
    AttemptReport,
    AttemptStatus,
    ForgetJob,
    Heartbeat,
    KillAttempt,
    Launch,
    Reregister,
)
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.rows import Discard, NodeLost
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import Tape, World, job, node


def core_with_a_map(maps: int = 1) -> tuple[Core, Tape]:
    """Return a core with one node and one job of `maps` maps, and the tape that records the core's rows."""
    tape = Tape()
    core = Core(CoreConfig(), build_policy("fifo"), tape)
    core.register(0, node("n1"), 1)
    core.submit(0, job("job_0001", maps))
    return core, tape


def heartbeat(sequence: int, *running: str, incarnation: int = 1) -> Heartbeat:
    """Return a heartbeat of n1 that reports the attempts `running`."""
    statuses = tuple(AttemptStatus(attempt=name, progress=0.1, phase="map") for name in running)
    return Heartbeat(node="n1", incarnation=incarnation, sequence=sequence, running=statuses)


def test_a_repeat_gets_the_same_reply_again():
    """A repeated heartbeat receives the stored reply without a new launch.

    An older heartbeat that arrives late receives the latest reply.
    """
    core, tape = core_with_a_map(2)
    first = core.heartbeat(1, heartbeat(0))
    assert [type(action) for action in first.actions] == [Launch]
    assert core.heartbeat(2, heartbeat(0)) is first
    second = core.heartbeat(3, heartbeat(1, "job_0001_m_000000_0"))
    assert core.heartbeat(4, heartbeat(0)) is second
    assert len(tape.decisions) == 1


def test_unknown_nodes_and_other_lives_are_told_to_register():
    """Unknown nodes must register. So must nodes whose heartbeats have an older or newer incarnation."""
    core, _ = core_with_a_map()
    strange = core.heartbeat(1, Heartbeat(node="n9", incarnation=1, sequence=4))
    assert strange.actions == (Reregister(),) and strange.sequence == 4
    assert core.heartbeat(1, heartbeat(0, incarnation=0)).actions == (Reregister(),)
    assert core.heartbeat(1, heartbeat(0, incarnation=2)).actions == (Reregister(),)


def test_a_launch_that_got_lost_runs_again():
    """The reply to heartbeat 0 with the launch is lost.

    Heartbeat 1 may have been sent before the reply arrived, so the map is launched again only after heartbeat
    2.
    """
    core, tape = core_with_a_map()
    core.heartbeat(1, heartbeat(0))
    assert core.heartbeat(2, heartbeat(1)).actions == ()
    [again] = core.heartbeat(3, heartbeat(2)).actions
    assert isinstance(again, Launch) and again.attempt == "job_0001_m_000000_1"
    assert [(row.attempt, row.state) for row in tape.attempts] == [("job_0001_m_000000_0", "lost")]
    core.check_tables()


def test_a_map_that_ends_after_its_job_was_forgotten_leaves_no_output():
    """After a job was killed, one of its maps still succeeds and another vanishes without a report.

    Both may have left outputs, so the node is told again to delete those of the job.
    """
    core = Core(CoreConfig(), build_policy("fifo"), Tape())
    core.register(0, node("n1", maps=3), 1)
    core.submit(0, job("job_0001", 3, reduces=1))
    actions = core.heartbeat(1, heartbeat(0)).actions
    first, second, third = [action.attempt for action in actions if isinstance(action, Launch)]
    core.kill_job(2, "job_0001", "not wanted")
    told = core.heartbeat(3, heartbeat(1, first, second, third)).actions
    forget = ForgetJob(job="job_0001")
    assert told.count(forget) == 1
    killed = replace(heartbeat(2, second, third), finished=(AttemptReport(first, "killed", 1.0, 4.0),))
    assert forget not in core.heartbeat(4, killed).actions  # it has left nothing
    succeeded = replace(heartbeat(3, third), finished=(AttemptReport(second, "succeeded", 1.0, 5.0),))
    assert core.heartbeat(5, succeeded).actions.count(forget) == 1
    assert core.heartbeat(6, heartbeat(4)).actions == (forget,)
    assert core.heartbeat(7, heartbeat(5)).actions == () and core.all_ended()


def test_an_attempt_that_the_core_does_not_know_is_killed():
    """Each reply to a heartbeat that lists an unknown attempt contains a kill of the attempt."""
    core, _ = core_with_a_map()
    replies = [core.heartbeat(1 + n, heartbeat(n, "job_0007_m_000000_0")) for n in range(2)]
    for reply in replies:
        assert KillAttempt(attempt="job_0007_m_000000_0", reason="unknown to the JobTracker") in reply.actions


def test_a_kill_is_said_again_until_it_is_done():
    """The kill of an attempt is repeated while heartbeats list the attempt.

    Then the attempt is recorded as killed.
    """
    core, tape = core_with_a_map()
    core.heartbeat(1, heartbeat(0))
    core.kill_job(2, "job_0001", "not wanted")
    name = "job_0001_m_000000_0"
    first, second, third = (core.heartbeat(2 + n, heartbeat(n, name)) for n in (1, 2, 3))
    kill = KillAttempt(attempt=name, reason="job killed")
    assert first.actions.count(kill) == 1
    assert second.actions == third.actions == (kill,)
    core.heartbeat(6, heartbeat(4))
    assert [row.state for row in tape.attempts] == ["killed"]
    assert core.all_ended()


@pytest.mark.parametrize("way", ["request", "reply"])
@pytest.mark.parametrize("number", range(25))
def test_any_single_lost_message_changes_no_outcome(way: str, number: int):
    """A message of n1, the request or reply with the given number, is lost.

    The same tasks are committed and none is launched twice.
    """
    world = World(build_policy("fifo"), [node("n1", maps=2), node("n2")])
    world.loses = lambda name, count: way if name == "n1" and count == number else ""
    world.submit(job("job_0001", 7, reduces=2)).submit(job("job_0002", 2, submit_s=3)).run()
    assert set(world.ended_jobs().values()) == {"succeeded"}
    assert sorted(world.outputs.values()) == [
        "job_0001_r_000000_0",
        "job_0001_r_000001_0",
        "job_0002_m_000000_0",
        "job_0002_m_000001_0",
    ]
    assert world.ends("succeeded") == world.ends()
    assert len(world.launched) == len(set(world.launched)) == 11


def test_finished_maps_of_a_silent_node_run_again_while_a_reduce_needs_them():
    """Node n2 crashes at 25 s after two maps.

    It is declared lost after 5 s without heartbeats, and n1 runs both maps again.
    """
    world = World(build_policy("fifo"), [node("n1", reduces=1), node("n2", reduces=0)])
    world.submit(job("job_0001", 8, reduces=1)).at(25, lambda: world.crash("n2")).run()
    lost = [row for row in world.tape.attempts if row.state == "lost"]
    assert [(row.node, row.reason) for row in lost] == [("n2", "tracker silent")]
    assert 30 <= lost[0].end <= 31
    assert NodeLost("n2") in world.effects
    done_by_n2 = [row.task for row in world.tape.attempts if row.node == "n2" and row.state == "succeeded"]
    done_by_n1 = [row.task for row in world.tape.attempts if row.node == "n1" and row.state == "succeeded"]
    assert len(done_by_n2) == 2 and set(done_by_n2) < set(done_by_n1)
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_finished_maps_are_let_be_once_all_reduces_are_committed():
    """Node n2 is lost after the first job has ended, while a second job runs.

    The maps of the first job are not repeated.
    """
    world = World(build_policy("fifo"), [node("n1"), node("n2")])
    world.submit(job("job_0001", 2, reduces=1)).submit(job("job_0002", 6))
    world.at(35, lambda: world.core.node_lost(world.now_s, "n2")).run()
    assert [name for name in world.ends("succeeded") if name.startswith("job_0001_m")] == [
        "job_0001_m_000000_0",
        "job_0001_m_000001_0",
    ]


def test_lost_and_killed_attempts_are_no_failures():
    """Node n1 is declared lost five times while it runs the same map, and registers again each time.

    The job succeeds.
    """
    world = World(build_policy("fifo"), [node("n1")]).submit(job("job_0001", 1))
    for time_s in range(3, 18, 3):
        world.at(time_s, lambda: world.core.node_lost(world.now_s, "n1"))
    world.run()
    assert len(world.ends("lost")) == 5
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_a_restarted_node_loses_its_old_life():
    """When n1 restarts at 5 s, its running map is lost immediately, not only after the time limit for silent
    nodes.
    """
    world = World(build_policy("fifo"), [node("n1")]).submit(job("job_0001", 1))
    world.at(5, lambda: world.restart("n1")).run()
    [lost] = [row for row in world.tape.attempts if row.state == "lost"]
    assert (lost.end, lost.reason) == (5.0, "node restarted")
    assert NodeLost("n1") not in world.effects


def test_registering_again_with_the_same_or_an_older_life_changes_nothing():
    """A repeated registration and one with an older incarnation are ignored."""
    core, tape = core_with_a_map()
    core.heartbeat(1, heartbeat(0))
    core.register(2, node("n1"), 1)
    core.register(2, node("n1"), 0)
    core.check_tables()
    assert core.status()["nodes"][0]["running"] == ["job_0001_m_000000_0"] and not tape.attempts


def test_a_late_success_of_a_lost_attempt_is_discarded_but_never_the_winner():
    """A lost attempt of a map-only job reports success later, and its output is discarded.

    A repeated report of the attempt that succeeded changes nothing.
    """
    core, _ = core_with_a_map()
    core.heartbeat(1, heartbeat(0))
    core.heartbeat(2, heartbeat(1))
    core.heartbeat(3, heartbeat(2))  # attempt 0 lost, attempt 1 launched
    core.take_effects()
    reports = [_report("job_0001_m_000000_0"), _report("job_0001_m_000000_1")]
    core.heartbeat(4, Heartbeat(node="n1", incarnation=1, sequence=3, finished=tuple(reports)))
    core.heartbeat(5, Heartbeat(node="n1", incarnation=1, sequence=4, finished=tuple(reports[1:])))
    discards = [effect for effect in core.take_effects() if isinstance(effect, Discard)]
    assert discards == [Discard("job_0001", "job_0001_m_000000_0")]


def _report(attempt: str) -> AttemptReport:
    return AttemptReport(attempt=attempt, state="succeeded", start_s=1.0, end_s=2.0)

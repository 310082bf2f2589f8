"""The scheduler core: jobs, failures of tasks, commits, slow-start of reduces, and proposals that are
rejected.
"""

from __future__ import annotations

import json

import pytest

from schedbed.cluster.messages import AttemptReport, FetchFailure, Heartbeat, Launch, MapOutputs
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.rows import Discard, JobEnded
from schedbed.scheduler.hooks import Kill, Limits, Proposal
from schedbed.scheduler.policy import Policy, PolicyError
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind
from tests.harness.world import Tape, World, job, node


def fifo() -> Policy:
    """Return the policy FIFO with its default parameters."""
    return build_policy("fifo")


def test_two_jobs_run_one_after_the_other():
    """Node n1 has one map slot, so the maps of the older job run first.

    A heartbeat at the end of a map launches the next one immediately.
    """
    world = World(fifo(), [node("n1")])
    world.submit(job("job_0001", 2)).submit(job("job_0002", 1, submit_s=1)).run()
    assert world.launches() == [
        "0.01 job_0001_m_000000 n1 (no preferred node)",
        "10.01 job_0001_m_000001 n1 (no preferred node)",
        "20.01 job_0002_m_000000 n1 (no preferred node)",
    ]
    assert world.ended_jobs() == {"job_0001": "succeeded", "job_0002": "succeeded"}
    assert sorted(world.outputs) == ["job_0001_m_000000", "job_0001_m_000001", "job_0002_m_000000"]


def test_reduces_wait_for_slowstart():
    """The reduce starts when 5% of 40 maps, two, have ended. The first two maps end at 10 s on two slots."""
    world = World(fifo(), [node("n1", maps=2)]).submit(job("job_0001", 40, reduces=1))
    world.run()
    [reduce_launch] = [line for line in world.launches() if "_r_" in line]
    assert reduce_launch.startswith("10.01 ")
    assert world.outputs == {"job_0001_r_000000": "job_0001_r_000000_0"}
    assert world.tape.jobs[0].output_bytes == 10


@pytest.mark.parametrize(("slowstart", "first_reduce_s"), [(0.0, 0), (0.5, 20), (0.51, 30), (1.0, 40)])
def test_slowstart_table(slowstart: float, first_reduce_s: int):
    """A job of four maps of 10 s on one slot: the reduce starts at `first_reduce_s` if `slowstart` is the
    share of maps that must end before.
    """
    world = World(fifo(), [node("n1")], slowstart=slowstart).submit(job("job_0001", 4, reduces=1)).run()
    [launch] = [row for row in world.tape.decisions if row.kind == "reduce"]
    assert round(launch.t) == first_reduce_s


def test_a_task_that_fails_four_times_fails_its_job():
    """The second map fails four times.

    The job's end states the task and the reason, and the job's other map is killed.
    """
    world = World(fifo(), [node(f"n{i}") for i in range(1, 6)])
    world.durations["job_0001"] = 60_000
    world.failing = lambda attempt, _: "disk on fire" if "m_000001" in attempt else None
    world.submit(job("job_0001", 2)).submit(job("job_0002", 1)).run()
    assert world.ended_jobs() == {"job_0001": "failed", "job_0002": "succeeded"}
    ended = [effect for effect in world.effects if isinstance(effect, JobEnded)]
    assert JobEnded("job_0001", "failed", "job_0001_m_000001 failed 4 times; the last: disk on fire") in ended
    assert world.ends("failed") == [f"job_0001_m_000001_{number}" for number in range(4)]
    assert world.ends("killed") == ["job_0001_m_000000_0"]
    assert world.tape.attempts[-2].reason == "job failed" or world.tape.attempts[-1].reason == "job failed"
    assert all("job_0001" in tracker.forgotten for tracker in world.trackers.values() if tracker.forgotten)


def test_three_failures_and_a_success_is_a_success():
    """A job succeeds if three attempts of its map fail and the fourth succeeds."""
    world = World(fifo(), [node("n1"), node("n2")])
    world.failing = lambda attempt, _: None if attempt.endswith("_3") else "bad luck"
    world.submit(job("job_0001", 1)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert world.outputs == {"job_0001_m_000000": "job_0001_m_000000_3"}


def test_a_job_avoids_a_node_where_it_failed_three_times():
    """Every map fails on n1.

    After three failures the job's other maps run on n2, and the skips state the reason.
    """
    world = World(fifo(), [node("n1"), node("n2")])
    world.failing = lambda _, name: "n1 is broken" if name == "n1" else None
    world.submit(job("job_0001", 12)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert len(world.ends("failed")) == 3
    skips = {row.reason for row in world.tape.decisions if row.answer == "skip"}
    assert skips == {"failures on this node"}


def test_the_last_node_is_never_avoided():
    """Five maps fail once each on the only node with map slots. The job still runs there and succeeds."""
    world = World(fifo(), [node("n1"), node("n2", maps=0)])
    world.failing = lambda attempt, _: "bad luck" if attempt.endswith("_0") else None
    world.submit(job("job_0001", 5)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert len(world.ends("failed")) == 5


def test_a_failed_commit_counts_as_a_failure_and_runs_again():
    """The output of the reduce's first attempt is unreadable, so the attempt has failed.

    The second attempt is committed.
    """
    world = World(fifo(), [node("n1")])
    world.commit_fails = lambda attempt: attempt.endswith("_0")
    world.submit(job("job_0001", 1, reduces=1)).run()
    assert world.outputs == {"job_0001_r_000000": "job_0001_r_000000_1"}
    [failed] = [row for row in world.tape.attempts if row.state == "failed"]
    assert (failed.attempt, failed.reason) == ("job_0001_r_000000_0", "output unreadable")
    assert Discard("job_0001", "job_0001_r_000000_0") in world.effects


def test_commits_that_always_fail_fail_the_job():
    """A job fails when the outputs of four attempts of one task are unreadable."""
    world = World(fifo(), [node("n1")])
    world.commit_fails = lambda attempt: True
    world.submit(job("job_0001", 2)).run()
    assert world.ended_jobs() == {"job_0001": "failed"}
    assert "output unreadable" in world.core.status()["jobs"][0]["reason"]


def test_killing_a_job_ends_its_attempts_and_frees_their_slots():
    """When a job is killed at 5 s, its two running maps end as killed and the other job uses their slots."""
    world = World(fifo(), [node("n1", maps=2)]).submit(job("job_0001", 4, reduces=1))
    world.submit(job("job_0002", 1, submit_s=1))
    world.at(5, lambda: world.core.kill_job(world.now_s, "job_0001", "not wanted")).run()
    assert world.ended_jobs() == {"job_0001": "killed", "job_0002": "succeeded"}
    assert world.ends("killed") == ["job_0001_m_000000_0", "job_0001_m_000001_0"]
    assert world.launches()[-1].startswith("5.01 ")
    assert world.trackers["n1"].forgotten == ["job_0001"]


def test_a_job_killed_while_its_output_is_committed():
    """A job is killed before the commit of its output is confirmed.

    The late confirmation changes nothing, and the attempt is recorded as killed.
    """
    tape = Tape()
    core = Core(CoreConfig(), fifo(), tape)
    core.register(0, node("n1"), 1)
    core.submit(0, job("job_0001", 1))
    core.heartbeat(1, Heartbeat(node="n1", incarnation=1, sequence=0))
    core.heartbeat(2, _finished("job_0001_m_000000_0", 1))
    core.kill_job(3, "job_0001", "not wanted")
    core.committed(4, "job_0001_m_000000_0")
    core.check_tables()
    assert [(row.state, row.reason) for row in tape.attempts] == [("killed", "job killed")]
    assert core.all_ended()


def _finished(attempt: str, sequence: int, state: str = "succeeded") -> Heartbeat:
    report = AttemptReport(attempt=attempt, state=state, start_s=1.0, end_s=2.0)
    return Heartbeat(node="n1", incarnation=1, sequence=sequence, finished=(report,))


def test_a_job_without_tasks_succeeds_at_once():
    """A job with an empty input has no tasks and succeeds immediately."""
    core = Core(CoreConfig(), fifo(), tape := Tape())
    core.submit(1, job("job_0001", 0))
    assert [row.state for row in tape.jobs] == ["succeeded"]
    assert core.all_ended()


def test_a_job_with_reduces_but_no_maps_runs_them():
    """Two reduces of a job without maps run and are committed."""
    world = World(fifo(), [node("n1")]).submit(job("job_0001", 0, reduces=2)).run()
    assert sorted(world.outputs) == ["job_0001_r_000000", "job_0001_r_000001"]


@pytest.mark.parametrize(
    ("second", "message"),
    [("job_0001", "submitted before"), ("job_0002", "numbered from 0")],
)
def test_submissions_are_checked(second: str, message: str):
    """The core rejects a job id that was used before, and splits that are not numbered in order from 0."""
    core = Core(CoreConfig(), fifo(), Tape())
    core.submit(0, job("job_0001", 2))
    again = job(second, 2)
    object.__setattr__(again, "splits", again.splits[::-1])
    with pytest.raises(ValueError, match=message):
        core.submit(1, again)


def test_local_maps_come_first_then_the_racks():
    """Under greedy locality n1 starts the map whose block is on n1, then one from the same rack, then one
    from another rack.
    """
    nodes = [node("n1"), node("n2", rack="r0", maps=0), node("n3", rack="r1", maps=0)]
    world = World(fifo(), nodes).submit(job("job_0001", ["n3", "n2", "n1"])).run()
    assert [line.split(" ", 1)[1] for line in world.launches()] == [
        "job_0001_m_000002 n1 (node-local)",
        "job_0001_m_000001 n1 (rack-local)",
        "job_0001_m_000000 n1 (off-rack)",
    ]
    assert [row.locality for row in world.tape.attempts] == ["node", "rack", "off"]


def test_maps_follow_their_replicas():
    """A replica of the second map's block is copied to n1 before any map starts, so n1 starts the second map
    first.
    """
    nodes = [node("n1"), node("n2", maps=0), node("n3", maps=0, rack="r1")]
    world = World(fifo(), nodes).submit(job("job_0001", ["n2", "n3"]))
    world.at(0, lambda: world.core.replicas_changed(0, "job_0001_b1", ("n1", "n3"))).run()
    assert world.launches()[0].endswith("job_0001_m_000001 n1 (node-local)")


def test_a_job_that_comes_later_finds_the_replicas_where_they_are_by_then():
    """The job's splits name n2 and n3, but n1 receives a replica of the second block before the job is
    submitted.

    So n1 starts the second map first.
    """
    nodes = [node("n1"), node("n2", maps=0), node("n3", maps=0, rack="r1")]
    world = World(fifo(), nodes).submit(job("job_0001", ["n2", "n3"], submit_s=2.0))
    world.at(1, lambda: world.core.replicas_changed(1, "job_0001_b1", ("n1", "n3"))).run()
    assert world.launches()[0].endswith("job_0001_m_000001 n1 (node-local)")


def test_a_rack_that_becomes_known_later_counts():
    """Node n2, which has the map's block, registers after the job's submission.

    The map's launch on n1 is then rack-local.
    """
    world = World(fifo(), [node("n1")]).submit(job("job_0001", ["", "n2"]))
    world.durations["job_0001"] = 1000
    world.at(0.001, lambda: world.core.register(world.now_s, node("n2", maps=0), 1)).run(until_s=3)
    assert world.launches()[0].endswith("job_0001_m_000001 n1 (rack-local)")


def test_a_map_whose_output_cannot_be_fetched_runs_again():
    """After a reduce has reported twice that a map's output cannot be fetched, the map runs again."""
    world = World(fifo(), [node("n1"), node("n2")])
    world.unfetchable.add("job_0001_m_000001_0")
    world.submit(job("job_0001", 2, reduces=1)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert world.ends("succeeded").count("job_0001_m_000001_0") == 1
    assert "job_0001_m_000001_1" in world.ends("succeeded")


def test_fetch_failures_of_something_unknown_change_nothing():
    """Fetch failures are ignored if they name another job, a map that has not ended, or no valid attempt."""
    core = Core(CoreConfig(), fifo(), Tape())
    core.register(0, node("n1"), 1)
    core.submit(0, job("job_0001", 1, reduces=1))
    core.heartbeat(1, Heartbeat(node="n1", incarnation=1, sequence=0))
    names = ("job_0009_m_000000_0", "job_0001_m_000000_0", "x", "job_0001_m_zero_0", "")
    failures = tuple(FetchFailure(reduce_attempt="r", map_attempt=name) for name in names)
    core.heartbeat(2, Heartbeat(node="n1", incarnation=1, sequence=1, fetch_failures=failures * 2))
    reports = tuple(AttemptReport(attempt=name, state="succeeded", start_s=0, end_s=1) for name in names[2:])
    core.heartbeat(3, Heartbeat(node="n1", incarnation=1, sequence=2, finished=reports))
    core.committed(3, "x")
    core.check_tables()
    assert core.status()["jobs"][0]["maps_done"] == 0


def test_a_node_that_runs_a_reduce_later_gets_all_outputs_from_the_start():
    """Two reduces start at different times on different nodes. Each node is told of every map output."""
    told: dict[str, list[int]] = {"n1": [], "n2": []}
    core = Core(CoreConfig(slowstart=0.0), fifo(), Tape())
    core.register(0, node("n1", maps=2, reduces=1), 1)
    core.register(0, node("n2", maps=0, reduces=1), 1)
    core.submit(0, job("job_0001", 2, reduces=2))

    def heartbeat(name: str, sequence: int, ended: str = "") -> None:
        report = AttemptReport(attempt=ended, state="succeeded", start_s=0, end_s=1)
        reports = (report,) if ended else ()
        reply = core.heartbeat(
            sequence, Heartbeat(node=name, incarnation=1, sequence=sequence, finished=reports)
        )
        for action in reply.actions:
            if isinstance(action, MapOutputs):
                told[name] += [output.index for output in action.outputs]

    heartbeat("n1", 0)
    heartbeat("n1", 1, "job_0001_m_000001_0")
    assert told == {"n1": [1], "n2": []}
    heartbeat("n2", 2)
    assert told == {"n1": [1], "n2": [1]}


def test_status_is_json_with_what_the_display_needs():
    """The core's status in the middle of a job can be converted to JSON and contains maps, running attempts
    and decisions.
    """
    world = World(fifo(), [node("n1")]).submit(job("job_0001", 2, reduces=1)).run(until_s=12)
    status = json.loads(json.dumps(world.core.status()))
    assert (
        status["jobs"][0] | {"maps": 2, "maps_done": 1, "maps_running": 1, "state": "running"}
        == status["jobs"][0]
    )
    assert status["nodes"][0]["running"] == ["job_0001_m_000001_0", "job_0001_r_000000_0"]
    assert [row["answer"] for row in status["recent"]] == ["launch"] * 3


class Rogue:
    """A policy that breaks the rule of the core that the text `propose` selects."""

    limits = Limits(slots=True, memory=True, vcores=True)

    def __init__(self, propose: str) -> None:
        self.propose = propose

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return the invalid proposal that `propose` selects, or a map of the job."""
        running = view.jobs["job_0001"]
        match self.propose:
            case "wrong kind":
                first = running.any_map()
                return Proposal(first, "") if kind is TaskKind.REDUCE and first else None
            case "twice":
                attempts = list(running.attempts.values())
                first = attempts[0].task if attempts else running.any_map()
                return Proposal(first, "") if first else None
            case "not a task":
                return Proposal("job_0001_m_000000", "")  # type: ignore[arg-type]
        first = running.any_map() if kind is TaskKind.MAP else None
        return Proposal(first, "") if first else None


@pytest.mark.parametrize(
    ("propose", "changes", "message"),
    [
        ("wrong kind", {}, "a map was proposed where a reduce was asked for"),
        ("twice", {"maps": 2}, "is running, not unstarted"),
        ("not a task", {}, "is not a task of a running job"),
        ("big", {"memory": 5 * 2**30}, "bytes, 4294967296 are free"),
        ("wide", {"vcores": 3}, "needs 3 vcores, 2 are free"),
    ],
)
def test_a_policy_that_proposes_what_cannot_be_is_stopped(propose: str, changes: dict, message: str):
    """On a node with two map slots, two cores and 4 GiB, each invalid proposal raises an error with
    `message`.
    """
    maps = changes.pop("maps", 1)
    core = Core(CoreConfig(slowstart=0.0), Rogue(propose), Tape())
    core.register(0, node("n1", maps=2), 1)
    core.submit(0, job("job_0001", maps, reduces=1, **changes))
    with pytest.raises(PolicyError, match=message):
        core.heartbeat(1, Heartbeat(node="n1", incarnation=1, sequence=0))


def test_a_full_node_is_not_offered_to_a_policy_of_typed_slots():
    """A policy that limits tasks by slots is asked only once for a node with one map slot, although three
    maps wait.
    """
    policy = Rogue("anything")
    policy.limits = Limits(slots=True)
    core = Core(CoreConfig(), policy, Tape())
    core.register(0, node("n1"), 1)
    core.submit(0, job("job_0001", 3))
    assert len(core.heartbeat(1, Heartbeat(node="n1", incarnation=1, sequence=0)).actions) == 1
    core.check_tables()


class KillsTwice:
    """A policy that kills all running attempts on each tick, even those for which it has already requested a
    kill.
    """

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for any unstarted map if the node has a free map slot."""
        task = view.jobs["job_0001"].any_map() if kind is TaskKind.MAP else None
        return Proposal(task, "") if task and node.free_slots(kind) else None

    def preempt(self, view: View) -> list[Kill]:
        """Return a kill of each running attempt."""
        return [Kill(attempt, "why not") for attempt in view.jobs["job_0001"].attempts.values()]


def test_an_attempt_cannot_be_preempted_twice():
    """The first kill by pre-emption is recorded as a decision.

    A second kill of the same attempt raises an error.
    """
    tape = Tape()
    core = Core(CoreConfig(), KillsTwice(), tape)
    core.register(0, node("n1"), 1)
    core.submit(0, job("job_0001", 1))
    reply = core.heartbeat(1, Heartbeat(node="n1", incarnation=1, sequence=0))
    assert [type(action) for action in reply.actions] == [Launch]
    core.tick(2)
    assert (tape.decisions[-1].answer, tape.decisions[-1].reason) == ("kill", "why not")
    with pytest.raises(PolicyError, match="cannot be pre-empted"):
        core.tick(3)

"""A framework's steps of a live run, call by call: AMs' heartbeats, late asks, set-up tasks, and waits of attempts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedbed.cluster.messages import Heartbeat, Launch
from schedbed.scheduler.core.rows import JobEnded, NodeLost
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.framework import HADOOP1, NONE, SLURM, YARN, YARN_BARE, Framework
from schedbed.scheduler.live_framework import LiveFramework
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.sizes import TRUE_SIZES
from schedbed.tasks.specs import JobSpec, TaskKind
from tests.harness.world import GIB, Tape, job, node


class Live:
    """A driver with one node of two slots (or more nodes), a job of three maps, and the framework's steps."""

    def __init__(self, framework: Framework, *jobs: JobSpec, nodes: int = 1) -> None:
        config = framework.core_config(1.0, TRUE_SIZES)
        self.driver = Driver(
            config, lambda: build_policy("yarn-fifo" if framework.am_heartbeat_s else "fifo"), Tape()
        )
        self.steps = LiveFramework(self.driver, framework)
        for number in range(1, nodes + 1):
            self.driver.do(0.0, "register", node(f"n{number}", maps=2, memory_bytes=2 * GIB, cores=2), 1)
        self.driver.do(0.0, "plan", Plan(jobs=jobs or (job("a", 3, memory=GIB),), files={}))
        self._beats = 0

    def heartbeat(self, now_s: float, node: str = "n1") -> list[str]:
        """Return what the node's heartbeat starts."""
        self.steps.submit_due(now_s)
        self.steps.heartbeat(now_s, node)
        reply = self.driver.do(now_s, "heartbeat", Heartbeat(node=node, incarnation=1, sequence=self._beats))
        self._beats += 1
        for effect in self.driver.take_effects():
            self.steps.follow(now_s, effect)
        return [action.attempt for action in reply.actions if isinstance(action, Launch)]

    def wait_s(self, now_s: float, node: str = "n1", kind: TaskKind = TaskKind.MAP) -> float:
        return self.steps.wait_s(now_s, Launch("a_m_000000_0", "a", kind, 0), node)


def test_an_attempt_waits_for_the_next_heartbeat_of_its_master() -> None:
    """yarn-bare: registered at 0.0125 s, so the heartbeats are at 1.0125, 2.0125 and so on."""
    live = Live(YARN_BARE)
    assert len(live.heartbeat(0.5)) == 2
    assert live.wait_s(0.5) == pytest.approx(0.5125)
    assert live.wait_s(1.2) == pytest.approx(0.8125)


def test_asks_are_sent_one_heartbeat_late() -> None:
    """Three maps are asked for. Two are granted at 0.5; the AM's second call sends the number after its first."""
    live = Live(YARN_BARE)
    live.heartbeat(0.5)
    live.steps.advance(1.1)
    stage = live.driver.ledger.jobs["a"].maps
    assert (stage.unstarted, stage.excess) == (1, 0)
    live.steps.advance(2.1)
    assert stage.unstarted == 1
    assert Framework(am_heartbeat_s=1.0).refuses(live.driver.policy) is None


def test_a_master_is_granted_first_and_asks_when_it_has_registered() -> None:
    """yarn: the AM takes one of two slots and registers 3.9 s later; then a map has the other one."""
    live = Live(replace(YARN, am_memory_bytes=GIB))
    assert live.heartbeat(0.5) == []
    assert live.driver.ledger.jobs["a"].attempts
    live.steps.advance(4.3)
    assert live.heartbeat(4.4) == []
    live.steps.advance(5.5)
    [attempt] = live.heartbeat(5.6)
    assert attempt.startswith("a_m_")
    waits_s = live.wait_s(5.6)
    assert waits_s == pytest.approx(6.4 - 5.6 + YARN.localize_s + YARN.jvm_s)
    assert live.wait_s(6.0) < waits_s  # The job's files are on their way.


def test_tasks_inside_their_master_wait_for_nothing() -> None:
    """The AM has fetched the files before it runs the tasks, in its own JVM."""
    live = Live(replace(YARN, am_memory_bytes=GIB))
    live.driver.jobs["a"] = replace(live.driver.jobs["a"], uber=True)
    assert live.wait_s(5.6) == 0.0


def test_a_master_leaves_after_its_job() -> None:
    live = Live(replace(YARN, am_memory_bytes=GIB))
    live.heartbeat(0.5)
    live.driver.do(1.0, "kill_job", "a", "by a test")
    for effect in live.driver.take_effects():
        live.steps.follow(1.0, effect)
    held = live.driver.ledger.nodes["n1"]
    live.steps.advance(1.0 + YARN.cleanup_s + YARN.am_linger_s - 0.1)
    assert held.attempts
    live.steps.advance(1.0 + YARN.cleanup_s + YARN.am_linger_s + 0.1)
    assert not held.attempts


def test_after_a_restart_masters_of_open_jobs_begin_again() -> None:
    live = Live(YARN_BARE)
    live.heartbeat(0.5)
    live.steps = again = LiveFramework(live.driver, YARN_BARE)
    again.continue_jobs(7.0)
    assert live.wait_s(7.2) == pytest.approx(0.8)
    again.follow(8.0, JobEnded("a", "succeeded", ""))
    live.driver.do(8.0, "kill_job", "a", "by a test")
    again.advance(9.0)


def test_a_policy_that_decides_by_slots_is_refused() -> None:
    why = YARN.refuses(build_policy("ras"))
    assert why is not None and "decides by slots" in why
    assert YARN_BARE.refuses(build_policy("ras")) is None
    assert YARN.refuses(build_policy("yarn-capacity")) is None


def test_a_set_up_task_comes_before_the_job() -> None:
    """hadoop1: initialized at 0.5 s, files after 1.7 s, set-up for 1.6 s; the node reports it at 4 s."""
    live = Live(HADOOP1)
    assert [live.heartbeat(now_s) for now_s in (0.0, 0.6, 3.8)] == [[], [], []]
    assert "a" not in live.driver.ledger.jobs and not live.driver.all_ended()
    assert live.heartbeat(4.0) == ["a_m_000000_0"]  # one map a heartbeat


def test_attempts_wait_for_files_and_the_jvm() -> None:
    live = Live(HADOOP1, nodes=2)
    for now_s in (0.6, 4.0):
        live.heartbeat(now_s)
    assert live.wait_s(4.0) == pytest.approx(HADOOP1.jvm_s)  # The set-up task has fetched the files.
    assert live.wait_s(5.0, "n2") == pytest.approx(HADOOP1.localize_s + HADOOP1.jvm_s)
    assert live.wait_s(6.0, "n2") == pytest.approx(HADOOP1.localize_s + HADOOP1.jvm_s - 1.0)
    reduce_s = live.wait_s(9.0, "n2", TaskKind.REDUCE)
    assert reduce_s == pytest.approx(HADOOP1.jvm_s + HADOOP1.fetch_poll_s)


def test_slurm_hands_over_a_node_once() -> None:
    live = Live(SLURM)
    assert len(live.heartbeat(0.5)) == 2
    assert [live.wait_s(now_s) for now_s in (0.5, 0.6, 2.0)] == pytest.approx([0.4, 0.3, 0.0])


def test_the_set_up_of_a_lost_node_starts_again_elsewhere() -> None:
    live = Live(HADOOP1, nodes=2)
    live.heartbeat(0.6)
    live.steps.follow(2.0, NodeLost("n1"))
    assert live.heartbeat(4.0, "n2") == []
    assert live.heartbeat(7.4, "n2") == ["a_m_000000_0"]


def test_a_job_that_is_killed_in_its_set_up_is_not_submitted_again() -> None:
    live = Live(HADOOP1)
    live.heartbeat(0.6)
    live.driver.kill(1.0, ["a"], "by a test")
    for effect in live.driver.take_effects():
        live.steps.follow(1.0, effect)
    assert live.heartbeat(5.0) == [] and live.driver.all_ended()


def test_with_out_of_band_heartbeats_a_set_up_is_known_at_its_end() -> None:
    live = Live(replace(NONE, name="mine", setup_s=2.0))
    live.heartbeat(0.5)
    live.steps.advance(2.4)
    assert "a" not in live.driver.ledger.jobs
    live.steps.advance(2.6)
    assert "a" in live.driver.ledger.jobs

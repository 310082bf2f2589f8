"""ApplicationMasters of a live run, call by call: their heartbeats, late asks, and the waits of attempts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedbed.cluster.messages import Heartbeat, Launch
from schedbed.scheduler.core.rows import JobEnded
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.framework import YARN, YARN_BARE, Framework
from schedbed.scheduler.live_masters import LiveMasters
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import GIB, Tape, job, node


class Live:
    """A driver with one node of two slots, and its AMs."""

    def __init__(self, framework: Framework) -> None:
        config = CoreConfig(heartbeat_s=1, master=framework.master, slowstart=framework.slowstart)
        self.driver = Driver(config, lambda: build_policy("yarn-fifo"), Tape())
        self.masters = LiveMasters(self.driver, framework)
        self.driver.do(0.0, "register", node("n1", maps=2, memory_bytes=2 * GIB, cores=2), 1)
        spec = job("a", 3, memory=GIB)
        self.driver.do(0.0, "plan", Plan(jobs=(spec,), files={}))
        self.driver.submit_due(0.0)
        self.masters.submitted(0.0, spec)
        self._beats = 0

    def heartbeat(self, now_s: float) -> list[str]:
        """Return what the node's heartbeat starts."""
        reply = self.driver.do(now_s, "heartbeat", Heartbeat(node="n1", incarnation=1, sequence=self._beats))
        self._beats += 1
        for effect in self.driver.take_effects():
            self.masters.follow(now_s, effect)
        return [action.attempt for action in reply.actions if isinstance(action, Launch)]


def test_an_attempt_waits_for_the_next_heartbeat_of_its_master() -> None:
    """yarn-bare: registered at 0.0125 s, so the heartbeats are at 1.0125, 2.0125 and so on."""
    live = Live(YARN_BARE)
    assert len(live.heartbeat(0.5)) == 2
    assert live.masters.wait_s(0.5, "a", "n1") == pytest.approx(0.5125)
    assert live.masters.wait_s(1.2, "a", "n1") == pytest.approx(0.8125)


def test_asks_are_sent_one_heartbeat_late() -> None:
    """Three maps are asked for. Two are granted at 0.5; the AM's second call sends the number after its first."""
    live = Live(YARN_BARE)
    live.heartbeat(0.5)
    live.masters.allocate(1.1)
    stage = live.driver.ledger.jobs["a"].maps
    assert (stage.unstarted, stage.excess) == (1, 0)
    live.masters.allocate(2.1)
    assert stage.unstarted == 1
    assert Framework(am_heartbeat_s=1.0).refuses(live.driver.policy) is None


def test_a_master_is_granted_first_and_asks_when_it_has_registered() -> None:
    """yarn: the AM takes one of two slots and registers 3.9 s later; then a map has the other one."""
    live = Live(replace(YARN, am_memory_bytes=GIB))
    assert live.heartbeat(0.5) == []
    assert live.driver.ledger.jobs["a"].attempts
    live.masters.allocate(4.3)
    assert live.heartbeat(4.4) == []
    live.masters.allocate(5.5)
    [attempt] = live.heartbeat(5.6)
    assert attempt.startswith("a_m_")
    waits_s = live.masters.wait_s(5.6, "a", "n1")
    assert waits_s == pytest.approx(6.4 - 5.6 + YARN.localize_s + YARN.jvm_s)
    assert live.masters.wait_s(6.0, "a", "n1") < waits_s  # The job's files are on their way.


def test_tasks_inside_their_master_wait_for_nothing() -> None:
    """The AM has fetched the files before it runs the tasks, in its own JVM."""
    live = Live(replace(YARN, am_memory_bytes=GIB))
    live.driver.jobs["a"] = replace(live.driver.jobs["a"], uber=True)
    assert live.masters.wait_s(5.6, "a", "n1") == 0.0


def test_a_master_leaves_after_its_job() -> None:
    live = Live(replace(YARN, am_memory_bytes=GIB))
    live.heartbeat(0.5)
    live.driver.do(1.0, "kill_job", "a", "by a test")
    for effect in live.driver.take_effects():
        live.masters.follow(1.0, effect)
    held = live.driver.ledger.nodes["n1"]
    live.masters.allocate(1.0 + YARN.cleanup_s + YARN.am_linger_s - 0.1)
    assert held.attempts
    live.masters.allocate(1.0 + YARN.cleanup_s + YARN.am_linger_s + 0.1)
    assert not held.attempts


def test_after_a_restart_masters_of_open_jobs_begin_again() -> None:
    live = Live(YARN_BARE)
    again = LiveMasters(live.driver, YARN_BARE)
    again.continue_jobs(7.0)
    assert again.wait_s(7.2, "a", "n1") == pytest.approx(0.8)
    again.follow(8.0, JobEnded("a", "succeeded", ""))
    live.driver.do(8.0, "kill_job", "a", "by a test")
    again.allocate(9.0)


def test_a_policy_that_decides_by_slots_is_refused() -> None:
    why = YARN.refuses(build_policy("ras"))
    assert why is not None and "decides by slots" in why
    assert YARN_BARE.refuses(build_policy("ras")) is None
    assert YARN.refuses(build_policy("yarn-capacity")) is None

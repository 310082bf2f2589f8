"""Delay scheduling step by step: Algorithm 1 of xu2015 without splits (P = 0), and its two waiting times."""

from __future__ import annotations

import pytest

from schedbed.cluster.messages import AttemptStatus, Heartbeat, Launch
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import Tape, World, job, node

LOCAL = "waits for a local node, up to 5.0 s"


class Steps:
    """A core to which the test sends heartbeats of idle nodes.

    Node n3 is in rack r1, the others are in rack r0. The blocks of the only job are on `hosts`.
    """

    def __init__(self, hosts: list[str], policy: str = "delay", slots: int = 9) -> None:
        self.tape = Tape()
        self.core = Core(CoreConfig(expiry_s=1000), build_policy(policy), self.tape)
        for name, rack in (("n1", "r0"), ("n2", "r0"), ("n3", "r1"), ("n4", "r0")):
            self.core.register(0, node(name, rack=rack, maps=slots), 1)
        self.core.submit(0, job("job_0001", hosts))
        self.sequences: dict[str, int] = dict.fromkeys(["n1", "n2", "n3", "n4"], 0)

    def heartbeat(self, now_s: float, name: str) -> list[str]:
        """Send a heartbeat of the node `name`. Return the reasons of the launches and skips in the reply."""
        before = len(self.tape.decisions)
        sequence = self.sequences[name]
        self.sequences[name] += 1
        # Everything launched keeps running; the core is told so by listing it.
        running = self.core.status()["nodes"][int(name[1]) - 1]["running"]
        statuses = tuple(AttemptStatus(attempt=a, progress=0, phase="map") for a in running)
        reply = self.core.heartbeat(
            now_s, Heartbeat(node=name, incarnation=1, sequence=sequence, running=statuses)
        )
        launches = [action for action in reply.actions if isinstance(action, Launch)]
        rows = self.tape.decisions[before:]
        assert len(launches) == sum(row.answer in ("launch", "split") for row in rows)
        return [row.reason for row in rows]


def test_wait_grows_only_while_skipped():
    """Lines 2 and 3 of Algorithm 1: at each heartbeat of any node, the time since the job's last skip is
    added to its wait.
    """
    steps = Steps(["n9"] * 3)
    assert steps.heartbeat(0, "n3") == [LOCAL]
    assert steps.heartbeat(1, "n3") == []  # It has said so.
    assert steps.heartbeat(4.9, "n2") == []
    assert steps.heartbeat(5, "n3") == ["waits for a rack-local node, up to 5.0 s"]
    assert steps.heartbeat(9.9, "n3") == []
    # T1 + T2: anywhere; and level 2 lets the others follow at once.
    assert steps.heartbeat(10, "n3") == ["off-rack after 10.0 s"] + ["off-rack, waited before"] * 2


def test_rack_local_after_t1_then_at_once():
    """After the wait T1 (level 1) rack-local maps start immediately.

    Off-rack maps need the additional wait T2.
    """
    steps = Steps(["n1", "n1", "n1"], "delay:node_wait=5s,rack_wait=3s")
    assert steps.heartbeat(0, "n2") == [LOCAL]
    assert steps.heartbeat(5, "n2") == ["rack-local after 5.0 s"] + ["rack-local, waited before"] * 2


def test_from_level_1_anywhere_after_t2():
    """After a rack-local launch only the wait T2 remains for the job's other map, whose block is on no known
    node.
    """
    steps = Steps(["n1", "n9"], "delay:node_wait=5s,rack_wait=3s")
    steps.heartbeat(0, "n2")
    assert steps.heartbeat(5, "n2") == ["rack-local after 5.0 s", "waits for a rack-local node, up to 3.0 s"]
    assert steps.heartbeat(7.9, "n3") == ["waits for a rack-local node, up to 3.0 s"]
    assert steps.heartbeat(8, "n3") == ["off-rack after 3.0 s"]


def test_a_local_launch_resets_wait_and_level():
    """A local map starts after the job has waited 4 s.

    The wait for the next non-local map begins at 0 again.
    """
    steps = Steps(["n1", "n9"])
    steps.heartbeat(0, "n2")
    steps.heartbeat(4, "n2")
    assert steps.heartbeat(4.5, "n1") == ["node-local", LOCAL]
    assert steps.heartbeat(9.4, "n3") == [LOCAL]
    assert steps.heartbeat(9.5, "n3") == ["waits for a rack-local node, up to 5.0 s"]


def test_a_local_launch_ends_the_licence_for_rack_local_ones():
    """After its wait the job starts a rack-local map on n2.

    A local launch on n1 resets the level, so the job waits again on n4.
    """
    steps = Steps(["n1"] * 3, slots=1)
    steps.heartbeat(0, "n2")
    assert steps.heartbeat(5, "n2") == ["rack-local after 5.0 s"]
    assert steps.heartbeat(6, "n1") == ["node-local"]
    assert steps.heartbeat(7, "n4") == [LOCAL]


def test_maps_without_input_never_wait():
    """Maps without input, such as those of Pi, start on any node immediately."""
    steps = Steps(["", ""])
    assert steps.heartbeat(0, "n3") == ["no preferred node"] * 2


def test_zero_waits_are_greedy():
    """With both waits 0 every map starts immediately, and the reason states the map's locality."""
    steps = Steps(["n1", "n9"], "delay:node_wait=0,rack_wait=0")
    assert steps.heartbeat(0, "n2") == ["rack-local, waited before", "off-rack, waited before"]


def test_a_skipped_job_lets_the_next_one_have_the_slot():
    """Ana's block is on n9 and bo's on n3.

    The slot of n3 goes to bo first, although ana's job is first in order.
    """
    world = World(build_policy("delay"), [node("n3")])
    world.submit(job("a", ["n9"])).submit(job("b", ["n3"], user="bo")).run()
    assert [line.split(" ", 1)[1] for line in world.launches()] == [
        "b_m_000000 n3 (node-local)",
        "a_m_000000 n3 (off-rack after 10.0 s)",
    ]


@pytest.mark.parametrize(("policy", "local"), [("fair", 1), ("delay", 6)])
def test_delay_gains_locality(policy: str, local: int):
    """Six maps of 10 s have their blocks on n1, and each node has one slot.

    Fair spreads the maps over the nodes, whereas delay scheduling with a wait of 100 s runs all on n1.
    """
    spec = policy if policy == "fair" else "delay:node_wait=100s"
    world = World(build_policy(spec), [node(f"n{i}") for i in range(1, 7)])
    world.submit(job("job_0001", ["n1"] * 6)).run()
    assert [row.locality for row in world.tape.attempts].count("node") == local

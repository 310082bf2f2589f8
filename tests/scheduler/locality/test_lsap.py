"""LSAP and LSAP-Fair by hand: the map that each idle slot receives, and the maps that are held for other
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.models.staging_costs import FEW, cost_matrix, solve, staging_s
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import Tape, job, node

NETWORK_BPS = 10.0
"""A map of the harness reads 100 bytes: 10 s within a rack, 20 s from another."""


class Cluster:
    """A core with nodes whose network has 10 bytes/s.

    The test sends their heartbeats, and launched attempts run until the test ends them.
    """

    def __init__(
        self, policy: Any, nodes: Mapping[str, tuple[str, int]], *jobs: Any, expiry_s: float = 1000
    ) -> None:
        self.tape = Tape()
        self.core = Core(CoreConfig(expiry_s=expiry_s), build_policy(policy), self.tape)
        for name, (rack, maps) in nodes.items():
            self.core.register(0, replace(node(name, rack=rack, maps=maps), network_bps=NETWORK_BPS), 1)
        for spec in jobs:
            self.core.submit(0, spec)
        self._sequences = dict.fromkeys(nodes, 0)
        self._running: dict[str, list[str]] = {name: [] for name in nodes}

    def heartbeat(self, name: str, now_s: float = 1.0, ended: AttemptReport | None = None) -> list[str]:
        """Send a heartbeat of the node `name` that reports `ended`, if any.

        Return the tasks that the reply launches.
        """
        if ended is not None:
            self._running[name].remove(ended.attempt)
        statuses = tuple(AttemptStatus(attempt=a, progress=0, phase="map") for a in self._running[name])
        heartbeat = Heartbeat(
            node=name,
            incarnation=1,
            sequence=self._sequences[name],
            running=statuses,
            finished=() if ended is None else (ended,),
        )
        self._sequences[name] += 1
        launched = [
            each.attempt for each in self.core.heartbeat(now_s, heartbeat).actions if isinstance(each, Launch)
        ]
        self._running[name] += launched
        return ["_".join(attempt.split("_")[:-1]) for attempt in launched]

    def reasons(self) -> list[str]:
        """Return the reasons of all decisions so far."""
        return [row.reason for row in self.tape.decisions]


THREE = {"n1": ("r0", 1), "n2": ("r0", 1), "n3": ("r1", 1)}


def test_the_matrix_of_three_slots_and_three_maps_by_hand():
    """LSAP finds the only assignment of three maps to three slots without staging (copying of input).

    The blocks of m0 are on n1 and n2, that of m1 on n1, that of m2 on n3. Seconds of staging:

            m0   m1   m2
        n1   0    0   20
        n2   0   10   20
        n3  20   20    0

    LSAP starts m1 on n1, m0 on n2 and m2 on n3. Greedy locality starts m0, the first local map, on n1, and
    then m1 on n2 with 10 s of staging.
    """
    spec = job("job_0001", ["n1 n2", "n1", "n3"])
    lsap, greedy = Cluster("lsap", THREE, spec), Cluster("fifo", THREE, spec)
    assert [lsap.heartbeat(name) for name in THREE] == [
        ["job_0001_m_000001"], ["job_0001_m_000000"], ["job_0001_m_000002"]
    ]  # fmt: skip
    assert [greedy.heartbeat(name)[0] for name in THREE][:2] == ["job_0001_m_000000", "job_0001_m_000001"]
    assert lsap.reasons()[0] == (
        "node-local, staged in 0.00 s; the least for 3 idle slots and 3 maps: 0.00 s in all"
    )


def test_the_nearest_maps_are_taken_when_there_are_more_maps_than_slots():
    """Of four maps for three slots, m0 waits, because its block is on n9 and every node would need 20 s to
    read it.
    """
    cluster = Cluster("lsap", THREE, job("job_0001", ["n9", "n1", "n2", "n3"]))
    assert [cluster.heartbeat(name) for name in THREE] == [
        ["job_0001_m_000001"], ["job_0001_m_000002"], ["job_0001_m_000003"]
    ]  # fmt: skip


def test_a_map_is_held_for_the_node_where_it_is_cheap_until_that_node_is_silent():
    """The only map is held for n2, which sends no heartbeats.

    With 3 nodes the assignment expires after 2 x 3 + 2 heartbeats, and n1 starts the map.
    """
    cluster = Cluster("lsap", THREE, job("job_0001", ["n2"]))
    starts = [cluster.heartbeat("n1") for _ in range(20)]
    first = next(number for number, started in enumerate(starts) if started)
    assert starts[first] == ["job_0001_m_000000"] and first == 9
    assert "its map is held for n2, where staging is cheaper" in cluster.reasons()


def test_a_lost_node_gives_back_what_was_held_for_it():
    cluster = Cluster("lsap", THREE, job("job_0001", ["n2"]))
    assert cluster.heartbeat("n1") == []
    cluster.core.node_lost(1.5, "n2")
    assert any(cluster.heartbeat("n1", 2.0) for _ in range(9))


def test_maps_that_cannot_start_are_not_held():
    """A map of 4 GiB fits on n1 only while n1 is empty.

    A small map runs there, so the large one is not held for n1 and starts on n2.
    """
    small, big = job("job_0001", ["n1"], memory=2**30), job("job_0002", ["n1"], memory=4 * 2**30)
    cluster = Cluster(
        "order=fifo,locality=lsap,admission=containers", {"n1": ("r0", 1), "n2": ("r0", 1)}, small, big
    )
    assert cluster.heartbeat("n1") == ["job_0001_m_000000"]
    assert [cluster.heartbeat("n2"), cluster.heartbeat("n1"), cluster.heartbeat("n2")].count(
        ["job_0002_m_000000"]
    ) == 1


@pytest.mark.parametrize(("fairness", "second"), [(0.4, "job_0001_m_000001"), (0.6, "job_0002_m_000000")])
def test_fairness_is_weighed_against_staging_by_hand(fairness: float, second: str):
    """A node with two slots and two users, whose fair share is one slot.

    Ana's blocks are on n1, bo's need 20 s. The candidates are a0, b0, a1, b1. Their staging times divided by
    20 s are 0, 1, 0, 1, and the slots above the user's share 0, 0, 1, 1. With the weight w of fairness the
    costs are 0, 1 - w, w, 1: a0 starts, and the second slot goes to b0 if 1 - w < w, else to a1.
    """
    ana = job("job_0001", ["n1"] * 3, user="ana")
    bo = job("job_0002", ["n9"] * 3, user="bo")
    cluster = Cluster({"lsap-fair": {"fairness": fairness}}, {"n1": ("r0", 2)}, ana, bo)
    assert sorted(cluster.heartbeat("n1")) == sorted(["job_0001_m_000000", second])


def test_among_equal_costs_the_first_maps_are_taken():
    import numpy as np

    assert solve(np.zeros((2, 4))) == [(0, 0), (1, 1)]
    assert solve(np.array([[3.0, 1.0, 1.0]])) == [(0, 1)]


def test_a_map_that_came_back_unnoticed_is_found_again():
    """A failed map becomes unstarted in the heartbeat in which the other map could start.

    It is found and launched again.
    """
    cluster = Cluster("lsap", {"n1": ("r0", 1)}, job("job_0001", ["n1", "n1"]))
    assert cluster.heartbeat("n1") == ["job_0001_m_000000"]
    failed = AttemptReport(attempt="job_0001_m_000000_0", state="failed", start_s=1.0, end_s=2.0, reason="x")
    assert cluster.heartbeat("n1", 2.0, ended=failed) == ["job_0001_m_000000"]
    done = AttemptReport(attempt="job_0001_m_000000_1", state="succeeded", start_s=2.0, end_s=3.0)
    assert cluster.heartbeat("n1", 3.0, ended=done) == ["job_0001_m_000001"]


def test_fairness_alone_never_takes_a_slot_that_is_refused():
    """With `fairness=1` staging times have no weight, but a map that the admission refuses is still not
    assigned.
    """
    spec = "order=fair,locality=lsap-fair:fairness=1,admission=containers"
    small, big = job("job_0001", ["n1"], memory=2**30), job("job_0002", ["n1"], user="bo", memory=4 * 2**30)
    cluster = Cluster(spec, {"n1": ("r0", 1), "n2": ("r0", 1)}, small, big)
    assert cluster.heartbeat("n1") == ["job_0001_m_000000"]
    assert [cluster.heartbeat(name) for name in ("n1", "n2")] == [[], ["job_0002_m_000000"]]


@pytest.mark.parametrize("count", [FEW, FEW + 3])
def test_each_entry_of_the_matrix_is_the_staging_time_of_its_slot_and_map(count):
    """Both ways to compute the matrix agree with `staging_s`, also for nodes with several slots.

    The last node has no network, and the last map no input.
    """
    nodes: list[Any] = [
        SimpleNamespace(
            node=f"n{number}",
            rack=f"r{number % 2}",
            spec=SimpleNamespace(network_bps=0.0 if number == count - 1 else NETWORK_BPS + number),
        )
        for number in range(count)
    ]
    places = [("n0", "n1"), ("n1",), ("n3",), ("elsewhere",), ()]
    tasks: list[Any] = [
        SimpleNamespace(
            hosts=hosts,
            racks=tuple(dict.fromkeys(each.rack for each in nodes if each.node in hosts)),
            split=SimpleNamespace(length=100 * (number + 1)),
        )
        for number, hosts in enumerate(places)
    ]
    slots = [each for number, each in enumerate(nodes) for _ in range(1 + number % 3)]
    found = cost_matrix(slots, tasks, 2.0)
    for row, slot in enumerate(slots):
        for column, task in enumerate(tasks):
            wanted_s = staging_s(task, slot, 2.0)
            assert found[row, column] == pytest.approx(wanted_s), (slot.node, column)

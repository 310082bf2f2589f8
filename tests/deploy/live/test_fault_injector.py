"""Tests that faults are injected and undone at their times, even if nodes are down meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedbed.cluster.conditions import by_nature, foreground_slowdowns
from schedbed.cluster.fault_plan import Row
from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.live.fault_injector import FaultInjector, injecting

NODES = ["n1", "n2", "n3"]
Done = tuple[float, str, str, dict[str, Any]]


class FakeFaultCalls:
    """Records the faults to inject and to undo. Nodes in `down` do not answer."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[Done] = []
        self.down: set[str] = set()
        self.running: dict[str, str] = {}
        self.replicas: list[tuple[str, str]] = []

    def on_node(self, node: str, kind: str, arguments: Mapping[str, Any]) -> str:
        if node in self.down:
            raise MasterGone(node)
        self.done.append((self.now_s, node, kind, dict(arguments)))
        return self.running.get(node, "") if kind == "kill_attempt" else ""

    def pick_replica(
        self, up: Sequence[str], target: str, nodes: Sequence[str], luck: float
    ) -> tuple[str, str] | None:
        assert target == ""
        found = [(b, node) for b, node in self.replicas if node in up and (not nodes or node in nodes)]
        return found[0] if found else None

    def kill_tracker(self, node: str) -> None:
        if node in self.down:
            raise MasterGone(node)
        self.done.append((self.now_s, node, "kill_tracker", {}))
        self.down.add(node)

    def kill_host(self, node: str) -> Sequence[str]:
        self.done.append((self.now_s, node, "kill_host", {}))
        return NODES[:2] if node in NODES[:2] else NODES[2:]

    def kill_master(self, name: str) -> None:
        self.done.append((self.now_s, name, "kill_master", {}))

    def hold(self, name: str, for_s: float) -> None:
        self.done.append((self.now_s, name, "hold", {"for_s": for_s}))


def inject(*faults: PlannedFault, times: Sequence[float]) -> tuple[list[Done], list[Row]]:
    """Advance the injection of the faults to each of `times`.

    Return the calls, as (time, node, kind, arguments), and the rows of the faults.
    """
    fault_calls = FakeFaultCalls()
    plan = FaultInjector(faults, NODES, fault_calls)
    rows: list[Row] = []
    for fault_calls.now_s in times:
        rows += plan.advance(fault_calls.now_s)
    assert not plan.more_to_come
    return fault_calls.done, rows


def test_what_nics_do_is_told_to_all_nodes_before_anything_happens_and_is_no_event() -> None:
    nic = {"cores": 1, "core_speed": 1.0, "memory_bytes": 1, "disk_bps": 1.0, "network_bps": 1.0}
    slots = {"map_slots": 1, "reduce_slots": 1, "rack": "r1"}
    late = NodeSpec(node="n2", latency_s=0.02, loss=0.1, **nic, **slots)
    fault_calls = FakeFaultCalls()
    fault = PlannedFault(at_s=5.0, kind="delay", nodes=("n2",), by_s=1.0, until_s=6.0)
    plan = FaultInjector(
        [fault], NODES, fault_calls, by_nature([replace(late, node="n1", latency_s=0.0, loss=0.0), late])
    )
    assert plan.advance(0.0) == []
    network = {"delays": {"n2": 0.02}, "losses": {"n2": 0.1}}
    assert [(node, told) for _, node, kind, told in fault_calls.done if kind == "network"] == [
        (node, network) for node in NODES
    ]
    (messages,) = [(node, told) for _, node, kind, told in fault_calls.done if kind == "messages"]
    assert messages[0] == "n2" and messages[1]["delay_s"] == 0.02 and messages[1]["lose_requests"] == 0.1
    assert [row[1] for row in plan.advance(5.0)] == ["delay"]
    assert fault_calls.done[-1][3]["delays"] == {"n2": 1.02}
    fault_calls.done.clear()
    plan.advance(6.0)
    assert fault_calls.done[-1][3] == network and not plan.more_to_come


def test_a_foreground_load_is_told_to_its_node_at_its_times_and_is_no_event() -> None:
    nic = {"cores": 1, "core_speed": 1.0, "memory_bytes": 1, "disk_bps": 1.0, "network_bps": 1.0}
    slots = {"map_slots": 1, "reduce_slots": 1, "rack": "r1"}
    shared = NodeSpec(node="n2", foreground=((0.0, 0.75), (10.0, 0.0), (20.0, 0.5)), **nic, **slots)
    fault_calls = FakeFaultCalls()
    slow = PlannedFault(at_s=20.0, kind="slow", nodes=("n2",), cpu=0.5, until_s=30.0)
    plan = FaultInjector(
        [slow], NODES, fault_calls, (), foreground_slowdowns([replace(shared, foreground=()), shared])
    )
    rows: list[Row] = []
    for fault_calls.now_s in (0.0, 5.0, 10.0, 20.0, 30.0):
        rows += plan.advance(fault_calls.now_s)
    told = [(now_s, node, rates["cpu"]) for now_s, node, kind, rates in fault_calls.done if kind == "rates"]
    assert told == [(0.0, "n2", 0.25), (10.0, "n2", 1.0), (20.0, "n2", 0.25), (30.0, "n2", 0.5)]
    assert [row[1] for row in rows] == ["slow"] and not plan.more_to_come


def test_a_killed_node_restarts_after_its_time() -> None:
    done, rows = inject(
        PlannedFault(at_s=1.0, kind="kill", nodes=("n2",), until_s=3.0), times=[0.5, 1.0, 2.5, 3.5]
    )
    assert done == [(1.0, "n2", "kill", {}), (3.5, "n2", "restart", {})]
    assert rows == [(1.0, "kill", "n2", 3.0)]


def test_a_fault_that_begins_late_lasts_as_long_as_it_was_to() -> None:
    fault = PlannedFault(at_s=1.0, kind="freeze", nodes=("n1",), until_s=1.5)
    done, rows = inject(fault, times=[9.0, 9.4, 9.6])
    assert done == [(9.0, "n1", "freeze", {}), (9.6, "n1", "thaw", {})]
    assert rows == [(9.0, "freeze", "n1", 9.5)]


def test_slow_twice_is_slower_until_both_are_over() -> None:
    done, _ = inject(
        PlannedFault(at_s=1.0, kind="slow", nodes=("n1",), cpu=0.5, until_s=3.0),
        PlannedFault(at_s=2.0, kind="slow", nodes=("n1",), cpu=0.5, disk=0.1, until_s=4.0),
        times=[1.0, 2.0, 3.0, 4.0],
    )
    assert [(at_s, what["cpu"], what["disk"]) for at_s, _, _, what in done] == [
        (1.0, 0.5, 1.0),
        (2.0, 0.25, 0.1),
        (3.0, 0.5, 0.1),
        (4.0, 1.0, 1.0),
    ]


def test_a_partition_cuts_both_sides_from_each_other_only() -> None:
    done, rows = inject(PlannedFault(at_s=1.0, kind="partition", nodes=("n1", "n2")), times=[1.0])
    assert {node: arguments["blocked"] for _, node, _, arguments in done} == {
        "n1": ["n3"],
        "n2": ["n3"],
        "n3": ["n1", "n2"],
    }
    assert rows == [(1.0, "partition", "n1,n2", None)]


def test_who_is_cut_off_from_the_masters_is_not_from_other_nodes() -> None:
    done, _ = inject(PlannedFault(at_s=1.0, kind="cut_off", nodes=("n3",), until_s=2.0), times=[1.0, 2.0])
    assert [(node, kind, what["cut_off"]) for _, node, kind, what in done] == [
        ("n3", "messages", True),
        ("n3", "messages", False),
    ]


def test_all_nodes_hear_of_one_that_loses_connections() -> None:
    done, _ = inject(PlannedFault(at_s=1.0, kind="loss", nodes=("n3",), share=0.2), times=[1.0])
    told = {(node, kind): what for _, node, kind, what in done}
    assert {told[node, "network"]["losses"]["n3"] for node in NODES} == {0.2}
    assert told["n3", "messages"]["lose_replies"] == 0.2
    assert ("n1", "messages") not in told


def test_a_node_that_does_not_answer_is_told_once_it_does() -> None:
    fault_calls = FakeFaultCalls()
    fault_calls.down = {"n2"}
    plan = FaultInjector([PlannedFault(at_s=1.0, kind="fill_disk", nodes=("n2",))], NODES, fault_calls)
    assert len(plan.advance(1.0)) == 1
    assert not fault_calls.done
    fault_calls.down.clear()
    assert plan.advance(1.5) == []
    assert fault_calls.done == [(0.0, "n2", "disk", {"full": True})]


ALL = ["restart", "thaw", "rates", "partition", "network", "disk", "messages"]
"""The orders that tell a node the state of all faults, in force or not."""


def test_a_tasktracker_that_was_killed_learns_its_state_again() -> None:
    fault_calls = FakeFaultCalls()
    slow = PlannedFault(at_s=1.0, kind="slow", nodes=("n2",), cpu=0.5)
    plan = FaultInjector(
        [slow, PlannedFault(at_s=2.0, kind="kill_tracker", nodes=("n2",))], NODES, fault_calls
    )
    plan.advance(1.0)
    assert plan.advance(2.0) == [(2.0, "kill_tracker", "n2", None)]
    assert [kind for _, _, kind, _ in fault_calls.done] == ["rates", "kill_tracker"]
    fault_calls.down.clear()
    plan.advance(3.0)
    assert [kind for _, _, kind, _ in fault_calls.done] == ["rates", "kill_tracker", *ALL]


def test_a_fault_that_ends_before_a_killed_tasktracker_is_back_ends_there_as_well() -> None:
    fault_calls = FakeFaultCalls()
    full = PlannedFault(at_s=1.0, kind="fill_disk", nodes=("n2",), until_s=4.0)
    plan = FaultInjector(
        [full, PlannedFault(at_s=3.0, kind="kill_tracker", nodes=("n2",))], NODES, fault_calls
    )
    for now_s in (1.0, 3.0, 4.0):
        plan.advance(now_s)
    fault_calls.down.clear()
    plan.advance(5.0)
    told = [arguments["full"] for _, _, kind, arguments in fault_calls.done if kind == "disk"]
    assert told == [True, False]


def test_a_host_that_is_killed_takes_all_its_tasktrackers_which_learn_their_state_again() -> None:
    fault_calls = FakeFaultCalls()
    slow = PlannedFault(at_s=1.0, kind="slow", nodes=("n2",), cpu=0.5)
    host = PlannedFault(at_s=2.0, kind="kill_host", nodes=("n1", "n2", "n3"))
    plan = FaultInjector([slow, host], NODES, fault_calls)
    plan.advance(1.0)
    assert plan.advance(2.0) == [(2.0, "kill_host", "n1,n2,n3", None)]
    assert [(name, kind) for _, name, kind, _ in fault_calls.done] == [
        ("n2", "rates"),
        ("n1", "kill_host"),  # n2's, too
        ("n3", "kill_host"),
        *((name, kind) for name in NODES for kind in ALL),
    ]


@pytest.mark.parametrize(("luck", "found"), [(0.0, "a1"), (0.9, "a3")])
def test_some_running_attempt_is_killed_where_there_is_one(luck: float, found: str) -> None:
    fault_calls = FakeFaultCalls()
    fault_calls.running = {"n1": "a1", "n3": "a3"}
    plan = FaultInjector([PlannedFault(at_s=1.0, kind="kill_attempt", luck=luck)], NODES, fault_calls)
    assert plan.advance(1.0) == [(1.0, "kill_attempt", found, None)]


def test_a_replica_of_a_dead_node_is_not_harmed() -> None:
    fault_calls = FakeFaultCalls()
    fault_calls.replicas = [("blk_1", "n1"), ("blk_2", "n2")]
    kill = PlannedFault(at_s=1.0, kind="kill", nodes=("n1",))
    plan = FaultInjector([kill, PlannedFault(at_s=2.0, kind="corrupt_replica")], NODES, fault_calls)
    plan.advance(1.0)
    assert plan.advance(2.0) == [(2.0, "corrupt_replica", "blk_2 on n2", None)]
    assert fault_calls.done[-1] == (0.0, "n2", "corrupt_block", {"block": "blk_2"})


def test_a_master_that_crashes_is_down_for_its_time_and_the_run_waits_for_it() -> None:
    fault_calls = FakeFaultCalls()
    plan = FaultInjector([PlannedFault(at_s=1.0, kind="crash_jobtracker", until_s=5.0)], NODES, fault_calls)
    assert plan.advance(1.5) == [(1.5, "crash_jobtracker", "jobtracker", 5.5)]
    assert [(name, kind) for _, name, kind, _ in fault_calls.done] == [
        ("jobtracker", "hold"),
        ("jobtracker", "kill_master"),
    ]
    assert plan.more_to_come
    plan.advance(5.5)
    assert not plan.more_to_come


def test_a_thread_injects_faults_in_time_and_says_what_went_wrong() -> None:
    class Broken(FakeFaultCalls):
        def on_node(self, node: str, kind: str, arguments: Mapping[str, Any]) -> str:
            raise RuntimeError("no hands")

    rows: list[Row] = []
    fault_calls = FakeFaultCalls()
    clock = iter(float(second) for second in range(10**9))
    kills = [PlannedFault(at_s=at_s, kind="freeze", nodes=("n1",)) for at_s in (1.0, 5.0)]
    with injecting(FaultInjector(kills, NODES, fault_calls), lambda: next(clock)) as take:
        while len(rows) < 2:
            rows += take()
    assert [(kind, node) for _, kind, node, _ in rows] == [("freeze", "n1")] * 2
    assert [kind for _, _, kind, _ in fault_calls.done] == [
        "freeze",
        "thaw",
    ]  # at the end: what lies there is read
    with (
        pytest.raises(RuntimeError, match="no hands"),
        injecting(FaultInjector(kills, NODES, Broken()), lambda: 9.0) as take,
    ):
        while True:
            take()


def test_a_fault_by_hand_is_injected_next() -> None:
    fault_calls = FakeFaultCalls()
    plan = FaultInjector((), NODES, fault_calls)
    assert plan.advance(10.0) == [] and plan.next_s() == float("inf")
    plan.add(PlannedFault(at_s=10.2, kind="kill", nodes=("n1",)))
    assert plan.advance(10.5) == [(10.5, "kill", "n1", None)]

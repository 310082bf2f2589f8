"""The plan of faults that live and simulated runs share, and the messages that tell nodes their state."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.conditions import ENDS, UNTOUCHED, Conditions, NodeOrders
from schedbed.cluster.fault_plan import FaultPlan
from schedbed.cluster.faults import KINDS, RESTART_S, PlannedFault
from schedbed.cluster.masters import MasterGone

NODES = ["n1", "n2", "n3"]


class Noted:
    """Effects that record when each fault begins and ends.

    `hits` is a dictionary from kind of fault to the name of what the fault has hit.
    """

    def __init__(self, **hits: str) -> None:
        self.done: list[tuple[float, str, str]] = []
        self._hits = hits

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        self.done.append((now_s, "begin", fault.kind))
        return self._hits.get(fault.kind, "")

    def end(self, now_s: float, fault: PlannedFault) -> None:
        self.done.append((now_s, "end", fault.kind))


def planned(*faults: PlannedFault, **hits: str) -> tuple[FaultPlan, Noted, Conditions]:
    effects, conditions = Noted(**hits), Conditions(NODES)
    return FaultPlan(faults, conditions, effects), effects, conditions


def test_what_is_due_at_one_time_comes_in_the_order_of_the_plan_an_end_before_a_later_beginning() -> None:
    first = PlannedFault(at_s=1.0, kind="freeze", nodes=("n1",), until_s=2.0)
    second = PlannedFault(at_s=2.0, kind="kill", nodes=("n1",))
    plan, effects, _ = planned(second, first)
    assert plan.next_s() == 1.0
    plan.advance(1.0)
    plan.advance(2.0)
    assert [what[1:] for what in effects.done] == [("begin", "freeze"), ("begin", "kill"), ("end", "freeze")]
    plan, effects, _ = planned(first, second)
    plan.advance(1.0)
    plan.advance(2.0)
    assert [what[1:] for what in effects.done] == [("begin", "freeze"), ("end", "freeze"), ("begin", "kill")]
    assert plan.next_s() == inf and not plan.more_to_come


def test_a_state_is_in_force_from_its_beginning_to_its_end_and_its_row_says_both() -> None:
    plan, _, conditions = planned(PlannedFault(at_s=1.0, kind="slow", nodes=("n2",), cpu=0.5, until_s=4.0))
    assert plan.advance(0.9) == []
    assert plan.advance(3.0) == [(3.0, "slow", "n2", 6.0)]  # late, and as long as planned
    assert conditions.rates("n2")["cpu"] == 0.5 and plan.next_s() == 6.0
    assert plan.advance(6.0) == [] and conditions.rates("n2")["cpu"] == 1.0


def test_what_happens_once_names_what_was_hit_and_stays_in_no_force() -> None:
    fault = PlannedFault(at_s=1.0, kind="kill_attempt", nodes=("n1",))
    plan, effects, conditions = planned(fault, kill_attempt="job_0001_m_000000_0")
    assert plan.advance(1.0) == [(1.0, "kill_attempt", "job_0001_m_000000_0", None)]
    assert not conditions.has("kill_attempt", "n1") and not plan.more_to_come
    assert effects.done == [(1.0, "begin", "kill_attempt")]


def test_a_process_that_was_killed_is_back_after_its_time_though_its_row_names_none() -> None:
    plan, effects, conditions = planned(PlannedFault(at_s=1.0, kind="kill_tracker", nodes=("n3",)))
    assert plan.advance(1.0) == [(1.0, "kill_tracker", "n3", None)]
    assert conditions.has("kill_tracker", "n3") and plan.next_s() == 1.0 + RESTART_S
    plan.advance(3.0)
    assert effects.done[-1] == (3.0, "end", "kill_tracker") and not conditions.has("kill_tracker", "n3")


def test_the_end_is_ahead_while_a_slow_effect_is_under_way() -> None:
    class Slow(Noted):
        def begin(self, now_s: float, fault: PlannedFault) -> str:
            assert plan.more_to_come
            return super().begin(now_s, fault)

    crash = PlannedFault(at_s=1.0, kind="crash_jobtracker", until_s=5.0)
    plan = FaultPlan([crash], Conditions(NODES), Slow())
    assert plan.advance(1.0) == [(1.0, "crash_jobtracker", "jobtracker", 5.0)]


STATES = [name for name, kind in KINDS.items() if kind.duration == "state"]


@pytest.mark.parametrize("kind", STATES)
def test_nodes_are_told_of_every_kind_that_lasts(kind: str) -> None:
    conditions = Conditions(NODES)
    fault = PlannedFault(at_s=0.0, kind=kind, nodes=("n1",), cpu=0.5, share=0.5, by_s=1.0)
    conditions.begin(fault)
    assert any(conditions.orders(node) != UNTOUCHED for node in NODES)
    conditions.end(fault)
    assert all(conditions.orders(node) == UNTOUCHED for node in NODES)


faults = st.builds(
    PlannedFault,
    at_s=st.floats(0, 20),
    kind=st.sampled_from(STATES),
    nodes=st.lists(st.sampled_from(NODES), min_size=1, max_size=2, unique=True).map(tuple),
    until_s=st.none() | st.floats(20, 40),
    cpu=st.sampled_from([0.1, 0.5]),
    share=st.just(0.3),
    by_s=st.just(1.0),
)
visits = st.lists(
    st.tuples(st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES))), min_size=10, max_size=45
)


@given(st.lists(faults, max_size=6), visits, st.sets(st.sampled_from(sorted(UNTOUCHED))))
def test_whoever_was_not_there_to_hear_or_has_started_again_knows_its_state_in_the_end(
    given_faults: list[PlannedFault],
    away_and_renewed: list[tuple[set[str], set[str]]],
    outliving: set[str],
) -> None:
    """Nodes that were absent or restarted know their faults in the end.

    A node applies the messages it receives; a TaskTracker that has restarted has forgotten them, but
    a full disk and other parts of the state may have outlived the process.
    """
    known: dict[str, dict[str, Any]] = {node: dict(UNTOUCHED) for node in NODES}
    away: set[str] = set()

    def tell(node: str, order: str, arguments: Mapping[str, Any]) -> None:
        if node in away:
            raise MasterGone(node)
        kind = {end: kind for kind, end in ENDS.items()}.get(order, order)
        known[node][kind] = {"on": order in ENDS} if kind in ENDS else arguments

    conditions = Conditions(NODES)
    orders, effects = NodeOrders(NODES, conditions, tell), Noted()
    plan = FaultPlan(given_faults, conditions, effects)
    for now_s, (gone, renewed) in enumerate([*away_and_renewed, (set(), set())]):
        away = gone | renewed
        for node in renewed:
            known[node] = {**UNTOUCHED, **{kind: known[node][kind] for kind in outliving}}
        orders.renew(renewed)
        before = len(effects.done)
        plan.advance(float(now_s))
        if len(effects.done) > before:
            orders.change()
        orders.settle()
        for node in set(NODES) - away:
            assert known[node] == conditions.orders(node)
    assert orders.frozen() == [node for node in NODES if conditions.has("freeze", node)]

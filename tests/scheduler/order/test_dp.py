"""The policy Dynamic Priority (DP): slots that bids buy, what users pay, and how spare slots are lent and
taken back.
"""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.hooks import hook
from schedbed.scheduler.order.dp import Bidder, DynamicPriority
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node

ACCOUNTS = {"ana": {"budget": 6, "bid": 3}}  # bo has the default: 100 and 1


def world(*, task_ms: int = 4000, accounts: Any = ACCOUNTS, **settings: Any) -> World:
    """Return a world with eight map slots and two reduce slots on two nodes, under DP with intervals of 10 s.

    `accounts` are the users' budgets and bids.
    """
    policy = {"dp": {"accounts": accounts, "interval": "10s", **settings}}
    return World(build_policy(policy), [node("n1", maps=4), node("n2", maps=4)], task_ms=task_ms)


def launched(world: World, first_s: float, last_s: float) -> list[str]:
    """Return the jobs of the maps that were launched from `first_s` until before `last_s`."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and first_s <= row.t < last_s]
    return [row.job for row in rows]


def kills(world: World) -> list[Any]:
    return [row for row in world.tape.decisions if row.answer == "kill"]


def bidder(policy: Any, user: str) -> Bidder:
    assert isinstance(policy, Composed) and isinstance(policy.order, DynamicPriority)
    found = policy.order.pools[user]
    assert isinstance(found, Bidder)
    return found


def test_slots_in_proportion_to_bids_and_what_they_cost():
    """Ana bids 3 and bo 1, so ana has 8 x 3/4 = 6 of 8 map slots and bo 2.

    Ana is also entitled to 2 x 3/4 = 1.5 reduce slots, which she does not use. So at 10 s she pays 3 x 6/(6 +
    1.5) = 2.4 and has 3.6 left, and bo pays 1 x 2/(2 + 0.5) = 0.8. At 20 s ana has only 1.2 left, which
    becomes her bid: 8 x 1.2/2.2 = 4.36 slots against 3.64 for bo, rounded to 4 and 4.
    """
    policy = build_policy({"dp": {"accounts": ACCOUNTS, "interval": "10s"}})
    simulated = World(policy, [node("n1", maps=4), node("n2", maps=4)], task_ms=4000)
    simulated.submit(job("a", 60)).submit(job("b", 60, user="bo")).run(until_s=11)
    assert sorted(launched(simulated, 0, 1)) == ["a"] * 6 + ["b"] * 2
    assert bidder(policy, "ana").left == pytest.approx(3.6)
    assert bidder(policy, "bo").left == pytest.approx(99.2)
    simulated.run(until_s=22)
    assert bidder(policy, "ana").left == bidder(policy, "ana").bid == pytest.approx(1.2)
    assert sorted(launched(simulated, 20, 21)) == ["a"] * 4 + ["b"] * 4


def test_who_has_spent_all_gets_what_no_bidder_wants():
    """A user whose budget is spent receives only slots that no bidder uses.

    Without reduce slots ana pays 3 x 6/6, her whole budget, for the first interval. Then her six maps are
    killed in favor of bo, who has started 2 x 3 of 22 maps by then. His other 16 maps start before any map of
    ana.
    """
    policy = build_policy({"dp": {"accounts": {"ana": {"budget": 3, "bid": 3}}, "interval": "10s"}})
    nodes = [node("n1", maps=4, reduces=0), node("n2", maps=4, reduces=0)]
    simulated = World(policy, nodes, task_ms=4000)
    simulated.submit(job("a", 60)).submit(job("b", 22, user="bo")).run(until_s=11)
    assert bidder(policy, "ana").left == bidder(policy, "ana").bid == 0
    simulated.run()
    assert len(kills(simulated)) == 6
    after = launched(simulated, 10, 100)
    assert after[:16] == ["b"] * 16 and set(after[16:]) == {"a"}
    [broke] = {
        row.reason
        for row in simulated.tape.decisions
        if row.answer == "launch" and row.t > 12 and row.job == "a"
    }
    assert broke == "no preferred node; ana has spent the budget: a slot that no bidder wants"


def test_spare_slots_are_lent_for_nothing_and_come_back_by_killing():
    """Spare slots are free of charge until another user bids for them.

    Alone, bo uses all eight slots. Ana comes at 12 s and bids 3 against 1. At 20 s she is entitled to six
    slots and has none, so the six latest maps of bo are killed and run again later.
    """
    simulated = world(task_ms=60_000, accounts={"ana": {"budget": 600, "bid": 3}})
    simulated.submit(job("b", 8, user="bo")).submit(job("a", 8, submit_s=12)).run()
    assert {round(row.t) for row in kills(simulated)} == {20}
    assert [row.task[-1] for row in kills(simulated)] == ["7", "6", "5", "4", "3", "2"]
    assert {row.reason for row in kills(simulated)} == {"ana holds 0 of 6 slots that the bids give"}
    assert launched(simulated, 20, 22) == ["a"] * 6
    assert simulated.ended_jobs() == {"a": "succeeded", "b": "succeeded"}


def test_nobody_is_killed_without_preemption_or_without_typed_slots():
    simulated = world(task_ms=60_000, preempt=False)
    simulated.submit(job("b", 8, user="bo")).submit(job("a", 8, submit_s=12)).run()
    assert kills(simulated) == []
    policy = build_policy("order=dp:interval=5s,admission=containers")
    assert isinstance(policy, Composed) and hook(policy.order, "preempt") is None


def test_reduces_that_cannot_start_yet_take_no_slots_from_others():
    """The four reduces of ana wait for her maps, so no reduce of bo is killed."""
    simulated = world(task_ms=30_000)
    simulated.durations["a"] = 200_000
    simulated.submit(job("b", 1, user="bo", reduces=2)).submit(job("a", 8, reduces=4, submit_s=5)).run(
        until_s=100
    )
    assert [row for row in kills(simulated) if row.kind == TaskKind.REDUCE] == []


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("dp:bid=0", "bid: '0' is not a number above 0"),
        ("dp:interval=fast", "interval: 'fast' is not a duration"),
        ({"dp": {"accounts": {"ana": {"bud": 3}}}}, "account ana: 'bud' is unknown, did you mean budget?"),
    ],
)
def test_bad_accounts_are_bad_input(spec: Any, why: str):
    with pytest.raises(BadInput) as caught:
        build_policy(spec)
    assert why in str(caught.value)


def test_a_new_bid_counts_from_the_next_interval_on_and_a_budget_at_once():
    """Both bid 1 and hold 4 of 8 map slots. Ana's bid of 3, given at 4 s, gives her 6 of 8 from 10 s on."""
    policy = build_policy({"dp": {"accounts": {"ana": {"bid": 1, "budget": 50}}, "interval": "10s"}})
    simulated = World(policy, [node("n1", maps=4), node("n2", maps=4)], task_ms=2000)
    simulated.submit(job("a", 200)).submit(job("b", 200, user="bo")).run(until_s=4)
    hook(policy, "change")({"accounts": {"ana": {"bid": 3, "budget": 60}}})
    assert (bidder(policy, "ana").bid, bidder(policy, "ana").left) == (1, 60)
    simulated.run(until_s=9.9)
    assert launched(simulated, 8, 9.9).count("a") == 4
    simulated.run(until_s=19)
    assert launched(simulated, 16, 17.9).count("a") == 6
    assert launched(simulated, 16, 17.9).count("b") == 2


def test_a_bid_keeps_the_budget_that_it_does_not_name():
    policy = build_policy({"dp": {"accounts": {"ana": {"bid": 1, "budget": 50}}}})
    assert isinstance(policy, Composed) and isinstance(policy.order, DynamicPriority)
    hook(policy, "change")({"accounts": {"ana": {"bid": 4}, "bo": {"bid": 2}}})
    ana, bo = policy.order.new_pool("ana"), policy.order.new_pool("bo")
    assert (ana.most, ana.left) == (4, 50)
    assert (bo.most, bo.left) == (2, 100)

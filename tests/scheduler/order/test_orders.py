"""The order FIFO with its priorities, the order Fair with its pools and shares, and the sorted lists that
they use.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.messages import AttemptReport, Heartbeat, Launch
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.order.pools import PoolSettings, SlotsByKind
from schedbed.scheduler.order.preemption import Claim, Preemption, fair_shares
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import JobSpec, TaskKind
from tests.harness.world import Tape, World, job, node


def order_of_launches(policy: object, *jobs: JobSpec, slots: int = 1, limit_s: float = 3600) -> list[str]:
    """Return the jobs of the launched tasks, in the order of launches, on one node with `slots` map slots."""
    world = World(build_policy(policy), [node("n1", maps=slots)])  # type: ignore[arg-type]
    for spec in jobs:
        world.submit(spec)
    world.run(limit_s=limit_s)
    return [row.job for row in world.tape.decisions if row.answer == "launch"]


def test_fifo_goes_by_priority_then_submit_time_then_id():
    """All other jobs are submitted when the map of `first` ends at 10 s.

    They start by priority, time of submission and id.
    """
    jobs = [
        job("first"),
        job("low", priority="low", submit_s=1),
        job("z", submit_s=3),
        job("y", submit_s=2),
        job("x", submit_s=3),
        job("very_low", priority="very_low", submit_s=1),
        job("high", priority="high", submit_s=5),
        job("very_high", priority="very_high", submit_s=6),
    ]
    order = order_of_launches("fifo", *jobs)
    assert order == ["first", "very_high", "high", "y", "x", "z", "low", "very_low"]


def test_fair_gives_each_user_a_turn():
    """Ana has two jobs and bo one. Each user has one of two slots."""
    jobs = [job("a1", 3), job("a2", 3), job("b1", 3, user="bo", submit_s=1)]
    # At 0 s a1 and a2, fair inside the pool too. Both end in one beat, so from then on one each: at the tie
    # of nothing running the older pool, and in it the older job, goes first.
    order = order_of_launches("fair", *jobs, slots=2)
    assert order == ["a1", "a2", "a1", "b1", "a1", "b1", "a2", "b1", "a2"]


def test_ties_of_pools_go_by_the_oldest_job_or_by_name():
    """When neither pool has running tasks, the next task is one of zoe, whose job is older.

    With `ties=name` it is one of bo.
    """
    jobs = [job("z", 2, user="zoe"), job("b", 2, user="bo", submit_s=1)]
    assert order_of_launches("fair", *jobs) == ["z", "z", "b", "b"]
    assert order_of_launches("fair:ties=name", *jobs) == ["z", "b", "b", "z"]


def test_a_pool_may_be_fifo_inside():
    """With `inside=fifo` all maps of a pool's older job start before those of the newer one."""
    jobs = [job("a1", 3), job("a2", 3)]
    assert order_of_launches("fair:inside=fifo", *jobs, slots=2) == ["a1"] * 3 + ["a2"] * 3
    settings = {"fair": {"pools": {"ana": {"inside": "fifo"}}}}
    assert order_of_launches(settings, *jobs, slots=2) == ["a1"] * 3 + ["a2"] * 3


def test_pools_by_queue():
    """With `pool_by=queue` the two queues of one user share the slots."""
    jobs = [job("a1", 2), job("a2", 2), job("b1", 2, queue="night")]
    assert order_of_launches("fair:pool_by=queue", *jobs, slots=2)[:2] == ["a1", "b1"]


def test_two_jobs_of_a_pool_may_end_before_the_order_hears_of_either():
    """Both jobs of ana are killed before the order is called again.

    The next heartbeat starts the job of bo.
    """
    core = Core(CoreConfig(), build_policy("fair"), Tape())
    core.register(0.0, node("n1"), 1)
    for name in ("a1", "a2"):
        core.submit(0.0, job(name, 2))
    core.heartbeat(0.0, Heartbeat("n1", 1, 1))
    for name in ("a1", "a2"):
        core.kill_job(1.0, name, "by order")
    core.submit(2.0, job("b1", 1, user="bo"))
    stopped = AttemptReport("a1_m_000000_0", "killed", 0.0, 2.0)
    reply = core.heartbeat(2.0, Heartbeat("n1", 1, 2, finished=(stopped,)))
    assert [action.job for action in reply.actions if isinstance(action, Launch)] == ["b1"]


def test_weights_share_in_proportion():
    """Pools with the weights three and one have three and one of four slots."""
    policy = {"fair": {"pools": {"ana": {"weight": 3}}}}
    jobs = [job("a", 30), job("b", 30, user="bo")]
    first = order_of_launches(policy, *jobs, slots=4)[:4]
    assert sorted(first) == ["a", "a", "a", "b"]


def test_pools_below_their_min_share_come_first():
    """The pool of bo has a min share of three of four slots, so its tasks start first."""
    policy = {"fair": {"pools": {"bo": {"min_share": 3}}}}
    jobs = [job("a", 30), job("b", 30, user="bo")]
    assert order_of_launches(policy, *jobs, slots=4)[:4] == ["b", "b", "b", "a"]


def test_priority_is_a_weight_inside_a_fair_pool():
    """A job with high priority has twice the weight and uses two of three slots."""
    jobs = [job("a", 30), job("b", 30, priority="high")]
    assert sorted(order_of_launches("fair", *jobs, slots=3)[:3]) == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("capacity", "claims", "shares"),
    [
        (10, [Claim(20), Claim(20)], [5, 5]),
        (10, [Claim(3), Claim(20)], [3, 7]),  # nothing above the demand
        (10, [Claim(3), Claim(4)], [3, 4]),  # there is more than anybody wants
        (12, [Claim(20, 3), Claim(20, 1)], [9, 3]),  # by weight
        (10, [Claim(20, 1, 8), Claim(20)], [8, 2]),  # never below the min share
        (10, [Claim(20, 1, 3), Claim(20)], [5, 5]),  # which is a floor, not an extra
        (10, [Claim(2, 1, 8), Claim(20)], [2, 8]),  # a min share that nobody wants is lent
        (10, [Claim(20, 1, 9), Claim(20, 1, 6)], [9, 6]),  # promised more than there is, and not reduced
        (10, [Claim(1), Claim(20, 2), Claim(20)], [1, 6, 3]),
        (0, [Claim(1)], [0]),
        (5, [], []),
        (5, [Claim(0), Claim(0, 2, 3)], [0, 0]),
    ],
)
def test_water_filling(capacity: float, claims: list[Claim], shares: list[float]):
    """Fair shares of a capacity, computed by hand."""
    assert fair_shares(capacity, claims) == pytest.approx(shares)


claims = st.builds(Claim, st.integers(0, 50), st.floats(0.1, 10, allow_nan=False), st.integers(0, 10))


@given(capacity=st.integers(0, 100), pools=st.lists(claims, max_size=8))
def test_shares_add_up_and_respect_demand_and_floor(capacity: int, pools: list[Claim]):
    """Fair shares sum to the smaller of capacity and total demand, or to the min shares if these exceed it.

    No share exceeds its demand, and min shares are met.
    """
    shares = fair_shares(capacity, pools)
    floors = [min(claim.min_share, claim.demand) for claim in pools]
    whole = max(capacity, sum(floors))
    assert sum(shares) == pytest.approx(min(whole, sum(claim.demand for claim in pools)))
    for share, floor, claim in zip(shares, floors, pools, strict=True):
        assert share <= claim.demand + 1e-9
        assert share >= floor - 1e-9
    # Max-min: who got less for the weight than another was stopped by the demand, or the other by its floor.
    for share, claim in zip(shares, pools, strict=True):
        for other, floor, rival in zip(shares, floors, pools, strict=True):
            if sum(floors) <= capacity and share / claim.weight < other / rival.weight - 1e-6:
                assert share == pytest.approx(claim.demand) or other == pytest.approx(floor)


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 5)))))
def test_sorted_keys_stay_sorted(changes: list[tuple[int, int | None]]):
    """After any sequence of insertions, changes of keys and removals, `SortedKeys` agrees with a sorted
    dictionary.
    """
    kept: SortedKeys[int] = SortedKeys()
    model: dict[int, tuple[int, int]] = {}
    for item, key in changes:
        if key is None:
            kept.drop(item)
            model.pop(item, None)
        else:
            kept.put(item, (key, item))
            model[item] = (key, item)
        assert list(kept) == sorted(model, key=lambda i: model[i])
        assert len(kept) == len(model) and all(i in kept for i in model)


def two_users(policy: object, *, pause_s: float = 20) -> World:
    """Return a world in which ana has six long maps on six slots, and bo submits a job of three maps at
    `pause_s` seconds.
    """
    world = World(build_policy(policy), [node("n1", maps=3), node("n2", maps=3)])  # type: ignore[arg-type]
    world.durations["a"] = 300_000
    return world.submit(job("a", 6)).submit(job("b", 3, user="bo", submit_s=pause_s))


def test_without_timeouts_nobody_is_killed():
    """Without timeouts for pre-emption, bo waits until the maps of ana end."""
    world = two_users("fair").run()
    assert not world.ends("killed")
    assert world.launches()[-1].startswith("300.")


def test_half_the_fair_share_by_preemption():
    """After 30 s below half its fair share, bo's pool receives its share of three slots.

    The latest maps of ana are killed and run again.
    """
    world = two_users("fair:fair_share_timeout=30s").run()
    kills = [row for row in world.tape.decisions if row.answer == "kill"]
    assert [row.task[-1] for row in kills] == ["5", "4", "3"]
    assert {row.reason for row in kills} == {"pool bo was below half its fair share for 30.5 s"}
    assert 50 <= kills[0].t <= 51.5
    assert world.ended_jobs() == {"a": "succeeded", "b": "succeeded"}
    assert len(world.ends("killed")) == 3


def test_the_min_share_by_preemption():
    """The pool of bo has a min share of one slot and a timeout of 10 s. Only one map of ana is killed."""
    policy = {"fair": {"pools": {"bo": {"min_share": 1}}, "min_share_timeout": "10s"}}
    world = two_users(policy).run()
    kills = [row for row in world.tape.decisions if row.answer == "kill"]
    assert [row.reason for row in kills] == ["pool bo was below its min share for 10.5 s"]
    # The freed slot is bo's own until its three maps are done.
    assert [row.job for row in world.tape.decisions if row.answer == "launch" and 30 < row.t < 60] == [
        "b"
    ] * 3


def test_a_pool_is_never_taken_below_its_own_share():
    """Two pools share seven slots, 3.5 each. Only three maps of ana are killed, and she keeps four."""
    world = World(build_policy("fair:fair_share_timeout=5s"), [node("n1", maps=7)])
    world.durations["a"] = 300_000
    world.submit(job("a", 9)).submit(job("b", 9, user="bo", submit_s=20)).run()
    assert len([row for row in world.tape.decisions if row.answer == "kill"]) == 3


def test_free_slots_are_used_before_anybody_is_killed():
    """Ana uses four of eight slots. The maps of bo start in the free slots, and no map is killed."""
    world = World(build_policy("fair:fair_share_timeout=5s"), [node("n1", maps=4), node("n2", maps=4)])
    world.durations["a"] = 300_000
    world.submit(job("a", 4)).submit(job("b", 4, user="bo", submit_s=20)).run()
    assert not world.ends("killed")


def test_a_starving_pool_does_not_wait_for_data():
    """Bo's job would wait for node n9, which does not exist, but takes the slots that were taken back for it."""
    policy = {"delay": {"fair_share_timeout": "10s", "node_wait": "1000s"}}
    world = World(build_policy(policy), [node("n1", maps=4)])
    world.durations = {"a": 300_000, "b": 300_000}
    world.submit(job("a", 4)).submit(job("b", ["n9"] * 4, user="bo", submit_s=20)).run(until_s=75)
    rows = [row for row in world.tape.decisions if row.answer in ("kill", "launch") and row.t > 1]
    assert [row.answer for row in rows] == ["kill", "kill", "launch", "launch"]
    assert [row.job for row in rows[2:]] == ["b", "b"] and rows[0].t == 30.5 and rows[3].t < 35


def test_pools_that_decline_their_slots_do_not_have_more_killed_at_once():
    """A pool that was given slots and has not started tasks waits for the timeout again."""
    settings = PoolSettings(min_share=SlotsByKind(2, 0))
    pool = SimpleNamespace(name="p", settings=settings, tallies={}, startable=lambda kind: 4)
    pool.tallies[TaskKind.MAP] = SimpleNamespace(running=0, killing=0)
    rule, due = Preemption(10.0, None), []
    for tick in range(60):
        view: Any = SimpleNamespace(now_s=float(tick))
        owed, _ = rule._owed(view, cast("Any", pool), TaskKind.MAP, 2.0)
        if owed:
            due.append(tick)
            rule._took_s["p", TaskKind.MAP] = view.now_s
    assert due == [11, 22, 33, 44, 55]


def test_each_rich_pool_gives_only_what_it_has_above_its_share():
    """Three pools share six slots, two each.

    Ana and bo use three slots each and lose one each to cy, although the latest maps are all of bo.
    """
    world = World(build_policy("fair:fair_share_timeout=5s"), [node("n1", maps=6)])
    for name, user, submit_s in (("a", "ana", 0), ("b", "bo", 1), ("c", "cy", 20)):
        world.durations[name] = 300_000
        world.submit(job(name, 3, user=user, submit_s=submit_s))
    world.run(until_s=60)
    assert [row.job for row in world.tape.decisions if row.answer == "kill"] == ["b", "a"]


def test_a_pool_that_declines_free_slots_has_nobody_killed():
    """Under delay scheduling bo's job waits for node n9, which does not exist, while two slots, its whole
    share, are free.

    So no map of ana is killed.
    """
    policy = {"delay": {"fair_share_timeout": "10s", "node_wait": "1000s"}}
    world = World(build_policy(policy), [node("n1", maps=4)])
    world.durations["a"] = 300_000
    world.submit(job("a", 2)).submit(job("b", ["n9"] * 4, user="bo", submit_s=20)).run(until_s=60)
    assert not [row for row in world.tape.decisions if row.answer == "kill"]

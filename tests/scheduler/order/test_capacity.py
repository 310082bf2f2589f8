"""The order Capacity: guaranteed shares of queues, borrowed slots, limits of users, priorities, tasks that
need several slots, and the reasons of decisions.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedbed.scheduler.hooks import hook, quiet_of
from schedbed.scheduler.order.capacity import Capacity, Held, QueueSettings, over_max, user_limit
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.view import View
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import JobSpec, TaskKind
from tests.harness.world import GIB, World, job, node

HALVES = {"a": {"capacity": 50}, "b": {"capacity": 50}}


def capacity(queues: Any = None, **more: Any) -> dict[str, Any]:
    """Return the SPEC of the policy Capacity with these queues and other parameters."""
    return {"capacity": {"queues": queues or {}, **more}}


def launches(world: World, until_s: float = 1e9) -> list[str]:
    """Return the jobs of the tasks launched until `until_s`, in the order of launches."""
    return [row.job for row in world.tape.decisions if row.answer == "launch" and row.t <= until_s]


def simulate(policy: Any, *jobs: JobSpec, slots: int = 4, until_s: float | None = None) -> World:
    """Run the jobs under a policy on one node with `slots` map slots and reduce slots, until `until_s` or to
    the end.
    """
    world = World(build_policy(policy), [node("n1", maps=slots, reduces=slots)])
    for spec in jobs:
        world.submit(spec)
    return world.run(until_s=until_s)


@pytest.mark.parametrize(
    ("held", "need", "users", "percent", "factor", "limit"),
    [
        (0, 1, 1, 100, 1, 10),  # alone: all that is promised
        (0, 1, 2, 25, 1, 5),  # two users: half each
        (0, 1, 3, 25, 1, 4),  # ceil(10 / 3)
        (0, 1, 5, 25, 1, 3),  # not a fifth but ceil(25% of 10)
        (12, 1, 2, 25, 9, 7),  # above its promise: half of 12 + 1, rounded up
        (12, 2, 2, 25, 9, 7),  # half of 12 + 2
        (12, 1, 1, 100, 1, 10),  # never above factor x promise
        (12, 1, 1, 100, 1.5, 13),
        (0, 1, 1, 100, 0.05, 1),  # one task may always run
    ],
)
def test_user_limits(held: int, need: int, users: int, percent: float, factor: float, limit: int) -> None:
    """Largest number of slots of one user in a queue with a guaranteed share of ten slots."""
    holds = Held()
    holds.add("somebody", held)
    assert user_limit(holds, need, 10.0, users, percent, factor) == limit


def test_one_task_may_run_in_a_queue_however_small() -> None:
    """One task may exceed the maximum of an empty queue. A second one may not."""
    held = Held()
    assert not over_max(held, 3, 0.5)
    held.add("ana", 1)
    assert over_max(held, 1, 1.5) and not over_max(held, 1, 2.0)


def test_the_queue_that_holds_least_of_its_promise_comes_first() -> None:
    """Queues a and b have guaranteed shares of 75% and 25% of four slots.

    The queue with the smallest part of its share in use starts the next task, so a starts three and b one.
    """
    queues = {"a": {"capacity": 75}, "b": {"capacity": 25}}
    world = simulate(capacity(queues), job("a", 9, queue="a"), job("b", 9, queue="b"), until_s=5)
    assert launches(world) == ["a", "b", "a", "a"]


def test_idle_slots_are_lent_and_come_back_as_tasks_end() -> None:
    """Queue a uses all four slots while b is empty. As these tasks end, b receives its half."""
    policy = capacity(HALVES, user_limit_factor=2)
    world = simulate(policy, job("a", 12, queue="a"), job("b", 8, queue="b", submit_s=5))
    assert launches(world, 8) == ["a"] * 4
    assert launches(world, 12)[4:] == ["a", "b", "a", "b"]


def test_a_queue_never_grows_beyond_its_maximum() -> None:
    """A queue with a maximum of 75% runs three tasks on four slots.

    The skip of the idle slot states the maximum.
    """
    queues = {"a": {"capacity": 50, "max_capacity": 75}}
    world = simulate(capacity(queues, user_limit_factor=9), job("a", 6, queue="a"), until_s=5)
    assert launches(world) == ["a"] * 3
    skips = {row.reason for row in world.tape.decisions if row.answer == "skip"}
    assert skips == {"the queue has its maximum: queue a holds 3 of 2, at most 3"}


def test_one_user_does_not_take_more_than_the_queue_is_promised() -> None:
    """With Hadoop's default user limit factor of 1, one user runs no more tasks than the queue's guaranteed
    share, even on an idle cluster.

    A second user of the queue may use the other slots.
    """
    world = simulate(capacity(HALVES), job("a", 9, queue="a"), until_s=5)
    assert launches(world) == ["a", "a"]
    assert {row.reason for row in world.tape.decisions if row.answer == "skip"} == {
        "ana has the user's limit of 2"
    }
    jobs = [job("a", 9, queue="a"), job("other", 9, queue="a", user="bo", submit_s=1)]
    assert launches(simulate(capacity(HALVES), *jobs, until_s=5)) == ["a", "a", "other", "other"]


def test_users_of_a_queue_share_it() -> None:
    """With a minimum user limit of 25%, ana uses all four slots while she is alone.

    Later two users have two slots each.
    """
    jobs = [job("a", 9), job("b", 9, user="bo", submit_s=5)]
    world = simulate(capacity(minimum_user_limit_percent=25), *jobs, until_s=15)
    assert launches(world) == ["a"] * 4 + ["a", "a", "b", "b"]


def test_priorities_inside_a_queue_can_be_off() -> None:
    """Priorities of jobs can be disabled for the policy or for one queue."""
    jobs = [job("low", 2, priority="low"), job("high", 2, priority="high")]
    assert launches(simulate(capacity(), *jobs, slots=1)) == ["high", "high", "low", "low"]
    assert launches(simulate(capacity(priorities="false"), *jobs, slots=1)) == ["low", "low", "high", "high"]
    queues = {"default": {"capacity": 100, "priorities": False}}
    assert launches(simulate(capacity(queues), *jobs, slots=1)) == ["low", "low", "high", "high"]


def test_queues_without_settings_share_what_is_left_over() -> None:
    """Queue a has half of the slots, and the unconfigured queues x and y share the other half.

    After the job of y has ended, x has a half.
    """
    queues = {"a": {"capacity": 50}}
    jobs = [job("a", 20, queue="a"), job("x", 20, queue="x", user="bo"), job("y", 1, queue="y", user="cy")]
    world = simulate(capacity(queues, user_limit_factor=4), *jobs, until_s=25)
    assert sorted(launches(world, 5)) == ["a", "a", "x", "y"]
    assert sorted(launches(world)[-4:]) == ["a", "a", "x", "x"]


def test_a_queue_with_nothing_promised_is_served_last() -> None:
    """A queue without a guaranteed share runs after the others."""
    queues = {"a": {"capacity": 100}}
    world = simulate(
        capacity(queues), job("x", 2, queue="x"), job("a", 3, queue="a", submit_s=0.001), slots=1
    )
    assert launches(world) == ["a", "a", "a", "x", "x"]


def test_a_task_that_asks_for_more_memory_takes_several_slots() -> None:
    """Slots have 1 GiB and maps need 2 GiB, thus two slots.

    On two nodes with three slots each, two maps run at once.
    """
    policy = capacity(map_slot_memory="1GiB")
    world = World(build_policy(policy), [node("n1", maps=3), node("n2", maps=3)])
    world.submit(job("big", 3, memory=2 * GIB)).run(until_s=5)
    assert launches(world) == ["big", "big"]
    world.run()
    assert len(launches(world)) == 3


def test_a_node_waits_for_a_large_task_and_only_as_many_as_there_are_tasks() -> None:
    """Small maps occupy the slots of two nodes when a map that needs two slots becomes first in order.

    Only one node keeps its free slots for this map, and the other starts small maps.
    """
    world = World(build_policy(capacity(map_slot_memory="1GiB")), [node("n1", maps=2), node("n2", maps=2)])
    world.durations = {"small": 8_000}
    world.submit(job("small", 1)).submit(job("more", 12, submit_s=0.1))
    world.submit(job("big", 1, user="bo", memory=2 * GIB, priority="high", submit_s=2)).run()
    rows = [row for row in world.tape.decisions if row.answer == "launch"]
    big = next(row for row in rows if row.job == "big")
    kept = {row.node for row in world.tape.decisions if "the node waits for it" in row.reason}
    assert kept == {big.node}
    assert big.t < 12
    others = [row.t for row in rows if row.node != big.node and 8 < row.t < 12]
    assert others, "the other node goes on"


def test_a_task_never_needs_more_than_a_node_has() -> None:
    """A map whose memory equals four slots runs alone on a node with two slots."""
    world = World(build_policy(capacity(map_slot_memory="1GiB")), [node("n1", maps=2)])
    world.submit(job("huge", 1, memory=4 * GIB)).submit(job("small", 2, submit_s=1)).run()
    starts = {row.job: row.t for row in world.tape.decisions if row.answer == "launch"}
    assert starts["huge"] < 1 and starts["small"] > 10


def test_under_containers_shares_are_of_memory() -> None:
    """Under admission by memory, shares are parts of the memory: half of 4 GiB is two tasks of 1 GiB for each
    queue, and reduces count as well.
    """
    policy = {"order": {"capacity": {"queues": HALVES}}, "admission": "containers"}
    world = World(build_policy(policy), [node("n1", cores=4)])
    world.submit(job("a", 5, queue="a")).submit(job("b", 5, queue="b")).run(until_s=5)
    assert sorted(launches(world)) == ["a", "a", "b", "b"]
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}


def test_killed_attempts_give_back_what_they_held() -> None:
    """After a running job was killed, its queue can start tasks in all slots of its share."""
    world = simulate(
        capacity(HALVES), job("a", 9, queue="a"), job("later", 2, queue="a", submit_s=20), until_s=5
    )
    world.core.kill_job(world.now_s, "a", "enough")
    world.run()
    assert launches(world)[2:] == ["later", "later"]


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (3, "3 is not a mapping such as {prod:"),
        ({"a": 3}, "queue a: 3 is not a mapping of capacity"),
        ({"a": {}}, "queue a: capacity is missing"),
        ({"a": {"capacity": 0}}, "queue a: capacity: 0 is not a percentage"),
        ({"a": {"capacity": True}}, "queue a: capacity: True is not a percentage"),
        ({"a": {"capacity": 50, "max_capacity": 40}}, "queue a: max_capacity 40 is below capacity 50"),
        ({"a": {"capacity": 60}, "b": {"capacity": 50}}, "capacities add up to 110, expected at most 100"),
        ({"a": {"capacty": 60}}, "queue a: 'capacty' is unknown, did you mean capacity?"),
        ({"a": {"capacity": 9, "priorities": "maybe"}}, "priorities: 'maybe' is not one of true, false"),
        ({"a": {"capacity": 9, "user_limit_factor": -1}}, "user_limit_factor: -1 is not a number above 0"),
    ],
)
def test_bad_queues_are_said_in_one_line(queues: Any, message: str) -> None:
    """The error of wrong queue settings is one line with the queue, the key, the value and the expected
    values.
    """
    with pytest.raises(BadInput) as error:
        build_policy({"capacity": {"queues": queues}})
    assert message in str(error.value) and "\n" not in str(error.value)


def test_slot_memory_without_slots_is_nonsense() -> None:
    """The parameter `map_slot_memory` is refused if the admission is not by slots."""
    with pytest.raises(BadInput, match="needs admission=slots"):
        build_policy("order=capacity:map_slot_memory=1GiB,admission=containers")


class Watched(Capacity):
    """The order Capacity. It asserts at each offer that no queue uses more than its maximum or one task."""

    def jobs(self, view: View, node: Any, kind: TaskKind) -> Any:
        """Assert that the queues' counters agree with the core, and return the jobs in the order of
        `Capacity`.
        """
        for queue in self._queues.values():
            running = [
                stage for j in view.jobs.values() if j.queue == queue.name for stage in [j.stage(kind)]
            ]
            held = queue.held[kind].total
            assert held == sum(queue.held[kind].by_user.values())
            assert held >= sum(stage.running for stage in running)
            assert held <= max(1.0, queue.max_share * view.slots(kind)) + 1e-9
        return super().jobs(view, node, kind)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shares=st.lists(st.tuples(st.integers(5, 33), st.integers(0, 60)), min_size=1, max_size=3),
    percent=st.sampled_from([25, 50, 100]),
    factor=st.sampled_from([0.5, 1, 3]),
    slots=st.integers(1, 7),
    jobs=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("uvw"), st.integers(1, 9), st.integers(0, 30)),
        min_size=1,
        max_size=6,
    ),
)
def test_no_queue_is_above_its_maximum_and_all_jobs_end(
    shares: list[tuple[int, int]],
    percent: int,
    factor: float,
    slots: int,
    jobs: list[tuple[int, str, int, int]],
) -> None:
    """With random settings no queue exceeds its maximum and all jobs end.

    One queue of the jobs has no settings.
    """
    queues = {
        f"q{place}": {"capacity": share, "max_capacity": share + more}
        for place, (share, more) in enumerate(shares)
    }
    made = build_policy(capacity(queues, minimum_user_limit_percent=percent, user_limit_factor=factor))
    assert isinstance(made, Composed) and isinstance(made.order, Capacity)
    made.order.__class__ = Watched
    world = World(made, [node("n1", maps=slots, reduces=2)], audit=False)
    for number, (queue, user, maps, submit_s) in enumerate(jobs):
        world.submit(job(f"j{number}", maps, reduces=1, queue=f"q{queue}", user=user, submit_s=submit_s))
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}


@pytest.mark.parametrize("percents", [(50, 50), (75, 25), (20, 80)])
def test_what_is_promised_can_be_had(percents: tuple[int, int]) -> None:
    """While both queues have unstarted tasks, each uses its guaranteed share of twenty slots after borrowed
    slots are returned.
    """
    queues = {name: {"capacity": percent} for name, percent in zip("ab", percents, strict=True)}
    world = World(build_policy(capacity(queues, user_limit_factor=9)), [node("n1", maps=20)])
    world.submit(job("a", 100, queue="a")).submit(job("b", 100, queue="b", submit_s=3)).run(until_s=15)
    view: Any = world.core.status()
    running = {row["job"]: row["maps_running"] for row in view["jobs"]}
    assert running == {"a": percents[0] / 5, "b": percents[1] / 5}


def test_a_heartbeat_starts_so_many_off_switch_tasks() -> None:
    """Of seven maps, two have blocks on n1, two in its rack and three elsewhere.

    The parameter `off_switch_per_heartbeat` limits the off-rack maps that one heartbeat starts.
    """
    hosts = ["n1", "n1", "n2", "n2", "n3", "n3", "n3"]
    nodes = [node("n1", maps=7), node("n2", maps=0), node("n3", maps=0, rack="r1")]

    def rounds(**more: Any) -> list[list[str]]:
        world = World(build_policy(capacity(**more)), nodes)
        world.submit(job("a", hosts))
        world.run()
        launched = [row for row in world.tape.decisions if row.answer == "launch"]
        times = sorted({row.t for row in launched})
        return [[row.reason.split(";")[0] for row in launched if row.t == each] for each in times]

    near = ["node-local"] * 2 + ["rack-local"] * 2
    assert [len(each) for each in rounds()] == [7]
    one = rounds(off_switch_per_heartbeat=1)
    assert [len(each) for each in one] == [5, 1, 1]
    assert [reason.split(",")[0] for reason in one[0]] == [*near, "off-rack"]
    assert [len(each) for each in rounds(off_switch_per_heartbeat=2)] == [6, 1]


def test_reduces_and_maps_without_input_are_off_switch_too() -> None:
    world = World(build_policy(capacity(off_switch_per_heartbeat=1)), [node("n1", maps=4, reduces=4)])
    world.submit(job("a", 2)).submit(job("b", 1, reduces=3)).run()
    launched = [row.t for row in world.tape.decisions if row.answer == "launch"]
    assert len(launched) == len(set(launched)) == 6


@pytest.mark.parametrize("value", [0, -1, 1.5, "few", True])
def test_off_switch_tasks_are_counted(value: Any) -> None:
    with pytest.raises(BadInput, match="off_switch_per_heartbeat"):
        build_policy(capacity(off_switch_per_heartbeat=value))
    assert quiet_of(build_policy(capacity(off_switch_per_heartbeat="off"))) is not None
    assert quiet_of(build_policy(capacity(off_switch_per_heartbeat=1))) is None


def test_queues_get_other_shares_during_the_run():
    """Queues a and b hold four of eight slots each; with capacities of 75 and 25 they hold six and two."""
    policy = build_policy(capacity(HALVES))
    world = World(policy, [node("n1", maps=8)], task_ms=2000)
    world.submit(job("a", 200, queue="a")).submit(job("b", 200, queue="b")).run(until_s=3)
    change = {"queues": {"b": {"capacity": 25}, "a": {"capacity": 75, "user_limit_factor": 2}}}
    hook(policy, "change")(change)
    world.run(until_s=9)
    late = [row.job for row in world.tape.decisions if row.answer == "launch" and 6 <= row.t < 7.9]
    assert (late.count("a"), late.count("b")) == (6, 2)
    with pytest.raises(ValueError, match="capacities add up to 105, expected at most 100"):
        hook(policy, "change")({"queues": {"c": {"capacity": 5}}})


def test_a_queue_that_gets_a_share_is_no_longer_one_of_the_others():
    order = Capacity(queues={"a": QueueSettings(capacity=50)})
    assert order.new_queue("b").promised_share(1) == 0.5
    assert order.change({"queues": {"b": {"capacity": 20}}})
    assert order.new_queue("b").promised_share(1) == 0.2
    assert order.new_queue("c").promised_share(1) == pytest.approx(0.3)
    assert order.guarantees == {"a": 0.5, "b": 0.2}

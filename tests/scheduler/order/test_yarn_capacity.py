"""YARN's CapacityScheduler step by step: the order of queues, limits of users, ideal shares and what they take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.models.amounts import NOTHING, Amount
from schedbed.scheduler.order.queues.guaranteed_queue import Calculator, CapacityQueue, YarnQueueSettings
from schedbed.scheduler.order.queues.ideal_shares import CapacityPreemption, IdealShares, IntraQueuePreemption
from schedbed.scheduler.order.queues.queue_tree import QueuedApp
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Demand, TaskKind
from tests.harness.world import GIB, World, job, node

Queue = YarnQueueSettings


def gib(memory: float, vcores: float = 0) -> Amount:
    return Amount(memory * GIB, vcores)


def tree(
    declared: dict[str, YarnQueueSettings] | None = None,
    *,
    vcores: int = 100,
    least: float = 1,
    dominant: bool = False,
    ordering: str | None = None,
    **queues: YarnQueueSettings,
) -> CapacityQueue:
    calculator = Calculator(gib(least, 1), dominant=dominant)
    calculator.cluster = Amount(100 * GIB, vcores)
    return CapacityQueue(
        "root", Queue(queues=declared or queues), Queue(ordering_policy=ordering), calculator
    )


def app(
    root: CapacityQueue, path: str, held: int, pending: int, user: str = "u", serial: int = 0
) -> QueuedApp:
    """Add a job with `held` running and `pending` unstarted maps of 1 GiB and 1 vcore. `serial` orders the jobs."""
    name = f"{path}{serial}"
    stages = {
        kind: SimpleNamespace(
            demand=Demand(memory_bytes=GIB, vcores=1),
            kind=kind,
            unstarted=pending if kind is TaskKind.MAP else 0,
            ready=kind is TaskKind.MAP and pending > 0,
            killing=0,
        )
        for kind in TaskKind
    }
    fake: Any = SimpleNamespace(
        job=name,
        user=user,
        priority=2,
        submit_s=float(serial),
        serial=serial,
        stage=stages.__getitem__,
        stages=tuple(stages.values()),
        active=True,
        master=None,
        maps=stages[TaskKind.MAP],
        reduces=stages[TaskKind.REDUCE],
    )
    fake.attempts = {
        f"{name}-{each}": SimpleNamespace(
            attempt=f"{name}-{each}",
            serial=each,
            state="running",
            task=SimpleNamespace(job=fake, kind=TaskKind.MAP, stage=stages[TaskKind.MAP]),
        )
        for each in range(held)
    }
    made = QueuedApp(fake, root.find(path))
    made.queue.apps[name] = made
    made.hold(gib(held, held), NOTHING)
    made.ask(pending > 0)
    return made


def order(root: CapacityQueue) -> list[str]:
    return [each.job.job for each in root.in_order(root.calculator.cluster)]


def test_the_queue_with_the_smaller_used_part_of_its_guarantee_is_first() -> None:
    """a holds 30 of 60, b 10 of 30: 0.5 and 0.33. With equal parts the larger guarantee comes first."""
    root = tree(a=Queue(capacity=60), b=Queue(capacity=30), c=Queue(capacity=10))
    for path, held in (("a", 30), ("b", 10), ("c", 9)):
        app(root, path, held, 5)
    assert order(root) == ["b0", "a0", "c0"]
    equal = tree(b=Queue(capacity=40), a=Queue(capacity=60))
    app(equal, "a", 30, 5)
    app(equal, "b", 20, 5)
    assert order(equal) == ["a0", "b0"]


def test_priorities_of_queues_count_among_those_on_the_same_side_of_their_guarantee() -> None:
    """high holds 9 of 10, low 1 of 50 and over 45 of 40: the last one is above its guarantee whatever its priority."""
    queues = {
        "high": Queue(capacity=10, priority=2),
        "low": Queue(capacity=50),
        "over": Queue(capacity=40, priority=9),
    }
    for ordering, wanted in (
        ("priority-utilization", ["high0", "low0", "over0"]),
        ("utilization", ["low0", "high0", "over0"]),
    ):
        root = tree(queues, ordering=ordering)
        for path, held in (("high", 9), ("low", 1), ("over", 45)):
            app(root, path, held, 1)
        assert order(root) == wanted


def test_jobs_of_a_queue_are_in_order_of_submission_or_of_what_they_hold() -> None:
    for policy, wanted in (("fifo", ["a0", "a1"]), ("fair", ["a1", "a0"])):
        root = tree(a=Queue(capacity=100, ordering_policy=policy))
        app(root, "a", 3, 1, serial=0)
        app(root, "a", 2, 1, serial=1)
        assert order(root) == wanted


def test_shares_multiply_down_the_tree_and_undeclared_queues_share_the_rest() -> None:
    root = tree(p=Queue(capacity=60, maximum_capacity=80, queues={"x": Queue(capacity=50)}))
    x, y, z = (root.find(path) for path in ("p.x", "p.y", "z"))
    assert [round(each.promised, 3) for each in (x, y, z)] == [0.3, 0.3, 0.4]
    assert x.most_held() == gib(80, 80)
    root.find("w")
    assert round(z.promised, 3) == 0.2


def test_a_maximum_capacity_is_never_exceeded() -> None:
    root = tree(p=Queue(capacity=60, maximum_capacity=80, queues={"x": Queue(capacity=50)}))
    app(root, "p.x", 70, 20)
    x = root.find("p.x")
    assert x.full_for(gib(10)) is None
    assert x.full_for(gib(11)).name == "p.x"


def test_the_limit_of_a_user_is_what_the_users_that_ask_hold_and_one_more_divided() -> None:
    """computeUserLimit: a queue of 40 with two users of 30 and 20. u1 asks, then both do.

    One asks: max((30 + 1) / 1, (50 + 1) x 25%) = 31. Both ask: (50 + 1) / 2 = 25.5, rounded up to 26. The factor of
    0.5 limits to 20. With weight 2 for u1: 51 / 3 = 17, twice for u1.
    """
    settings = Queue(capacity=40, minimum_user_limit_percent=25, user_limit_factor=2)
    root = tree(a=settings)
    app(root, "a", 30, 5, "u1", 0)
    app(root, "a", 20, 0, "u2", 1)
    a = root.find("a")
    assert a.asking_users() == {"u1": None}
    assert a.user_limit("u1", a.asking_users()).memory_bytes == 31 * GIB
    both = {"u1": None, "u2": None}
    assert a.user_limit("u1", both).memory_bytes == 26 * GIB
    a.user_factor = 0.5
    assert a.user_limit("u1", both).memory_bytes == 20 * GIB
    a.user_factor, a.weights = 2, {"u1": 2.0}
    assert a.user_limit("u1", both).memory_bytes == 34 * GIB
    assert a.user_limit("u2", both).memory_bytes == 17 * GIB


def test_a_queue_below_its_guarantee_divides_the_guarantee() -> None:
    """40 promised, 10 held: at least 50% of 40 for each of two users, not half of 11."""
    root = tree(a=Queue(capacity=40, minimum_user_limit_percent=50))
    app(root, "a", 10, 5, "u1", 0)
    app(root, "a", 0, 5, "u2", 1)
    a = root.find("a")
    assert a.user_limit("u2", a.asking_users()).memory_bytes == 20 * GIB


def test_the_dominant_calculator_compares_the_larger_share() -> None:
    """In a cluster of 100 GiB and 50 vcores, 10 GiB and 10 vcores have shares of 0.1 and 0.2; 0.2 is dominant."""
    root = tree(vcores=50, dominant=True, a=Queue(capacity=50))
    assert root.calculator.of(gib(10, 10)) == 0.2
    assert not root.calculator.fits(gib(1, 2), gib(2, 1))
    assert tree(a=Queue(capacity=50)).calculator.fits(gib(1, 2), gib(2, 1))


def chosen(
    root: CapacityQueue, inside: IntraQueuePreemption | None = None, **settings: float
) -> dict[str, int]:
    """Return how many attempts a round kills of each job, with the newest first, if it may take all at once."""
    given = {
        "max_wait_before_kill": 0.0,
        "total_preemption_per_round": 1.0,
        "natural_termination_factor": 1.0,
    }
    rule = IdealShares(root.calculator, CapacityPreemption(**{**given, **settings}), inside)
    view: Any = SimpleNamespace(now_s=10.0)
    found: dict[str, int] = {}
    for kill in rule.kills(view, root):
        name = kill.attempt.task.job.job
        assert kill.attempt.serial == len(kill.attempt.task.job.attempts) - 1 - found.get(name, 0)
        found[name] = found.get(name, 0) + 1
    return found


CASE = (("a", 10, 30, 20), ("b", 40, 60, 5), ("c", 20, 10, 20), ("d", 30, 0, 0))
"""Queues with their capacity, and what they hold and ask for."""


def of_case(**changes: Any) -> CapacityQueue:
    factor = {"user_limit_factor": 100}
    root = tree({name: Queue(capacity=share, **factor, **changes) for name, share, _, _ in CASE})
    for name, _, held, pending in CASE:
        app(root, name, held, pending)
    return root


def test_a_queue_below_its_guarantee_takes_from_the_one_most_above() -> None:
    """c gets its 20 of 100. Of the rest b, 1.5 times its guarantee, keeps 60, and a 20: 10 go."""
    assert chosen(of_case()) == {"a0": 10}


def test_a_round_takes_its_share_and_leaves_what_ends_anyway() -> None:
    """Limits of a round: 5% of the cluster, half of the surplus, and no kill below 4 times the guarantee."""
    assert chosen(of_case(), total_preemption_per_round=0.05) == {"a0": 5}
    assert chosen(of_case(), natural_termination_factor=0.5) == {"a0": 5}
    assert chosen(of_case(), max_ignored_over_capacity=3.0) == {}


def test_nothing_is_taken_from_queues_with_preemption_disabled() -> None:
    """Queue a may not lose containers, so the 10 containers for c are taken from b."""
    root = of_case()
    root.find("a").keeps = True
    assert chosen(root) == {"b0": 10}


def test_a_chosen_container_dies_after_the_wait_if_a_round_still_chooses_it() -> None:
    root = of_case()
    rule = IdealShares(
        root.calculator,
        CapacityPreemption(
            monitoring_interval=1,
            max_wait_before_kill=2,
            total_preemption_per_round=1,
            natural_termination_factor=1,
        ),
        None,
    )
    made = [len(rule.kills(SimpleNamespace(now_s=at_s), root)) for at_s in (0.0, 0.5, 1.0, 2.0)]  # type: ignore[arg-type]
    assert made == [0, 0, 0, 10]


def test_users_above_their_part_of_a_queue_give_to_users_below() -> None:
    """Two users of one queue of 100: the limit is (100 + 1) / 2. u2 asks for 30 and gets them, from the newest."""
    root = tree(a=Queue(capacity=100, minimum_user_limit_percent=50))
    app(root, "a", 100, 0, "u1", 0)
    app(root, "a", 0, 30, "u2", 1)
    assert chosen(root) == {}
    assert chosen(root, IntraQueuePreemption(max_allowable_limit=0.5)) == {"a0": 30}
    assert chosen(root, IntraQueuePreemption(max_allowable_limit=0.2)) == {"a0": 20}


def world(spec: Any, *jobs: Any, nodes: int = 1, **of_node: Any) -> World:
    made = World(
        build_policy({"yarn-capacity": spec}),
        [node(f"n{each + 1}", maps=9, memory_bytes=4 * GIB, cores=4, **of_node) for each in range(nodes)],
    )
    for each in jobs:
        made.submit(each)
    return made


def launches(made: World) -> list[tuple[float, str]]:
    return [(row.t, row.job) for row in made.tape.decisions if row.answer == "launch"]


def test_one_container_without_input_near_ends_the_turn_of_a_node() -> None:
    made = world({}, job("a", 3)).run(until_s=30)
    assert len({at_s for at_s, _ in launches(made)[:3]}) == 3
    made = world({"maximum_offswitch_assignments": 2}, job("a", 4)).run(until_s=30)
    assert len({at_s for at_s, _ in launches(made)[:4]}) == 2


def test_containers_near_their_data_start_in_one_turn() -> None:
    made = world({}, job("a", ["n1"] * 3)).run(until_s=30)
    assert len({at_s for at_s, _ in launches(made)}) == 1


def test_a_node_is_reserved_for_a_container_that_does_not_fit() -> None:
    """b asks for all of the node, which a's maps fill one by one; a's last map waits behind it."""
    spec = {
        "queues": {
            "a": {"capacity": 50, "user_limit_factor": 9},
            "b": {"capacity": 50, "user_limit_factor": 9},
        }
    }
    made = world(spec, job("a", 9, queue="a"), job("b", 1, queue="b", memory=4 * GIB, submit_s=3)).run(
        until_s=90
    )
    names = [name for _, name in launches(made)]
    assert "b" in names and names.index("b") < 9
    assert any("the node is reserved" in row.reason for row in made.tape.decisions)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"queues": {"a": {"capacity": 70}, "b": {"capacity": 40}}}, "capacities add up to 110"),
        ({"queues": {"a.b": {"capacity": 70}}}, "a name has no dots"),
        ({"queues": {"a": {"capacty": 70}}}, "'capacty' is unknown"),
        ({"queues": {"a": {"user_settings": {"u": 2}}}}, "mapping such as {weight: 2}"),
        ({"preemption": {"monitoring_interval": "fast"}}, "monitoring_interval"),
        ({"intra_queue_preemption": {"preemption_order_policy": "x"}}, "userlimit_first"),
    ],
)
def test_bad_settings_are_refused_in_one_line(spec: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        build_policy({"yarn-capacity": spec})


def test_preemption_needs_an_admission_that_compares_room() -> None:
    with pytest.raises(BadInput, match="preemption needs admission=memory"):
        build_policy({"order": {"yarn-capacity": {"preemption": "on"}}, "admission": "slots"})


@pytest.mark.parametrize("order", ["yarn-capacity", "yarn-fair"])
def test_a_composition_gets_containers_unless_it_names_another_admission(order: str) -> None:
    policy, other = build_policy(f"order={order}"), build_policy(f"order={order},admission=slots")
    assert isinstance(policy, Composed) and type(policy.admission) is Containers
    assert isinstance(other, Composed) and type(other.admission) is Slots

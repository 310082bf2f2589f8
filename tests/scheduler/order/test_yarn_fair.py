"""YARN's FairScheduler step by step: the order in the tree of queues, limits, and containers by heartbeat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schedbed.cluster.messages import AttemptStatus, Heartbeat, Launch
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.models.amounts import NOTHING, Amount
from schedbed.scheduler.order.queues.queue_tree import QueuedApp
from schedbed.scheduler.order.queues.weighted_queue import DRF, FAIR, FIFO, FairQueue, FairQueueSettings
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Demand, JobSpec, TaskKind
from tests.harness.world import GIB, Tape, job, node

CLUSTER = Amount(12 * GIB, 12)
Queue = FairQueueSettings


def gib(memory: float, vcores: float = 0) -> Amount:
    return Amount(memory * GIB, vcores)


def app(
    tree: FairQueue, path: str, held: Amount, serial: int, *, pending: int = 9, priority: int = 2
) -> QueuedApp:
    """Add a job to the queue that holds this amount and has so many unstarted maps of 1 GiB and 1 vcore."""
    stages = {
        kind: SimpleNamespace(
            demand=Demand(memory_bytes=GIB, vcores=1),
            unstarted=pending if kind is TaskKind.MAP else 0,
            ready=kind is TaskKind.MAP,
        )
        for kind in TaskKind
    }
    fake: Any = SimpleNamespace(
        job=f"{path}{serial}",
        priority=priority,
        submit_s=float(serial),
        serial=serial,
        stage=stages.__getitem__,
        stages=tuple(stages.values()),
        active=True,
        master=None,
    )
    found = QueuedApp(fake, tree.find(path))
    found.queue.apps[fake.job] = found
    found.hold(held, NOTHING)
    found.ask(True)
    return found


def tree_of(policy: str = FAIR, **queues: FairQueueSettings) -> FairQueue:
    return FairQueue("root", Queue(queues=queues), Queue(scheduling_policy=policy))


def order(policy: str, queues: dict[str, FairQueueSettings], held: dict[str, list[Amount]]) -> list[str]:
    """Return the jobs in the order in which they are offered a node. Jobs are submitted in the order of `held`."""
    tree, serial = tree_of(policy, **queues), 0
    for path, amounts in held.items():
        for amount in amounts:
            app(tree, path, amount, serial)
            serial += 1
    return [each.job.job for each in tree.in_order(CLUSTER)]


def test_queues_below_their_min_share_come_first_by_its_used_part():
    """compareMinShareUsage: b has 1 of 4, a 1 of 2; c has the least memory per weight."""
    queues = {
        "a": Queue(min_resources=gib(2)),
        "b": Queue(min_resources=gib(4)),
        "c": Queue(weight=10),
    }
    assert order(FAIR, queues, {"a": [gib(1)], "b": [gib(1)], "c": [gib(1)]}) == ["b1", "a0", "c2"]
    assert order(FAIR, queues, {"a": [gib(2)], "b": [gib(4)], "c": [gib(9)]}) == ["c2", "a0", "b1"]


def test_a_min_share_counts_up_to_the_demand():
    """a holds 1 GiB and asks for 1 more of its 8: it holds half of what counts, b two fifths of 5."""
    tree = tree_of(a=Queue(min_resources=gib(8)), b=Queue(min_resources=gib(5)))
    app(tree, "a", gib(1), 0, pending=1)
    app(tree, "b", gib(2), 1)
    assert [each.job.job for each in tree.in_order(CLUSTER)] == ["b1", "a0"]
    assert tree.demand().memory_bytes == 13 * GIB
    assert tree_of(a=Queue(max_resources=gib(3))).demand() == Amount()


def test_a_demand_ends_at_the_max_resources():
    tree = tree_of(a=Queue(max_resources=gib(3, 2)))
    app(tree, "a", gib(1, 1), 0)
    assert tree.demand() == gib(3, 2)


def test_a_queue_of_weight_0_comes_after_all_others():
    """compareFairShareUsage: z holds nothing and still comes last; among queues of weight 0, usage decides."""
    queues = {"z": Queue(weight=0), "y": Queue(weight=0), "n": Queue()}
    held = {"z": [gib(0)], "y": [gib(2)], "n": [gib(5, 9)]}
    for policy in (FAIR, DRF):
        assert order(policy, queues, held)[0] == "n2"
    assert order(FAIR, queues, held) == ["n2", "z0", "y1"]


def test_memory_counts_under_fair_and_the_dominant_resource_under_drf():
    """Of 12 GiB and 12 vcores, a has 4 and 1, b 1 and 6: dominant shares of 1/3 and 1/2."""
    held = {"a": [gib(4, 1)], "b": [gib(1, 6)]}
    assert order(FAIR, {}, held) == ["b1", "a0"]
    assert order(DRF, {}, held) == ["a0", "b1"]
    assert order(DRF, {"b": Queue(weight=2)}, held) == ["b1", "a0"]


def test_equal_dominant_shares_are_decided_by_the_other_resource():
    assert order(DRF, {}, {"a": [gib(4, 3)], "b": [gib(2, 4)]}) == ["b1", "a0"]


def test_under_drf_the_min_share_of_the_dominant_resource_counts():
    """a is below its vcores, but memory is dominant; b lacks half of its dominant vcores."""
    queues = {"a": Queue(min_resources=gib(2, 9)), "b": Queue(min_resources=gib(0, 8))}
    assert order(DRF, queues, {"a": [gib(3, 1)], "b": [gib(1, 4)]}) == ["b1", "a0"]
    queues["a"] = Queue(min_resources=gib(4, 0))
    assert order(DRF, queues, {"a": [gib(3, 1)], "b": [gib(1, 4)]}) == ["b1", "a0"]
    assert order(DRF, queues, {"a": [gib(1, 0)], "b": [gib(1, 4)]}) == ["a0", "b1"]


def test_a_queue_counts_what_is_held_below_it():
    """p has 3 GiB in its queues, q 2; inside p, the queue with less comes first, and in it the job with less."""
    held = {"p.r": [gib(0.5), gib(0.25)], "p.s": [gib(2)], "q": [gib(2)]}
    assert order(FAIR, {}, held) == ["q3", "p.r1", "p.r0", "p.s2"]


def test_equal_queues_go_by_name_and_equal_jobs_by_submission():
    assert order(FAIR, {}, {"b": [gib(1), gib(1)], "a": [gib(2)]}) == ["a2", "b0", "b1"]


def test_a_fifo_queue_goes_by_priority_then_submission():
    tree = tree_of(q=Queue(scheduling_policy=FIFO))
    for serial, priority in enumerate((2, 2, 1)):
        app(tree, "q", gib(9 - serial), serial, priority=priority)
    assert [each.job.job for each in tree.in_order(CLUSTER)] == ["q2", "q0", "q1"]


def test_a_queue_without_a_job_that_asks_is_left_out():
    tree = tree_of()
    first = app(tree, "a", gib(1), 0)
    first.ask(False)
    assert list(tree.in_order(CLUSTER)) == []


def test_a_limit_holds_for_all_below_and_max_child_resources_for_undeclared_queues():
    inner = Queue(max_resources=gib(8, 8), max_child_resources=gib(2, 9), queues={"own": Queue()})
    tree = tree_of(p=inner)
    app(tree, "p.own", gib(5, 3), 0)
    app(tree, "p.x", gib(2, 1), 1)
    full = tree.find("p.x").full_for(gib(1))
    assert full is not None and full.name == "p.x"
    assert tree.find("p.own").full_for(gib(1, 4)) is None
    above = tree.find("root.p.own").full_for(gib(1, 5))
    assert above is not None and above.name == "p"


# With the core


class Nodes:
    """A core with nodes of 8 GiB and 8 vcores, whose containers run on."""

    def __init__(self, settings: dict[str, Any], *jobs: JobSpec, nodes: int = 1, cores: int = 8) -> None:
        self.tape = Tape()
        self.core = Core(CoreConfig(expiry_s=1000), build_policy({"yarn-fair": settings}), self.tape)
        for number in range(nodes):
            spec = node(f"n{number + 1}", maps=1, memory_bytes=8 * GIB, cores=cores)
            self.core.register(0, spec, 1)
        for each in jobs:
            self.core.submit(0, each)
        self._sent = dict.fromkeys([f"n{number + 1}" for number in range(nodes)], 0)

    def heartbeat(self, now_s: float, name: str = "n1") -> list[str]:
        """Return the jobs whose containers the heartbeat of the node starts."""
        running = self.core.status()["nodes"][int(name[1:]) - 1]["running"]
        statuses = tuple(AttemptStatus(attempt=each, progress=0, phase="map") for each in running)
        sequence, self._sent[name] = self._sent[name], self._sent[name] + 1
        beat = Heartbeat(node=name, incarnation=1, sequence=sequence, running=statuses)
        reply = self.core.heartbeat(now_s, beat)
        return [action.job for action in reply.actions if isinstance(action, Launch)]


def test_a_heartbeat_starts_one_container_and_map_slots_do_not_count():
    nodes = Nodes({}, job("a", 9, queue="a"), job("b", 9, queue="b"))
    assert [nodes.heartbeat(at_s) for at_s in range(9)] == [*[["a"], ["b"]] * 4, []]


def test_with_assign_multiple_half_of_the_free_room_and_one_more():
    """Of 8 free vcores 4 are half, of 3 one; memory would allow more."""
    nodes = Nodes({"assign_multiple": True}, job("a", 12, queue="a", memory=GIB // 4))
    assert [len(nodes.heartbeat(at_s)) for at_s in range(4)] == [5, 2, 1, 0]
    nodes = Nodes({"assign_multiple": True}, job("a", 12, queue="a", memory=GIB), cores=20)
    assert [len(nodes.heartbeat(at_s)) for at_s in range(4)] == [5, 2, 1, 0]


def test_a_queue_never_holds_more_than_its_max_resources_and_says_so():
    limits = {"max_resources": {"memory": "2GiB"}}
    nodes = Nodes({"queues": {"a": limits}}, job("a", 9, queue="a"))
    assert [nodes.heartbeat(at_s) for at_s in range(3)] == [["a"], ["a"], []]
    assert nodes.tape.decisions[-1].reason == "queue a would hold more than its max_resources"


@pytest.mark.parametrize(
    "limits",
    [
        {"queues": {"p": {"max_running_apps": 1}}},
        {"max_running_apps": 1},
        {"users": {"ana": {"max_running_apps": 1}}},
    ],
)
def test_a_job_above_a_limit_of_running_jobs_gets_no_container(limits: dict[str, Any]):
    """The limit is that of the parent, of all queues (so of the root), or of the user."""
    nodes = Nodes(limits, job("a", 2, queue="p.x"), job("b", 2, queue="p.y"))
    assert [nodes.heartbeat(at_s) for at_s in range(4)] == [["a"], ["a"], [], []]


def test_defaults_hold_for_the_root_unless_it_has_its_own():
    """AllocationConfiguration.getMaxResources: 2 GiB are all that the queues hold together, then 2 GiB each."""
    two, root = {"memory": "2GiB"}, {"root": {"max_resources": {"memory": "8GiB"}, "queues": {"a": {}}}}
    jobs = (job("a", 9, queue="a"), job("b", 9, queue="b"))
    for queues, held in (({}, 2), (root, 4)):
        nodes = Nodes({"max_resources": two, "queues": queues}, *jobs)
        assert sum(len(nodes.heartbeat(at_s)) for at_s in range(9)) == held


def test_the_next_job_runs_when_one_ends():
    nodes = Nodes({"max_running_apps": 1}, *(job(name, 2, queue="p") for name in ("a", "b", "c")))
    nodes.heartbeat(0)
    nodes.core.kill_job(0.5, "a", "enough")
    started = [each for at_s in range(1, 7) for each in nodes.heartbeat(at_s)]
    assert started == ["b", "b"]


def test_the_reduces_of_the_first_job_end_the_turn_of_the_maps():
    """a holds less than b and asks for reduces only: b's maps must not take the heartbeat's one container."""
    nodes = Nodes({}, job("a", [], reduces=1, queue="a"), job("b", 9, queue="b"))
    assert nodes.heartbeat(0) == ["a"]
    assert nodes.heartbeat(1) == ["b"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"queues": {"p": {"scheduling_policy": "fifo", "queues": {"x": {}}}}}, "without child queues"),
        ({"queues": {"p": {"scheduling_policy": "drf"}}}, "needs drf in its parent root"),
        ({"queues": {"p.x": {}}}, "a name has no dots"),
        ({"queues": {"root": {}, "p": {}}}, "the other queues belong in its `queues`"),
        ({"queues": {"p": {"max_resources": "4GiB"}}}, "not a mapping such as"),
        ({"queues": {"p": {"min_resources": {"disk": 1}}}}, "not a mapping such as"),
        ({"queues": {"p": {"queues": {"x": {"weight": -1}}}}}, "0 or more"),
        ({"scheduling_policy": "fifo"}, "not one of fair, drf"),
    ],
)
def test_settings_that_hadoop_refuses_are_refused_with_the_reason(settings: dict[str, Any], said: str):
    with pytest.raises(BadInput, match=said):
        build_policy({"yarn-fair": settings})

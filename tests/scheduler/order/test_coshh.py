"""The policy COSHH: classes of jobs by k-means, the classes that a linear program suggests for each node, and
the next job on a free slot.
"""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.models.job_classes import classify, suggest
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node


def launched(world: World, name: str, first_s: float, last_s: float) -> list[str]:
    """Return the jobs of the maps that were launched on node `name` from `first_s` until before `last_s`."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and row.node == name]
    return [row.job for row in rows if first_s <= row.t < last_s]


def test_classes_by_hand():
    """Five points (seconds, priority) form three classes: short jobs, long jobs with another priority, and
    long jobs.

    Classes are numbered by time.
    """
    features = [[5.0, 2], [0.0, 2], [5.1, 2], [0.1, 2], [5.0, 0]]
    assert classify(features, 3) == [2, 0, 2, 0, 1]
    assert classify(features, 1) == [0] * 5
    assert classify([[1.0, 2.0]] * 4, 3) == [0] * 4  # all alike: one class
    assert sorted(set(classify([[float(i), 0.0] for i in range(9)], 4))) == [0, 1, 2, 3]


def test_suggestions_by_hand():
    """Tasks of class 0 take 1 s on fast resources and 4 s on slow ones, and tasks of class 1 take 1 s on
    both.

    Each resource has one slot, and both classes have equally many tasks. Let class 0 use the part x of the
    fast and the part y of the slow resource. Then x + y/4 tasks of class 0 and (1 - x) + (1 - y) tasks of
    class 1 end per second. For x = 1 and y = 0 both values are 1. Any other pair lowers one of them.
    """
    assert suggest([10, 10], [[1, 4], [1, 1]], [1, 1]) == [{0}, {1}]
    # Four times as many tasks of class 0: x = 1, and y/4 + 1 = 4 (1 - y) gives y = 12/17 of the slow one as well.
    assert suggest([40, 10], [[1, 4], [1, 1]], [1, 1]) == [{0}, {0, 1}]
    # On one kind of hardware every class has its part.
    assert suggest([3, 1, 2], [[1], [5], [2]], [7]) == [{0, 1, 2}]
    assert suggest([1, 1], [[1, 1], [1, 1]], [0, 0]) == [{0, 1}, {0, 1}]


def test_each_class_runs_where_it_is_fast():
    """Node n1 is four times as fast as n2.

    Maps of job a compute (4 s on n1, 16 s on n2), those of b do not (4 s on both). Nothing is known at 0 s.
    At 4 s three maps have ended, and on the next tick a and b become two classes. The linear program suggests
    n1 for a and n2 for b. From 8 s on each node runs its own class, until one class has no maps left.
    """
    world = World(build_policy("coshh"), [node("n1", maps=2), node("n2", maps=2, core_speed=0.25)])
    world.lasts = lambda attempt, name: 16_000 if attempt.startswith("a") and name == "n2" else 4_000
    world.submit(job("a", 10, reduces=1)).submit(job("b", 10, user="bo", reduces=1)).run()
    assert launched(world, "n1", 0, 1) == launched(world, "n2", 0, 1) == ["a", "b"]
    assert launched(world, "n1", 8, 15) == ["a"] * 4
    assert set(launched(world, "n2", 7, 15)) == {"b"}
    reasons = {row.reason for row in world.tape.decisions if row.t >= 8}
    assert "no preferred node; class 1 of 2, suggested here, 4 s a map" in reasons
    assert any("not suggested here" in reason for reason in reasons)


def test_users_below_their_min_share_come_first_and_who_lacks_most_before_others():
    """Among six slots, cy lacks three slots of the min share and bo two, and ana has none.

    The first slot goes to cy. Then bo and cy lack two each and receive slots in turn by name. The sixth slot
    goes to ana, who has no running task.
    """
    users = {"bo": {"min_share": 2}, "cy": {"min_share": 3}}
    world = World(build_policy({"coshh": {"users": users}}), [node("n1", maps=6)])
    for name, user in (("a", "ana"), ("b", "bo"), ("c", "cy")):
        world.submit(job(name, 9, user=user))
    world.run(until_s=1)
    assert launched(world, "n1", 0, 1) == ["c", "b", "c", "b", "c", "a"]
    first = next(row.reason for row in world.tape.decisions)
    assert first == "no preferred node; cy is 3 below the min share, no class yet"


def test_users_share_what_is_left_by_weight():
    world = World(build_policy({"coshh": {"users": {"bo": {"weight": 3}}}}), [node("n1", maps=4)])
    world.submit(job("a", 9)).submit(job("b", 9, user="bo")).run(until_s=1)
    assert sorted(launched(world, "n1", 0, 1)) == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("coshh:classes=0", "classes: '0' is not a whole number, 1 or more"),
        (
            {"coshh": {"users": {"ana": {"min_share": 0}}}},
            "user ana: min_share: 0 is not a whole number above 0",
        ),
    ],
)
def test_bad_settings_are_bad_input(spec: Any, why: str):
    with pytest.raises(BadInput, match=why):
        build_policy(spec)

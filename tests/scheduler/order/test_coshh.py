"""COSHH: classes by k-means, suggestions by the linear program, and who is next on a free slot."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.models.job_classes import classify, suggest
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node


def launched(world: World, name: str, first_s: float, last_s: float) -> list[str]:
    """The jobs of the maps that were launched on that node then."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and row.node == name]
    return [row.job for row in rows if first_s <= row.t < last_s]


def test_classes_by_hand():
    """Three clouds, by time first: short ones, long ones of another priority, long ones."""
    features = [[5.0, 2], [0.0, 2], [5.1, 2], [0.1, 2], [5.0, 0]]
    assert classify(features, 3) == [2, 0, 2, 0, 1]
    assert classify(features, 1) == [0] * 5
    assert classify([[1.0, 2.0]] * 4, 3) == [0] * 4  # all alike: one class
    assert sorted(set(classify([[float(i), 0.0] for i in range(9)], 4))) == [0, 1, 2, 3]


def test_suggestions_by_hand():
    """Class 0 takes 1 s on a fast resource and 4 s on a slow one, class 1 takes 1 s on both; one slot each, as many
    tasks of either. With x and y the parts of the fast and the slow one that class 0 gets: x + y/4 tasks a second of
    class 0 and (1 - x) + (1 - y) of class 1. Both are 1 with x = 1 and y = 0, and any other pair has less of one.
    """
    assert suggest([10, 10], [[1, 4], [1, 1]], [1, 1]) == [{0}, {1}]
    # Four times as many tasks of class 0: x = 1, and y/4 + 1 = 4 (1 - y) gives y = 12/17 of the slow one as well.
    assert suggest([40, 10], [[1, 4], [1, 1]], [1, 1]) == [{0}, {0, 1}]
    # On one kind of hardware every class has its part.
    assert suggest([3, 1, 2], [[1], [5], [2]], [7]) == [{0, 1, 2}]
    assert suggest([1, 1], [[1, 1], [1, 1]], [0, 0]) == [{0, 1}, {0, 1}]


def test_each_class_runs_where_it_is_fast():
    """By hand: n1 is four times as fast as n2; a's maps compute (4 s and 16 s), b's do not (4 s on both).

    Nothing is known at 0 s. At 4 s three maps have ended, and on the next tick a and b are two classes: the program
    gives n1 to a and n2 to b. From 8 s on each node runs its own class, until one has no maps left.
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
    """By hand, six slots: cy lacks three, bo two; one to cy (2 left), then bo and cy in turn by name while they lack
    as much, and the sixth slot to ana, who holds nothing.
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

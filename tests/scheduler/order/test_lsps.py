"""The policy LsPS: equations 1 to 4 (equation 2 corrected), and the order of a user's jobs, which depends on
how much their sizes vary.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.models.task_times import MeanTimes
from schedbed.scheduler.order.lsps import Lsps, slots_by_size, variation
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node


def launched(world: World, first_s: float, last_s: float) -> list[str]:
    """Return the jobs of the maps that were launched from `first_s` until before `last_s`."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and first_s <= row.t < last_s]
    return [row.job for row in rows]


def lsps_of(policy: Any) -> Lsps:
    assert isinstance(policy, Composed) and isinstance(policy.order, Lsps)
    return policy.order


def test_slots_by_hand():
    """Mean job sizes of 10 and 30 s divide 12 slots in the ratio 1/10 to 1/30.

    With alpha 1 the users have 9 and 3 slots, with alpha 0 they have 6 and 6, and with alpha 0.5 the mean of
    both, 7.5 and 4.5.
    """
    sizes = {"ana": 10.0, "bo": 30.0}
    assert slots_by_size(12, sizes, 1.0) == pytest.approx({"ana": 9, "bo": 3})
    assert slots_by_size(12, sizes, 0.0) == pytest.approx({"ana": 6, "bo": 6})
    assert slots_by_size(12, sizes, 0.5) == pytest.approx({"ana": 7.5, "bo": 4.5})


@given(
    sizes=st.dictionaries(st.text(max_size=3), st.floats(0.01, 1e6), min_size=1, max_size=9),
    alpha=st.floats(0, 1),
)
def test_all_slots_are_given_and_small_jobs_never_get_fewer(sizes: dict[str, float], alpha: float):
    """Equation 4: all slots are divided.

    A user with smaller jobs never has fewer slots. The printed form of the equation violates this by wrong
    brackets.
    """
    slots = slots_by_size(40, sizes, alpha)
    assert sum(slots.values()) == pytest.approx(40)
    ordered = [slots[user] for user in sorted(sizes, key=lambda user: sizes[user])]
    assert all(more >= less - 1e-9 for more, less in pairwise(ordered))


def test_variation_by_hand():
    """Coefficients of variation.

    Sizes 2 and 4 have the mean 3 and the deviation 1. Sizes 1, 1, 1, 9 have the mean 3 and the variance (3 x
    4 + 36) / 4 = 12.
    """
    assert variation([2, 4]) == pytest.approx(1 / 3)
    assert variation([1, 1, 1, 9]) == pytest.approx(12**0.5 / 3)
    assert variation([5]) == variation([]) == 0


def test_what_is_not_known_of_a_job_is_taken_from_its_user_and_then_from_everybody():
    everybody = MeanTimes()
    ana, bo = MeanTimes(everybody), MeanTimes(everybody)
    first, second = MeanTimes(ana), MeanTimes(ana)
    assert first.size_s(3, 1) == 4.0  # nothing is known: a second each
    first.add(TaskKind.MAP, 10)
    assert (first.size_s(3, 1), second.size_s(2, 0), bo.mean_s(TaskKind.MAP)) == (31, 20, 10)
    second.add(TaskKind.MAP, 20)
    assert (second.size_s(2, 0), ana.mean_s(TaskKind.MAP), first.mean_s(TaskKind.MAP)) == (40, 15, 10)
    bo.add(TaskKind.MAP, 60)
    assert everybody.mean_s(TaskKind.MAP) == 30


def test_the_user_with_small_jobs_gets_more_slots():
    """With alpha 1, the user with the smaller job has more of eight slots.

    Before any task has ended, the 24 maps of ana's job and the 8 of bo's count as sizes 24 and 8. The weights
    1/24 and 1/8 are 1/4 and 3/4 of their sum: 2 and 6 slots.
    """
    policy = build_policy("lsps:alpha=1")
    world = World(policy, [node("n1", maps=4), node("n2", maps=4)])
    world.submit(job("a", 24)).submit(job("b", 8, user="bo")).run(until_s=1)
    assert lsps_of(policy).slots(world.core.ledger, TaskKind.MAP) == pytest.approx({"ana": 2, "bo": 6})
    assert sorted(launched(world, 0, 1)) == ["a"] * 2 + ["b"] * 6
    last = world.tape.decisions[-1].reason
    assert "slots for jobs of" in last and "fifo as they vary by 0.00" in last
    equal = World(build_policy("lsps:alpha=0"), [node("n1", maps=4), node("n2", maps=4)])
    equal.submit(job("a", 24)).submit(job("b", 8, user="bo")).run(until_s=1)
    assert sorted(launched(equal, 0, 1)) == ["a"] * 4 + ["b"] * 4


def test_measured_times_count_and_each_user_has_a_slot():
    """Measured durations of maps change the sizes of jobs.

    Both users have 400 maps, and those of bo take ten times as long. With alpha 1 ana's slots grow to 10/11
    of eleven. Bo keeps one slot, the min share by equation 3.
    """
    policy = build_policy("lsps:alpha=1")
    world = World(policy, [node("n1", maps=11)])
    world.durations = {"a": 2000, "b": 20_000}
    world.submit(job("a", 400)).submit(job("b", 400, user="bo")).run(until_s=45)
    order = lsps_of(policy)
    assert order.slots(world.core.ledger, TaskKind.MAP) == pytest.approx({"ana": 10, "bo": 1}, rel=0.02)
    assert [order.pools[user].tallies[TaskKind.MAP].running for user in ("ana", "bo")] == [10, 1]
    assert all(pool.settings.min_share == (1, 1) for pool in order.pools.values())


def test_jobs_of_one_size_go_by_fifo_and_others_by_fair_shares():
    """Jobs of equal size run in FIFO order.

    Jobs of 36, 4, 4 and 4 maps (variation 1.15) share the slots fairly, so the large job does not delay the
    others.
    """
    alike = World(build_policy("lsps"), [node("n1", maps=2)])
    for name in ("a", "b", "c"):
        alike.submit(job(name, 4))
    alike.run()
    assert launched(alike, 0, 1000) == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    mixed = World(build_policy("lsps"), [node("n1", maps=4)])
    for name, maps in (("a", 36), ("b", 4), ("c", 4), ("d", 4)):
        mixed.submit(job(name, maps))
    mixed.run(until_s=1)
    assert sorted(launched(mixed, 0, 1)) == ["a", "b", "c", "d"]


def test_bad_settings_are_bad_input():
    for spec, why in (
        ("lsps:alpha=2", "alpha: '2' is not a share"),
        ("lsps:window=-1", "window: '-1' is not"),
    ):
        with pytest.raises(BadInput, match=why):
            build_policy(spec)

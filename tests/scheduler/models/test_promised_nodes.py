"""Slurm's plan over whole nodes, compared with starts and nodes worked out by hand from Slurm's source."""

from __future__ import annotations

import pytest

from schedbed.scheduler.models.rigid.promised_nodes import NodePlan, pick_nodes
from schedbed.scheduler.models.rigid.promised_slots import SlotPlan


@pytest.mark.parametrize(
    ("free", "size", "slots"),
    [
        ([2, 2, 2, 2], 3, {0: 2, 1: 1}),  # by name
        ([2, 0, 2, 2], 2, {0: 2}),  # the smallest run that suffices
        ([2, 0, 2, 2], 5, {0: 2, 2: 2, 3: 1}),  # the largest run, then the next; filled by name
        ([2, 1, 2], 1, {1: 1}),  # one node alone: the one with the fewest slots
        ([0, 1, 2, 2, 2], 6, {1: 1, 2: 2, 3: 2, 4: 1}),  # as n[2-5] in the recording exact-fcfs-1
        ([2, 2, 2], 7, None),
        ([2, -1, 1], 4, None),  # A node whose slots were taken by something else.
    ],
)
def test_nodes_are_picked_as_select_cons_tres_does(
    free: list[int], size: int, slots: dict[int, int] | None
) -> None:
    assert pick_nodes(free, size) == slots


def nodes(count: int, slots: int = 2) -> dict[str, int]:
    return {f"n{i}": slots for i in range(1, count + 1)}


def held(first: int, last: int, slots: int = 2) -> dict[str, int]:
    return {f"n{i}": slots for i in range(first, last + 1)}


def test_a_reservation_keeps_its_nodes_whole() -> None:
    """Two of three nodes are busy until 60 s and 60.5 s. A job of five slots needs all nodes then.

    A job of one slot and 300 s would fit beside it, by slots.
    """
    plan = NodePlan(3.0, nodes(3), [(60.0, held(1, 1)), (60.5, held(2, 2))])
    assert plan.start(5, 60.0) is None
    assert plan.reserve(5, 60.0) == 60.5
    assert plan.start(1, 300.0) is None
    assert plan.start(1, 57.0) == {"n3": 1}
    assert not plan.full
    by_slots = SlotPlan(3.0, 6, 2, [(60.0, 2), (60.5, 2)], 0.5)
    assert by_slots.reserve(5, 60.0) == 60.0
    assert by_slots.start(1, 300.0) == {}


def test_a_later_reservation_is_on_the_nodes_that_are_idle_now() -> None:
    """The recording exact-conservative: job 3 is promised n5 and n6, the idle nodes, once job 2 has left n5.

    So job 4 of two minutes may not have n6, and job 8 of one minute may.
    """
    plan = NodePlan(3.0, nodes(6), [(60.0, held(1, 4))])
    assert plan.reserve(10, 60.0) == 60.0
    assert plan.start(4, 60.0) is None
    assert plan.reserve(4, 60.0) == 120.0
    assert plan.start(2, 120.0) is None
    assert plan.start(2, 56.0) == {"n5": 2}
    assert plan.start(2, 60.0) == {"n6": 2}
    assert plan.full


def test_a_reservation_that_begins_when_a_job_must_end_holds_it_back() -> None:
    """As in Slurm, whose comparison is `begin_time <= end_time`."""
    plan = NodePlan(0.0, nodes(2), [(60.0, held(1, 1))])
    assert plan.reserve(4, 60.0) == 60.0
    assert plan.start(2, 60.0) is None
    assert plan.start(2, 59.0) == {"n2": 2}


@pytest.mark.parametrize(("second_s", "at_s"), [(130.0, 130.0), (160.0, 100.0)])
def test_ends_within_a_window_count_together(second_s: float, at_s: float) -> None:
    """The window goes to 150 s: 30 s after the multiple of 30 s that follows the first end."""
    plan = NodePlan(3.0, nodes(2), [(100.0, held(1, 1)), (second_s, held(2, 2))])
    assert plan.reserve(2, 60.0) == at_s


def test_a_promise_that_is_over_is_taken_for_a_kill_after_30_s() -> None:
    assert NodePlan(65.0, nodes(1), [(60.0, held(1, 1))]).reserve(2, 60.0) == 90.0
    assert NodePlan(95.0, nodes(1), [(60.0, held(1, 1))]).reserve(2, 60.0) == 95.0
    assert NodePlan(65.0, nodes(1), [(60.0, held(1, 1))], kill_wait_s=7.0).reserve(2, 60.0) == 67.0


def test_a_job_without_a_requested_time_lasts_a_year() -> None:
    plan = NodePlan(0.0, nodes(2), [(float("inf"), held(1, 1))])
    assert plan.reserve(4, float("inf")) == 365 * 86_400.0
    assert plan.start(2, float("inf")) is None
    assert plan.start(2, 1e6) == {"n2": 2}


def test_names_are_in_the_order_of_their_numbers() -> None:
    plan = NodePlan(0.0, nodes(11), [(60.0, held(1, 8))])
    assert plan.start(5, 60.0) == {"n9": 2, "n10": 2, "n11": 1}


RUNNING = [
    (252.0, {"n5": 2, "n6": 1}),
    (82.0, {"n3": 1}),
    (86.0, {"n6": 1}),
    (148.0, {"n7": 1}),
    (93.0, {"n9": 2, "n10": 1}),
    (124.0, {"n1": 2, "n2": 2, "n3": 1, "n4": 2, "n7": 1, "n8": 2}),
]
"""A moment in a run of Slurm 22.05.8 with ten nodes, 4 s after a multiple of 30 s by its clock."""


def test_a_plan_is_that_of_slurm_itself() -> None:
    """The starts are those in slurmctld.log (DebugFlags=Backfill) for six waiting jobs.

    The third starts at 124 s since the job that ends at 93 s has none of the nodes that are left, so the window's
    end is not looked at after it.
    """
    plan = NodePlan(4.0, nodes(10), RUNNING)
    jobs = [(2, 120.0), (2, 60.0), (6, 120.0), (10, 60.0), (2, 60.0), (2, 120.0)]
    assert [plan.reserve(*job) for job in jobs] == [93.0, 93.0, 124.0, 213.0, 124.0, 244.0]


def test_another_second_of_the_clock_makes_another_plan() -> None:
    """The first window ends 146 s, 160 s or 131 s after the run's start."""
    ends = [(100.0, held(1, 1)), (140.0, held(2, 2))]
    assert NodePlan(3.0, nodes(2), ends, epoch_s=4.0).reserve(2, 60.0) == 140.0
    assert NodePlan(3.0, nodes(2), ends, epoch_s=20.0).reserve(2, 60.0) == 140.0
    assert NodePlan(3.0, nodes(2), ends, epoch_s=19.0).reserve(2, 60.0) == 100.0


def test_the_times_of_reservations_are_rounded_down() -> None:
    """The reservation from 70 s to 130 s keeps its nodes from 60 s to 120 s, as with bf_resolution=60."""
    plan = NodePlan(0.0, nodes(2), [(70.0, held(1, 1))], resolution_s=60.0)
    assert plan.reserve(4, 60.0) == 70.0
    assert plan.start(1, 60.0) is None
    assert plan.start(1, 59.0) == {"n2": 1}
    assert plan.reserve(4, 60.0) == 120.0

"""Algorithm 1 of the policy RAS (polo2011) on small placements by hand, and properties of any placement."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.scheduler.models.ras_placement import PlacedJob, Placement
from schedbed.scheduler.models.resource_profiles import Amounts, NodeDemands

SORT = NodeDemands(Amounts(30, 45, 25), Amounts(0, 0.15, 0), Amounts(20, 50, 60), 4)
COMBINE = NodeDemands(Amounts(25, 10, 10), Amounts(0, 0.015, 0), Amounts(10, 10, 25), 4)
REMOTE = NodeDemands(Amounts(10, 10, 10, 30), Amounts(0, 0, 0, 20), Amounts(10, 10, 10, 50), 2)
SELECT = NodeDemands(Amounts(15, 20, 10), Amounts(0, 0.015, 0), Amounts(10, 10, 25), 4)


def placed_job(
    serial: int, demands: NodeDemands | Sequence[NodeDemands], pending: int, required: int = 0, **changes: int
) -> PlacedJob:
    """Return a job with `pending` maps that needs `required` slots for its goal.

    By default it needs one slot per pending map. `demands` are the job's demands on one kind of node, or a
    sequence with the demands on several kinds.
    """
    kinds = (demands,) if isinstance(demands, NodeDemands) else demands
    return PlacedJob(
        job=f"job_{serial:04d}",
        serial=serial,
        demands=kinds,
        pending=pending,
        required=required or max(1, pending),
        **changes,  # pyright: ignore
    )


def place(jobs: Sequence[PlacedJob], nodes: int, rounds: int = 10) -> Placement:
    """Return the placement of the jobs on equal nodes after `rounds` rounds."""
    placement = Placement(jobs, [0] * nodes)
    for _ in placement.run(rounds):
        pass
    return placement


@pytest.mark.parametrize(
    ("demands", "maps", "used"),
    [
        (SORT, 2, [60, 90, 50, 0]),  # a third map would need 135 % of the I/O
        (COMBINE, 4, [100, 40, 40, 0]),
        (SELECT, 5, [75, 100, 50, 0]),
        (REMOTE, 3, [30, 30, 30, 90]),  # a fourth map would need 120 % of the network
    ],
)
def test_the_bottleneck_says_how_many_maps_a_node_runs(demands: NodeDemands, maps: int, used: list[float]):
    """Each job of Table 2 is alone on a node. The number of maps that fit differs from job to job."""
    job = placed_job(1, demands, 100)
    placement = place([job], 1)
    assert job.maps == {0: maps}
    assert placement.used[0] == pytest.approx(used)


def test_jobs_that_need_unlike_resources_share_a_node():
    """Two maps of sort and one of combine are placed in turn, the job with the lower utility first.

    Then 100% of the I/O and 85% of the CPU are used, and no other map fits.
    """
    sort, combine = placed_job(1, SORT, 10), placed_job(2, COMBINE, 10)
    placement = place([sort, combine], 1)
    # -inf both: sort (30/45), combine (55/55); both at one of ten: -1; sort is first but 60/90+10 leaves I/O
    # for one combine only: (85/100). Nothing fits any more.
    assert (sort.maps, combine.maps) == ({0: 2}, {0: 1})
    assert placement.used[0] == pytest.approx([85, 100, 60, 0])


def test_a_goal_brings_slots():
    """Both jobs have 20 pending maps.

    The first needs 2 slots for its goal, the second 8. Among 12 slots each has at least the number needed.
    """
    jobs = [placed_job(1, COMBINE, 20, 2), placed_job(2, COMBINE, 20, 8)]
    placement = place(jobs, 3)  # 12 maps
    assert jobs[1].placed >= 8 and jobs[0].placed >= 2 and jobs[0].placed + jobs[1].placed == 12
    assert placement.utilities()[0] >= 0


def test_running_maps_leave_the_placement_for_the_poorest():
    """The first job's 8 maps fill both nodes. A new job with the same demands is given half of the places."""
    old, new = placed_job(1, COMBINE, 8), placed_job(2, COMBINE, 8)
    old.maps = {0: 4, 1: 4}
    place([old, new], 2)
    assert old.placed + new.placed == 8 and abs(old.placed - new.placed) <= 1


def test_no_job_gives_up_its_last_map():
    """With room for one map and two jobs, the job that has the map keeps it."""
    big = NodeDemands(Amounts(100, 0, 0), Amounts(), Amounts(), 4)
    has, wants = placed_job(1, big, 3), placed_job(2, big, 3)
    has.maps = {0: 1}
    place([has, wants], 1)
    assert (has.maps, wants.maps) == ({0: 1}, {})


def test_reduces_are_spread_before_maps():
    """Four reduces of sort and two of combine are placed on six nodes, one on each."""
    sort = placed_job(1, SORT, 10, reduces_pending=4)
    combine = placed_job(2, COMBINE, 10, reduces_pending=2)
    place([sort, combine], 6)
    assert sort.reduces == {0: 1, 1: 1, 2: 1, 3: 1}
    assert combine.reduces == {4: 1, 5: 1}


def test_more_reduces_than_nodes():
    """Reduces of combine use 25% of the memory, so four fit on a node.

    The single pass of the paper's listing would place only one on each of the two nodes.
    """
    combine = placed_job(1, COMBINE, 10, reduces_pending=7)
    place([combine], 2)
    assert combine.reduces == {0: 4, 1: 3}


def test_reduces_fit_together_once_they_reduce():
    """Only one reduce of sort is placed on each node, because two would use 120% of the memory in their
    reduce phase.
    """
    sort = placed_job(1, SORT, 10, reduces_pending=4)
    place([sort], 2)
    assert sort.reduces == {0: 1, 1: 1}


def test_waiting_reduces_leave_room_for_maps():
    """Each waiting reduce uses 40% of the memory and a map 50%, so one of each is placed.

    Without pending maps two reduces are placed.
    """
    demands = NodeDemands(Amounts(0, 0, 50), Amounts(0, 0, 40), Amounts(0, 0, 40), 4)
    waiting, done = placed_job(1, demands, 5, reduces_pending=3), placed_job(2, demands, 0, reduces_pending=3)
    place([waiting], 1)
    assert waiting.reduces == {0: 1} and waiting.maps == {0: 1}
    done.reducing = True
    place([done], 1)
    assert done.reduces == {0: 2}


def test_the_switch_to_the_reduce_profile_pushes_maps_out():
    """A reduce of sort needs 60% of the memory in its reduce phase, so only two of four maps with 20% each
    stay in the placement.
    """
    mine = placed_job(1, SORT, 0, reduces_pending=1)
    mine.reduces, mine.reducing = {0: 1}, True
    others = placed_job(2, NodeDemands(Amounts(5, 5, 20), Amounts(), Amounts(), 4), 9)
    others.maps = {0: 4}
    placement = place([mine, others], 1)
    assert others.maps == {0: 2} and placement.used[0] == pytest.approx([30, 60, 100, 0])


def test_shuffles_take_io_for_each_map_up_to_the_copies():
    """The shuffle uses 10% of the I/O for each map, for at most two parallel copies.

    Three maps of 25% use 95% in all, a fourth would not fit.
    """
    demands = NodeDemands(Amounts(0, 25, 0), Amounts(0, 10, 0), Amounts(), 2)
    job = placed_job(1, demands, 9, reduces_pending=1)
    placement = place([job], 1)
    assert job.maps == {0: 3} and placement.used[0] == pytest.approx([0, 95, 0, 0])


def test_shuffles_take_network_for_each_map_up_to_the_copies():
    """A map receives 30% of the network, and the shuffle 20% more for each of at most two maps.

    Two maps use 60 + 2 x 20 = 100%.
    """
    job = placed_job(1, REMOTE, 9, reduces_pending=1)
    placement = place([job], 1)
    assert job.maps == {0: 2} and placement.used[0] == pytest.approx([20, 20, 20, 100])


def test_a_full_node_elsewhere_keeps_a_map_from_starting():
    """The job's reduce is on a node that has no I/O left to fetch another map's output.

    So no map is placed on the other node.
    """
    demands = NodeDemands(Amounts(0, 50, 0), Amounts(0, 30, 0), Amounts(), 4)
    mine, other = (
        placed_job(1, demands, 1),
        placed_job(2, NodeDemands(Amounts(0, 80, 0), Amounts(), Amounts(), 4), 1),
    )
    mine.reduces, mine.reduces_pending, other.maps = {0: 1}, 1, {0: 1}
    place([mine, other], 2)
    assert (mine.maps, other.maps) == ({}, {0: 1})


def test_barred_nodes_get_nothing():
    job = placed_job(1, COMBINE, 9, reduces_pending=3)
    job.barred = frozenset([0])
    place([job], 2)
    assert set(job.maps) == {1} == set(job.reduces)


# What must hold of any placement

amounts = st.builds(
    Amounts, *(st.sampled_from([0.0, 3.0, 10.0, 25.0, 33.3, 45.0, 60.0, 100.0]) for _ in range(4))
)


@st.composite
def all_demands(draw: st.DrawFn) -> NodeDemands:
    shuffle = draw(amounts)
    io = draw(st.sampled_from([0.0, 0.15, 5.0, 25.0]))
    return NodeDemands(draw(amounts), shuffle._replace(io=io), draw(amounts), draw(st.sampled_from([1, 4])))


@st.composite
def any_jobs(draw: st.DrawFn, serial: int = 0) -> list[PlacedJob]:
    """Draw one to six jobs with demands on two kinds of nodes and nothing placed."""
    made = []
    for number in range(draw(st.integers(1, 6))):
        pending = draw(st.integers(0, 12))
        made.append(
            placed_job(
                serial + number,
                (draw(all_demands()), draw(all_demands())),
                pending,
                draw(st.integers(1, max(1, pending))),
                reduces_pending=draw(st.integers(0, 4)),
            )
        )
        made[-1].reducing = not pending
    return made


class Careful(Placement):
    """A placement that asserts at each step that the smallest utility of all jobs does not fall."""

    def _improve(self, node: int) -> None:
        before = self.utilities()
        super()._improve(node)
        assert not before or self.utilities()[0] >= before[0] - 1e-9


def assert_within_capacity(placement: Placement) -> None:
    """Assert Equation 6: the summed demands on each node are at most 100%.

    Assert that each job's counters match its tasks.
    """
    for job in placement.jobs:
        assert job.placed == sum(job.maps.values()) <= job.pending
        assert job.reduces_placed == sum(job.reduces.values()) <= max(job.reduces_pending, 0)
    for node, kind in enumerate(placement.kinds):
        totals = [0.0, 0.0, 0.0]
        for job in placement.jobs:
            demands = job.demands[kind]
            reduce = demands.reduce if job.reducing else demands.shuffling(job.placed)
            for place in range(3):
                totals[place] += job.maps.get(node, 0) * demands.map[place]
                totals[place] += job.reduces.get(node, 0) * reduce[place]
        assert max(totals) <= 100 + 1e-3, (node, totals)


def goes_on(job: PlacedJob, finished: int) -> PlacedJob:
    """Return the job one cycle later: its placed maps are running, and `finished` of them have ended."""
    done = min(finished, job.placed)
    later = placed_job(
        job.serial,
        job.demands,
        job.pending - done,
        reduces_pending=job.reduces_pending,
        required=job.required,
    )
    later.maps, later.reduces = dict(job.maps), dict(job.reduces)
    for _ in range(done):
        node = next(iter(later.maps))
        later.maps[node] -= 1
        if not later.maps[node]:
            del later.maps[node]
    later.required = max(1, min(later.required, later.pending))
    later.reducing = not later.pending
    return later


@settings(max_examples=80, deadline=None)
@given(
    first=any_jobs(),
    second=any_jobs(serial=100),
    kinds=st.lists(st.integers(0, 1), min_size=1, max_size=5),
    finished=st.lists(st.integers(0, 12), min_size=6, max_size=6),
)
def test_no_capacity_is_exceeded_and_the_least_utility_never_falls(
    first: list[PlacedJob], second: list[PlacedJob], kinds: list[int], finished: list[int]
):
    """Over two cycles, in which maps end and new jobs come, no node's capacity is exceeded and the smallest
    utility never falls.
    """
    one = Careful(first, kinds)
    for _ in one.run(5):
        pass
    assert_within_capacity(one)
    jobs = [goes_on(job, done) for job, done in zip(first, finished, strict=False)] + second
    two = Careful(jobs, kinds)
    for _ in two.run(5):
        pass
    assert_within_capacity(two)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), kinds=st.lists(st.integers(0, 1), min_size=1, max_size=5))
def test_more_rounds_are_never_worse(data: st.DataObject, kinds: list[int]):
    """The sorted utilities of all jobs never become worse as the number of rounds grows from 0 to 3."""
    jobs = data.draw(any_jobs())
    before: list[float] = []
    for rounds in range(4):
        fresh = [goes_on(job, 0) for job in jobs]
        placement = Placement(fresh, kinds)
        for _ in placement.run(rounds):
            pass
        assert placement.utilities() >= before
        before = placement.utilities()

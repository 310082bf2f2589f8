"""The policy RAS on small clusters in virtual time: its placement cycles, the launches between them, and its
reasons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.scheduler.hooks import Kill, Proposal
from schedbed.scheduler.models.resource_profiles import RESOURCES, Amounts, NodeDemands, read_profile
from schedbed.scheduler.policies.ras import Ras
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.view import AttemptView, NodeView, View
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Counters, TaskKind
from tests.harness.declared_costs import TABLE_2
from tests.harness.world import World, job, node
from tests.scheduler.core.test_properties import Story, run_story, stories


def ras(**parameters: Any) -> Ras:
    """Return the policy RAS with the resource profiles of Table 2."""
    policy = build_policy({"ras": {"profiles": TABLE_2, **parameters}})
    assert isinstance(policy, Ras)
    return policy


def running(world: World, at_s: float) -> dict[str, int]:
    """Return a dictionary from job to the number of its attempts that were running at `at_s`."""
    rows = [row for row in world.tape.attempts if row.assigned <= at_s < row.end]
    return {name: sum(row.job == name for row in rows) for name in sorted({row.job for row in rows})}


def test_each_job_has_its_own_number_of_slots():
    """By Table 2 two maps of sort, four of combine or five of select run on a node, whatever slots the node
    declares.
    """
    for name, slots in (("sort", 2), ("combine", 4), ("select", 5)):
        world = World(ras(), [node("n1", maps=1)])
        world.submit(job(name, 12)).run()
        assert running(world, 5.0) == {name: slots}


def test_a_submitted_job_gets_its_part_in_the_next_cycle_and_nothing_is_killed():
    """The cycle at 5.5 s places the new job sort.

    Its maps start when those of combine end at 10.5 s, and nothing is killed.
    """
    world = World(ras(cycle="5s"), [node("n1")])
    world.submit(job("combine", 12)).submit(job("sort", 6, submit_s=1)).run()
    assert running(world, 9.0) == {"combine": 4}
    assert running(world, 15.0) == {"combine": 2, "sort": 1}
    assert not world.ends("killed")


def test_what_the_first_maps_used_limits_the_next_ones():
    """A map of 10 s moves half of what the disk can in that time: two of them fill it.

    Its job declares a core of each map, and the node has four. The third map ends at 11 s, and the next cycle learns.
    """
    together = {}
    for learn in (0, 3):
        hardware = node("n1", maps=4, cores=4)
        world = World(build_policy(f"ras:cycle=2s,learn={learn}"), [hardware])
        world.counters = Counters(cpu_s=1.0, spill_bytes=round(hardware.disk_bps * 5))
        world.submit(job("own", 24)).run()
        together[learn] = [running(world, at_s)["own"] for at_s in (5.0, 35.0)]
        assert len(world.ends("succeeded")) == 24
    assert together == {0: [4, 4], 3: [4, 2]}


def test_a_goal_moves_slots():
    """Two nodes run 8 maps of 10 s at once.

    A job with a deadline needs (40 x 10) / 66 = 7 of these places and receives them.
    """
    shares = {}
    for deadline_s in (None, 70.0):
        world = World(ras(cycle="2s"), [node("n1"), node("n2")])
        profile = TABLE_2 | {"combine-2": TABLE_2["combine"] | {"map_s": 10}}
        world = World(build_policy({"ras": {"profiles": profile, "cycle": "2s"}}), [node("n1"), node("n2")])
        world.submit(job("combine", 40, deadline_s=100000.0))
        world.submit(job("combine-2", 40, deadline_s=deadline_s or 100000.0)).run()
        shares[deadline_s] = running(world, 25.0)
    assert shares[None] == {"combine": 4, "combine-2": 4}
    assert shares[70.0] == {"combine": 1, "combine-2": 7}


def test_a_job_asks_for_all_its_maps_until_one_has_finished():
    """A job asks for all its maps until one has ended.

    The cycle at 12.5 s is the first that uses the deadline: (12 x 10) / 510 = 1 slot.
    """
    profile = {"combine": TABLE_2["combine"] | {"map_s": 10}}
    world = World(build_policy({"ras": {"profiles": profile, "cycle": "2s"}}), [node("n1")])
    world.submit(job("combine", 12, deadline_s=510.0)).run()
    launches = [row for row in world.tape.decisions if row.answer == "launch"]
    assert all("as early as possible" in row.reason for row in launches if row.t < 12)
    assert all("1 needed" in row.reason for row in launches if row.t > 12)
    assert {row.t < 12 for row in launches} == {True, False}


def test_room_that_is_free_between_cycles_goes_to_a_job_that_fits():
    """The only cycle places three maps of combine beside one of select.

    When the map of select ends, a fourth map of combine starts.
    """
    world = World(ras(cycle="1h"), [node("n1")])
    world.submit(job("select", 1)).submit(job("combine", 12)).run()
    assert running(world, 5.0) == {"select": 1, "combine": 3}
    assert running(world, 15.0) == {"combine": 4}


def test_room_is_kept_for_a_poorer_job_whose_larger_map_waits():
    """From 4.5 s on a map of `large` (50% of the CPU) is placed.

    At 5.5 s only 60% is used and a map of `small` (20%) would fit, but the room is kept for `large`.
    """
    percents = {"brief": 20, "small": 20, "large": 50}
    profiles = {name: {"map": {"cpu": percent}} for name, percent in percents.items()}
    world = World(build_policy({"ras": {"profiles": profiles, "cycle": "4s"}}), [node("n1")])
    world.durations |= {"small": 20_000, "brief": 5_000}
    world.submit(job("brief", 2)).submit(job("small", 12)).submit(job("large", 6, submit_s=1)).run()
    assert running(world, 4.0) == {"brief": 2, "small": 3}
    assert running(world, 15.0) == {"small": 3}
    assert running(world, 22.0)["large"] == 1


class Looking(Ras):
    """The policy RAS, which records the state of the job `large` while its reduce runs and maps wait.

    Each record has three values: whether a map has room, the job's utility, and its running maps.
    """

    seen: list[tuple[bool, float, int]]

    def preempt(self, view: View) -> Sequence[Kill]:
        """Append a record to `seen` and return the kills of `Ras`."""
        large = self._known.get("large")
        if large is not None and large.job.reduces.running and large.job.maps.unstarted:
            room = self._takes_map(view, view.nodes["n1"], large.job)
            self.seen.append((room, large.utility(), large.job.maps.running))
        return super().preempt(view)


def test_other_jobs_maps_are_no_reason_to_give_up_a_reduce_and_only_maps_that_run_make_a_job_rich():
    """The reduce of `large` is not killed while only maps of `small` occupy the room for its maps.

    The utility of `large` counts only its running maps.
    """
    profiles = {"small": {"map": {"cpu": 50}}, "large": {"map": {"cpu": 60}}}
    built = build_policy({"ras": {"profiles": profiles}})
    assert isinstance(built, Ras)
    policy = Looking(cycle_s=2.0, stall_timeout_s=3.0, profiles={RESOURCES: built._profiles})
    policy.seen = []
    world = World(policy, [node("n1")], slowstart=0.0)
    world.durations |= {"small": 40_000}
    world.submit(job("large", 8, reduces=1, deadline_s=100000.0)).submit(job("small", 4, submit_s=3)).run()
    assert len(policy.seen) > 50
    assert all(room for room, _, _ in policy.seen)
    assert all((utility == -math.inf) == (maps == 0) for _, utility, maps in policy.seen)
    assert not world.ends("killed")


def test_reduces_switch_to_their_reduce_profile_when_the_maps_are_done():
    """A reduce of sort uses no I/O while it waits and 50% afterwards.

    Then only one map of the other job runs beside it, not two.
    """
    world = World(ras(cycle="2s"), [node("n1")], slowstart=0.0)
    world.durations["sort"] = 10_000
    world.submit(job("sort", 2, reduces=1)).submit(job("sort-2", 8)).run()
    kinds = [(row.job, row.kind) for row in world.tape.attempts if row.assigned <= 25.0 < row.end]
    assert sorted(kinds) == [("sort", "reduce"), ("sort-2", "map")]


def test_what_led_there_is_told():
    """The reasons of launches and skips contain the utility, the placed maps, the time of the cycle and the
    used resources.
    """
    world = World(ras(cycle="5s"), [node("n1")])
    world.submit(job("combine", 12)).submit(job("sort", 6, submit_s=1)).run(until_s=12)
    launch, skip = (
        next(row.reason for row in world.tape.decisions if row.answer == answer)
        for answer in ("launch", "skip")
    )
    assert launch.startswith("no preferred node; utility ")
    assert "pending maps placed, as early as possible, cycle at 0.5 s" in launch
    assert launch.endswith("CPU 0%, I/O 0%, memory 0%, network 0% used")
    assert skip.startswith("cpu: asks 30%, 100% of the node is used; utility ")


def test_a_cycle_in_slices_gives_the_same_placement():
    """A cycle that computes only one step per tick ends later with the same placement."""
    policies = [ras(steps=steps, cycle="1h") for steps in (1, 100)]
    for policy in policies:
        world = World(policy, [node(f"n{number}") for number in range(4)])
        for name in TABLE_2:
            world.submit(job(name, 20, reduces=1))
        world.run(until_s=60)
    one, many = (
        {name: [(known.job.job, known.share.maps[name]) for known in here] for name, here in p._here.items()}
        for p in policies
    )
    assert one == many and one


def test_capacity_stretches_cpu_and_disk_but_not_memory():
    """With `capacity=125` five maps that need 25% of the CPU run on a node.

    Maps that need 30% of the memory are limited to three.
    """
    for memory, maps in ((10, 5), (30, 3)):
        profile = {"combine": {"map": {"cpu": 25, "io": 10, "memory": memory}}}
        world = World(build_policy({"ras": {"profiles": profile, "capacity": 125}}), [node("n1")])
        world.submit(job("combine", 12)).run()
        assert running(world, 5.0) == {"combine": maps}


def test_nothing_wrong_with_bad_profiles_is_silent():
    with pytest.raises(BadInput, match="policy ras: profiles: sort: map: cpu: 130 is not from 0 to 100"):
        build_policy({"ras": {"profiles": {"sort": {"map": {"cpu": 130}}}}})
    with pytest.raises(BadInput, match="steps: '0' is not a whole number, 1 or more"):
        build_policy("ras:steps=0")
    with pytest.raises(BadInput, match="ras decides on all three axes"):
        build_policy("order=ras")


def test_a_job_whose_maps_must_run_again_gets_room_from_its_reduces():
    """Node n2 crashes with finished maps while the job's reduces occupy the memory of n1.

    The job still succeeds.
    """
    profiles = {"a": {"map": {"memory": 60}, "shuffle": {"memory": 50}, "reduce": {"memory": 50}}}
    policy = build_policy({"ras": {"profiles": profiles, "cycle": "2s", "stall_timeout": "3s"}})
    world = World(policy, [node("n1"), node("n2")])
    world.submit(job("a", 4, reduces=4)).at(31, lambda: world.crash("n2")).run(limit_s=600)
    assert world.ended_jobs() == {"a": "succeeded"}


class Watched(Ras):
    """The policy RAS, which asserts at each launch that no node's capacity is exceeded."""

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return the proposal of `Ras`.

        Assert that its task fits within the capacity of every node or adds nothing to a full node.
        """
        proposal = super().decide(view, node, kind)
        if proposal is not None:
            new = proposal.task
            for other in view.nodes.values():
                attempts = list(other.attempts.values())
                before = self._sum(attempts, 0, None)
                extra = new.job if kind is TaskKind.MAP else None
                after = self._sum(attempts, int(kind is TaskKind.MAP), extra)
                if other is node:
                    after = [a + b for a, b in zip(after, self._one(new, node, 0), strict=True)]
                assert all(a <= 100 + 1e-3 or a <= b for a, b in zip(after, before, strict=True)), after
        return proposal

    def _sum(self, attempts: list[AttemptView], more_maps: int, of: Any) -> list[float]:
        sums = [0.0] * len(Amounts())
        for attempt in attempts:
            extra = more_maps if attempt.task.job is of else 0
            one = self._one(attempt.task, attempt.node, extra)
            sums = [a + b for a, b in zip(sums, one, strict=True)]
        return sums

    def _one(self, task: Any, node: NodeView, more_maps: int) -> Amounts:
        profile = self._profiles.get(task.job.job)
        if profile is None:
            return Amounts()
        demands: NodeDemands = profile.on(node.spec)
        if task.kind is TaskKind.MAP:
            return demands.map
        maps = task.job.maps
        known = self._known.get(task.job.job)
        if maps.unstarted + maps.running == 0 or (known is not None and known.share.reducing):
            return demands.reduce
        return demands.shuffling(maps.running + more_maps)


percents = st.fixed_dictionaries({key: st.sampled_from([0, 10, 30, 45, 60, 100]) for key in Amounts._fields})
profile_values = st.fixed_dictionaries(
    {
        "map": percents,
        "shuffle": st.sampled_from([{}, {"io": 0.15}, {"io": 20}, {"io": 5, "memory": 30}, {"network": 20}]),
        "reduce": percents,
    }
)


@settings(max_examples=15, deadline=None)
@given(
    story=stories(),
    profiles=st.lists(profile_values, min_size=5, max_size=5),
    cycle_s=st.sampled_from([1, 7]),
)
def test_no_launch_exceeds_a_capacity(story: Story, profiles: list[dict[str, Any]], cycle_s: int):
    """With random jobs, profiles and failures no launch exceeds a capacity and all jobs end."""
    named = {spec.job: read_profile(values) for spec, values in zip(story.jobs, profiles, strict=False)}
    policy = Watched(profiles={"resources": named}, cycle_s=cycle_s)
    world = run_story(policy, story)
    assert set(world.ended_jobs()) == {spec.job for spec in story.jobs}

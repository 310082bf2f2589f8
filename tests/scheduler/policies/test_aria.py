"""The policy ARIA in virtual time: slots that deadlines need, learned job profiles, reasons of decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.scheduler.models.job_profile import JobProfile, Times
from schedbed.scheduler.policies.aria import PROFILES, Aria, profile_name
from schedbed.scheduler.profiles import ProfileStore
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node

TEN_SECONDS = JobProfile(map=Times(10.0, 10.0), reduce=Times(10.0, 10.0))


def aria(profile: JobProfile | None = TEN_SECONDS, *names: str, **more: Any) -> Aria:
    """Return the policy ARIA, which knows `profile` for ana's jobs with these names."""
    known = {f"ana/{name}": profile for name in names or ("a",) if profile is not None}
    return Aria(profiles={PROFILES: known}, **more)


def simulate(policy: Aria, *jobs: Any, slots: int = 8, until_s: float | None = None) -> World:
    """Run the jobs on one node with `slots` slots of each kind, until `until_s` or to the end.

    Each task takes 10 s.
    """
    world = World(policy, [node("n1", maps=slots, reduces=slots)])
    for spec in jobs:
        world.submit(spec)
    return world.run(until_s=until_s)


def running(world: World) -> dict[str, int]:
    """Return a dictionary from job to the number of its running maps."""
    return {row["job"]: row["maps_running"] for row in world.core.status()["jobs"] if row["maps_running"]}


def launched(world: World) -> list[tuple[str, str]]:
    """Return the job and the reason of each launch."""
    return [(row.job, row.reason) for row in world.tape.decisions if row.answer == "launch"]


def test_a_job_gets_the_slots_that_its_deadline_asks() -> None:
    """For 12 maps of 10 s in 45 s, T_avg = (120/m + 110/m + 10)/2 <= 45 gives m = 115 / 40 = 2.9 slots.

    Without spare slots the job runs three maps at once.
    """
    world = simulate(aria(spare="none"), job("a", 12, deadline_s=45.0), until_s=5)
    assert running(world) == {"a": 3}
    assert launched(world)[0] == ("a", "no preferred node; asks (3, 0) slots: T_avg 43.3 s of 45.0 s left")
    skips = {row.reason for row in world.tape.decisions if row.answer == "skip"}
    assert skips == {"has what it asks for: asks (3, 0) slots: T_avg 43.3 s of 45.0 s left"}
    world.run()
    assert world.tape.jobs[0].finish <= 45.0


def test_it_asks_again_whenever_a_task_ends() -> None:
    """The demand for slots is computed again as tasks end.

    They take twice as long as in the profile: after 20 s nine maps remain for 35 s (85 / 30 slots), after 40
    s six for 15 s.
    """
    policy = aria(spare="none")
    world = World(policy, [node("n1", maps=8)], task_ms=20_000)
    world.submit(job("a", 12, deadline_s=55.0)).run(until_s=5)
    assert running(world) == {"a": 3}
    world.run(until_s=25)
    assert running(world) == {"a": 3}
    world.run(until_s=45)
    assert running(world) == {"a": 6}


def test_the_earliest_deadline_first_and_nobody_above_his_own_while_one_lacks() -> None:
    """Job `late` needs 6 of 8 slots and also uses the spare ones.

    Job `soon` comes later with an earlier deadline, and receives the 3 slots that it needs first.
    """
    jobs = [
        job("late", 24, deadline_s=55.0),
        job("free", 20, user="bo"),
        job("soon", 6, deadline_s=35.0, submit_s=5),
    ]
    world = simulate(aria(TEN_SECONDS, "late", "soon"), *jobs, until_s=15)
    first = [name for name, _ in launched(world)]
    assert first[:8] == ["late"] * 8, "spare slots go to jobs with a deadline first"
    assert first[8:11] == ["soon"] * 3 and set(first[11:]) == {"late"}
    world.run()
    ends = {row.job: row.finish for row in world.tape.jobs}
    assert ends["soon"] <= 35 and ends["late"] <= 55


@pytest.mark.parametrize(
    ("spare", "counts"),
    [
        ("all", {"a": 8}),
        ("deadline", {"a": 8}),
        ("others", {"a": 3, "free": 5}),
        ("none", {"a": 3}),
    ],
)
def test_who_gets_the_spare_slots(spare: str, counts: dict[str, int]) -> None:
    """The job with a deadline needs three of eight slots.

    The parameter `spare` selects the jobs that use the other five.
    """
    jobs = [job("a", 12, deadline_s=45.0), job("free", 20)]
    world = simulate(aria(spare=spare), *jobs, until_s=5)
    assert running(world) == counts
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}


def test_without_a_profile_a_job_takes_all_until_its_first_map_has_ended() -> None:
    """A job without a profile uses all ten slots until maps have ended.

    Then 20 maps and the reduce, which is assumed to take 10 s as well, have 90 s left: a = (200 + 190)/2, b =
    (10 + 0)/2, C = (0 + 20)/2; m = 13.96 x (13.96 + 2.24) / 80 = 2.8.
    """
    world = World(Aria(spare="none"), [node("n1", maps=5), node("n2", maps=5)])
    world.submit(job("a", 30, reduces=1, deadline_s=100.0)).run(until_s=5)
    assert running(world) == {"a": 10}
    assert launched(world)[0][1].endswith("asks all slots: no profile yet")
    world.run(until_s=18)
    assert running(world) == {"a": 3}


def test_reduces_get_theirs() -> None:
    """A deadline determines the slots for reduces as well as for maps.

    For 8 maps and 4 reduces of 10 s in 45 s: a = (80 + 70)/2 = 75, b = (40 + 30)/2 = 35, C = (0 + 20)/2 = 10;
    m = 8.66 x 14.58 / 35 = 3.6, r = 5.92 x 14.58 / 35 = 2.5.
    """
    world = simulate(aria(spare="none"), job("a", 8, reduces=4, deadline_s=45.0), until_s=12)
    reasons = [reason for name, reason in launched(world)]
    assert reasons[0] == "no preferred node; asks (4, 3) slots: T_avg 40.4 s of 45.0 s left"
    [row] = world.core.status()["jobs"]
    assert row["reduces_running"] >= 2
    world.run()
    assert world.tape.jobs[0].finish <= 45.0


def test_spare_slots_take_no_reduce_that_would_wait() -> None:
    """Reduces of bo's long job, which would wait for many maps, do not occupy the two reduce slots while
    ana's job runs.
    """
    jobs = [
        job("long", 60, reduces=2, user="bo"),
        job("a", 4, reduces=2, deadline_s=60.0, submit_s=2),
    ]
    world = World(aria(), [node("n1", maps=4, reduces=2)])
    for spec in jobs:
        world.submit(spec)
    world.run()
    reduces = [
        (row.job, row.t) for row in world.tape.decisions if row.answer == "launch" and row.kind == "reduce"
    ]
    assert [name for name, _ in reduces] == ["a", "a", "long", "long"]
    ends = {row.job: row.finish for row in world.tape.jobs}
    assert ends["a"] <= 60
    assert ends["a"] < reduces[2][1] < 61, "once nobody has a deadline, reduces start early again"


def test_a_deadline_that_has_passed_asks_for_everything() -> None:
    """A job whose deadline has passed needs all slots, because late jobs are judged by how late they are."""
    world = simulate(aria(spare="none"), job("a", 20, deadline_s=1.0, submit_s=2), until_s=5)
    assert running(world) == {"a": 8}
    assert "asks all slots" in launched(world)[0][1]


def test_jobs_without_deadlines_run_as_under_fifo() -> None:
    """Jobs without deadlines run in the order of priority and then of submission."""
    jobs = [job("low", 2, priority="low"), job("high", 2, priority="high")]
    world = simulate(Aria(spare="none"), *jobs, slots=1)
    assert [name for name, _ in launched(world)] == ["high", "high", "low", "low"]
    assert launched(world)[0][1] == "no preferred node; no deadline"


def test_a_new_node_lets_jobs_ask_again() -> None:
    """A job needs three slots for its deadline but the cluster has one.

    When a node with eight slots registers, the job runs three maps.
    """
    world = World(aria(spare="none"), [node("n1", maps=1), node("n2", maps=8)])
    world.crash("n2")
    world.submit(job("a", 12, deadline_s=60.0, submit_s=8)).at(9, lambda: world.restart("n2"))
    world.run(until_s=12)
    assert running(world) == {"a": 3}


def test_what_is_learnt_serves_the_next_job_of_that_name() -> None:
    """The second job of a name uses the profile learned from the first.

    A later run reads the same profile from the report in the store.
    """
    policy = Aria(spare="none")
    jobs = [
        job("a", 12, reduces=2, deadline_s=300.0),
        job("x", 12, reduces=2, deadline_s=845.0, submit_s=800),
    ]
    jobs[1] = replace(jobs[1], name="a")
    world = simulate(policy, *jobs)
    reasons = dict(reversed(launched(world)))
    assert "no profile yet" in reasons["a"] and "T_avg" in reasons["x"]
    report = policy.report()
    learnt = report["profiles"][PROFILES]
    assert list(learnt) == ["ana/a"] and learnt["ana/a"]["runs"] == 2
    assert JobProfile.from_json(learnt["ana/a"]).map.avg_s == pytest.approx(10.0, abs=0.2)
    [(name, prediction)] = report["predictions"].items()
    assert name == "x" and prediction["low_s"] <= prediction["avg_s"] <= prediction["up_s"]
    finish = next(row.finish for row in world.tape.jobs if row.job == "x")
    assert finish - 800 == pytest.approx(prediction["avg_s"] - 800, rel=0.15)


def test_profiles_come_from_the_store(tmp_path: Path) -> None:
    """Job profiles are read from a profile store or from YAML. An invalid profile is an error of one line."""
    path = tmp_path / "profiles.sqlite"
    spec = job("a", 12, deadline_s=45.0)
    ProfileStore(path).save(PROFILES, profile_name(spec), TEN_SECONDS.to_json())
    for profiles in (str(path), {"ana/a": TEN_SECONDS.to_json()}):
        policy = build_policy({"aria": {"profiles": profiles, "spare": "none"}})
        assert isinstance(policy, Aria)
        assert running(simulate(policy, spec, until_s=5)) == {"a": 3}
    with pytest.raises(BadInput, match="ana/a: not a job profile"):
        build_policy({"aria": {"profiles": {"ana/a": {"map": 3}}}})


def test_it_owns_all_axes() -> None:
    """ARIA decides on order, locality and admission, so it is refused as the order of a composed policy."""
    with pytest.raises(BadInput, match="aria decides on all three axes: give it alone, not as order"):
        build_policy("order=aria")


def test_in_whole_waves_no_slot_idles_in_the_last_one() -> None:
    """With the bound `waves`, 12 maps of 10 s run in three waves of four for deadlines of 39 s and of 31 s.

    The average bound needs 115 / 34, thus four slots, for 39 s, but five slots for 31 s.
    """
    for deadline_s, waves in ((39.0, 4), (31.0, 4)):
        world = simulate(aria(bound="waves", spare="none"), job("a", 12, deadline_s=deadline_s), until_s=5)
        assert running(world) == {"a": waves}
        why = f"asks (4, 0) slots: T_waves 30.0 s of {deadline_s} s left"
        assert launched(world)[0] == ("a", f"no preferred node; {why}")
    assert running(simulate(aria(spare="none"), job("a", 12, deadline_s=31.0), until_s=5)) == {"a": 5}


def test_reduces_may_start_after_all_maps() -> None:
    """Four maps run on two slots.

    By default a reduce starts during the second wave, with `reduce_start=all_maps` only after it.
    """
    for start, early in (("first_map", True), ("all_maps", False)):
        world = simulate(aria(reduce_start=start), job("a", 4, reduces=2), slots=2)
        rows = world.tape.attempts
        maps_end_s = max(row.end for row in rows if row.kind == "map")
        first_s = min(row.assigned for row in rows if row.kind == "reduce")
        assert (first_s < maps_end_s) is early
        assert world.ended_jobs() == {"a": "succeeded"}

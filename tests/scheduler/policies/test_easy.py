"""The policy EASY (backfilling), compared with a simple reference: jobs start at the same times."""

from __future__ import annotations

import heapq
from itertools import pairwise
from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Launch
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.rows import Commit
from schedbed.scheduler.hooks import TimeOut
from schedbed.scheduler.policies.easy import Easy, TimedEasy
from schedbed.scheduler.policy import PolicyError
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.scheduler.simulate.compiled.covers import why_not_policy
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind
from tests.harness.world import Tape, World, job, node


class Rigid(NamedTuple):
    """A job of a parallel machine: its submission, number of slots, run time and requested time, in whole
    seconds.
    """

    submit: int
    size: int
    runs: int
    requested: int


def reference(jobs: list[Rigid], slots: int, *, backfill: bool) -> list[int]:
    """Return the start of each job by the algorithm of Mu'alem and Feitelson (2001), computed second by
    second.
    """
    starts = [-1] * len(jobs)
    now = 0
    while -1 in starts:
        queue = [n for n, one in enumerate(jobs) if one.submit <= now and starts[n] < 0]
        queue.sort(key=lambda n: (jobs[n].submit, n))

        def free(at: int) -> int:
            busy = [n for n, begin in enumerate(starts) if begin >= 0 and begin + jobs[n].runs > at]
            return slots - sum(jobs[n].size for n in busy)

        while queue and jobs[queue[0]].size <= free(now):
            starts[queue.pop(0)] = now
        if queue and backfill:
            head = jobs[queue[0]]
            running = [n for n, begin in enumerate(starts) if begin >= 0 and begin + jobs[n].runs > now]
            ends = {n: max(now, starts[n] + jobs[n].requested) for n in running}
            shadow = min(
                at
                for at in ends.values()
                if free(now) + sum(jobs[n].size for n in running if ends[n] <= at) >= head.size
            )
            extra = free(now) + sum(jobs[n].size for n in running if ends[n] <= shadow) - head.size
            for n in queue[1:]:
                if jobs[n].size <= free(now) and now + jobs[n].requested <= shadow:
                    starts[n] = now
                elif jobs[n].size <= min(free(now), extra):
                    starts[n], extra = now, extra - jobs[n].size
        now += 1
    return starts


def with_reservations(jobs: list[Rigid], slots: int, most: float) -> list[int]:
    """Return the start of each job if the first `most` waiting jobs have reservations.

    The plan is made anew in each second, in order, over an array of the slots that are taken in each second.
    """
    starts, now = [-1] * len(jobs), 0
    while -1 in starts:
        taken = [0] * 2000
        running = [n for n, begin in enumerate(starts) if begin >= 0 and begin + jobs[n].runs > now]
        for n in running:
            for at in range(now, max(now, starts[n] + jobs[n].requested)):
                taken[at] += jobs[n].size
        free = slots - sum(jobs[n].size for n in running)
        waiting = [n for n, one in enumerate(jobs) if one.submit <= now and starts[n] < 0]
        reserved = 0
        for n in sorted(waiting, key=lambda n: (jobs[n].submit, n)):
            one = jobs[n]

            def fits(at: int, one: Rigid = one, taken: list[int] = taken) -> bool:
                return all(slots - taken[t] >= one.size for t in range(at, at + one.requested))

            starts_now = one.size <= free and (not reserved or fits(now))
            if not starts_now and reserved >= most:
                continue
            at = now if starts_now else next(t for t in range(now, 2000) if fits(t))
            for t in range(at, at + one.requested):
                taken[t] += one.size
            if starts_now:
                starts[n], free = now, free - one.size
            else:
                reserved += 1
        now += 1
    return starts


def on_the_core(jobs: list[Rigid], slots: int, *, backfill: bool = True, most: float = 1) -> list[int]:
    """Return the start of each job under EASY, on one node with `slots` map slots that sends a heartbeat at
    every event.
    """
    core = Core(CoreConfig(heartbeat_s=1.0), Easy(backfill=backfill, reservations=most), Tape())
    core.register(0.0, node("n1", maps=slots), 1)
    tracker = Tracker("n1", 1)
    running: dict[str, AttemptStatus] = {}
    starts: dict[int, set[int]] = {}
    ends: list[tuple[int, str]] = []
    todo = sorted(range(len(jobs)), key=lambda n: (jobs[n].submit, n), reverse=True)
    now = 0
    while todo or ends:
        while ends and ends[0][0] == now:
            attempt = heapq.heappop(ends)[1]
            del running[attempt]
            tracker.on_ended(AttemptReport(attempt=attempt, state="succeeded", start_s=0.0, end_s=float(now)))
        while todo and jobs[todo[-1]].submit == now:
            one = jobs[(n := todo.pop())]
            spec = job(f"job_{n:04d}", one.size, submit_s=float(now), requested_s=one.requested)
            core.submit(float(now), spec)
        for _ in range(2):  # the second hears what was committed after the first
            tracker.on_running(running.values())
            for action in tracker.on_reply(core.heartbeat(float(now), tracker.heartbeat())):
                if isinstance(action, Launch):
                    n = int(action.job[4:])
                    starts.setdefault(n, set()).add(now)
                    heapq.heappush(ends, (now + jobs[n].runs, action.attempt))
                    running[action.attempt] = AttemptStatus(
                        attempt=action.attempt, progress=0.5, phase="map", started_s=float(now)
                    )
            for effect in core.take_effects():
                if isinstance(effect, Commit):
                    core.committed(float(now), effect.attempt)
        now += 1
    assert all(len(times) == 1 for times in starts.values()), "the maps of a job start together"
    return [min(starts[n]) for n in range(len(jobs))]


rigid = st.builds(
    lambda submit, size, runs, over: Rigid(submit, size, runs, max(1, runs + over)),
    st.integers(0, 40),
    st.integers(1, 8),
    st.integers(1, 20),
    st.sampled_from([0, 0, 1, 5, 30, -2]),  # some run longer than they said
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rigid, min_size=1, max_size=14), st.booleans())
def test_jobs_start_when_the_reference_starts_them(jobs: list[Rigid], backfill: bool) -> None:
    assert on_the_core(jobs, 8, backfill=backfill) == reference(jobs, 8, backfill=backfill)


@settings(max_examples=60, deadline=None)
@given(st.lists(rigid, min_size=1, max_size=14), st.sampled_from([1, 2, 3, inf]))
def test_jobs_with_reservations_start_when_the_plan_of_each_second_says(
    jobs: list[Rigid], most: float
) -> None:
    assert on_the_core(jobs, 8, most=most) == with_reservations(jobs, 8, most)


EXAMPLE = [Rigid(0, 6, 10, 10), Rigid(1, 8, 5, 5), Rigid(2, 2, 8, 8), Rigid(3, 2, 9, 9), Rigid(4, 2, 2, 4)]
"""Ten processors: the second job waits until 10; of those behind it, the third fits before that and beside it."""


def test_a_later_job_starts_first_only_where_it_delays_nobody() -> None:
    """The second job waits until 10 s for 8 of 10 slots.

    The third ends by 10 s and the fourth fits beside the second job, so both start before it. The fifth job
    waits for both.
    """
    assert on_the_core(EXAMPLE, 10, backfill=True) == [0, 10, 2, 3, 12]
    assert on_the_core(EXAMPLE, 10, backfill=False) == [0, 10, 10, 15, 15]


@pytest.mark.parametrize("backfill", [True, False])
def test_reasons_say_who_waits_for_what(backfill: bool) -> None:
    world = World(Easy(backfill=backfill), [node("n1", maps=2), node("n2", maps=2)])
    for number, (maps, requested) in enumerate([(3, 10.0), (4, 10.0), (1, 5.0)], start=1):
        world.submit(job(f"j{number}", maps, submit_s=number / 100, requested_s=requested))
    world.run()
    first = {row.job: row.reason for row in reversed(world.tape.decisions) if row.answer == "launch"}
    assert first["j1"] == "its turn: 3 slots at once"
    assert first["j2"] == "its turn: 4 slots at once"
    skips = [row.reason for row in world.tape.decisions if row.answer == "skip" and row.job == "j2"]
    if backfill:
        assert first["j3"].startswith("backfilled before the reservation at 10.0")
        assert skips[0].startswith("waits for 4 slots, 1 are free; reserved at 10.0")
    else:
        assert first["j3"] == "its turn: 1 slots at once"
        assert skips[0] == "waits for 4 slots, 1 are free"


def test_a_waiting_job_says_why_only_when_the_reason_is_another_one() -> None:
    """Job 3 is refused by the plan of job 2's arrival, and again when job 1 has ended and the plan is another."""
    world = World(Easy(backfill=False), [node("n1", maps=2), node("n2", maps=2)])
    for number, maps in enumerate((3, 4, 2), start=1):
        world.submit(job(f"j{number}", maps, submit_s=number / 100))
    world.run()
    skips = [row for row in world.tape.decisions if row.answer == "skip"]
    told = [(row.job, row.reason) for row in skips]
    assert told == list(dict.fromkeys(told))
    assert told[:2] == [("j2", "waits for 4 slots, 1 are free"), ("j3", "waits behind the first job")]


def test_without_a_requested_time_nothing_is_backfilled_past_an_unknown_end() -> None:
    """The end of the first job is unknown. So the third job is not started before the second."""
    world = World(Easy(), [node("n1", maps=4)])
    for number, maps in enumerate((3, 4, 1), start=1):
        world.submit(job(f"j{number}", maps, submit_s=number / 100))
    world.run()
    assert [row.job for row in world.tape.jobs] == ["j1", "j2", "j3"]


def test_under_gang_admission_a_job_waits_for_all_its_slots_and_a_small_one_passes_it() -> None:
    """Under gang admission job b waits for all four slots while a uses three.

    Job c uses the fourth slot meanwhile, and b starts last, with all maps at once.
    """
    policy = build_policy("order=fifo,admission=gang")
    world = World(policy, [node("n1", maps=2), node("n2", maps=2)])
    world.submit(job("a", 3)).submit(job("b", 4, submit_s=1.0)).submit(job("c", 1, submit_s=2.0))
    world.run()
    launched = [row.job for row in world.tape.decisions if row.answer == "launch"]
    assert launched == ["a"] * 3 + ["c"] + ["b"] * 4
    begun = [row.t for row in world.tape.decisions if row.answer == "launch" and row.job == "b"]
    assert max(begun) - min(begun) <= 0.5
    skips = [row.reason for row in world.tape.decisions if row.answer == "skip" and row.job == "b"]
    assert skips[0] == "needs 4 slots at once, 1 are free"
    assert all(one != other for one, other in pairwise(skips)), "a job gives a reason once"


def test_a_job_larger_than_the_cluster_waits_and_delays_no_other() -> None:
    """It starts once a node that was lost has joined again, and its reduces follow."""
    world = World(build_policy("easy"), [node("n1", maps=2), node("n2", maps=2)])
    world.at(1, lambda: world.crash("n2")).at(80, lambda: world.restart("n2"))
    world.submit(job("large", 4, reduces=2, submit_s=40.0, requested_s=10.0))
    world.submit(job("small", 2, submit_s=41.0, requested_s=10.0)).run()
    starts_s = {row.job: row.t for row in reversed(world.tape.decisions) if row.answer == "launch"}
    assert starts_s["small"] < 45.0 and starts_s["large"] > 79.0
    assert "has 4 maps, the cluster has 2 map slots" in {row.reason for row in world.tape.decisions}
    assert set(world.ended_jobs().values()) == {"succeeded"}


def nodes_of(world: World, job_id: str) -> list[str]:
    return [row.node for row in world.tape.decisions if row.answer == "launch" and row.job == job_id]


def starts_of(world: World) -> dict[str, float]:
    return {row.job: row.t for row in reversed(world.tape.decisions) if row.answer == "launch"}


def test_with_named_nodes_the_maps_run_on_these() -> None:
    """Job a has n1 and half of n2, b of three slots the rest of n2 and n3; c of one slot waits."""
    world = World(Easy(reserve="nodes"), [node(f"n{i}", maps=2) for i in (1, 2, 3)])
    for number, (name, maps) in enumerate((("a", 3), ("b", 3), ("c", 1))):
        world.submit(job(name, maps, submit_s=number / 100, requested_s=10.0))
    world.run()
    assert sorted(nodes_of(world, "a")) == ["n1", "n1", "n2"]
    assert sorted(nodes_of(world, "b")) == ["n2", "n3", "n3"]
    assert starts_of(world)["c"] > 10.0


def test_named_nodes_that_are_lost_or_avoided_are_replaced() -> None:
    """Job a has n1 and n2. A map fails on n2, and runs on n3, the only other free slot. Then n1 is lost.

    One of its maps has the slot that is left on n2, and the other one waits for a slot of the job.
    """
    world = World(Easy(reserve="nodes"), [node(f"n{i}", maps=2) for i in (1, 2)] + [node("n3", maps=3)])
    world.failing = lambda attempt, name: "broken" if name == "n2" and attempt.endswith("_000002_0") else None
    world.submit(job("a", 4, submit_s=1.0, requested_s=10.0)).submit(
        job("b", 2, submit_s=2.0, requested_s=5.0)
    )
    world.at(3.0, lambda: world.crash("n1")).run()
    assert nodes_of(world, "a")[::-1] == ["n2", "n2", "n3", "n2", "n2", "n1", "n1"]
    assert set(world.ended_jobs().values()) == {"succeeded"}


def test_a_map_whose_output_is_lost_after_the_job_gave_its_slots_back_takes_any_slot() -> None:
    world = World(Easy(reserve="nodes"), [node(f"n{i}", maps=2) for i in (1, 2, 3)])
    world.lasts = lambda attempt, name: 60_000 if "_r_" in attempt and name != "n1" else None
    world.submit(job("a", 2, reduces=2, submit_s=1.0, requested_s=10.0))
    world.at(13.0, lambda: world.crash("n1")).run()
    assert nodes_of(world, "a").count("n1") >= 2
    assert world.ended_jobs() == {"a": "succeeded"}
    assert [row.task for row in world.tape.decisions if row.answer == "launch"].count("a_m_000000") == 2


def test_jobs_pass_the_first_only_at_the_end_of_an_interval() -> None:
    """Job b waits for a. Of the jobs that may pass it, c and d start at 20 s; e starts at 40 s, after a's end.

    Job f is in order and starts at its submission.
    """
    policy = TimedEasy(reserve="nodes", interval_s=20.0, reservations=inf)
    world = World(policy, [node(f"n{i}", maps=2) for i in (1, 2, 3, 4)])
    world.durations = {"a": 60_000, "b": 10_000}
    world.submit(job("a", 4, submit_s=0.1, requested_s=60.0)).submit(
        job("b", 8, submit_s=1.0, requested_s=60.0)
    )
    for name, submit_s in (("c", 3.0), ("d", 9.0), ("e", 21.0), ("f", 80.0)):
        world.submit(job(name, 1, submit_s=submit_s, requested_s=15.0))
    world.run()
    starts_s = starts_of(world)
    assert 20.0 <= starts_s["c"] <= starts_s["d"] <= 21.0
    assert 40.0 <= starts_s["e"] <= 41.0
    assert 60.0 <= starts_s["b"] <= 61.0
    assert 80.0 <= starts_s["f"] <= 81.0


def test_a_backfilling_looks_at_the_first_jobs_only() -> None:
    """Job c waits for the second reservation, and d, which could start, is the fourth job."""
    starts = {}
    for depth in (2, 3):
        world = World(Easy(reserve="nodes", reservations=inf, depth=depth), [node("n1", maps=4)])
        world.durations = {"a": 30_000}
        for number, (name, maps) in enumerate((("a", 3), ("b", 4), ("c", 4), ("d", 1))):
            world.submit(job(name, maps, submit_s=number / 100, requested_s=30.0 - number))
        world.run()
        starts[depth] = starts_of(world)["d"]
    assert starts[2] > 30.0 > 1.0 > starts[3]


def test_a_job_over_its_requested_time_is_killed_at_the_next_look() -> None:
    """Job a of 5 s runs for 100 s. It is looked for every 4 s, ends at 8 s, and b has its slots.

    Job c ends in time, and d, which requested nothing, may run for ever.
    """
    world = World(TimedEasy(limit_check_s=4.0), [node("n1", maps=2), node("n2", maps=3)])
    world.durations = {"a": 100_000, "d": 100_000}
    world.submit(job("a", 4, reduces=1, submit_s=0.1, requested_s=5.0)).submit(job("d", 1, submit_s=0.2))
    world.submit(job("b", 4, submit_s=1.0, requested_s=20.0)).run()
    assert world.ended_jobs() == {"a": "timeout", "b": "succeeded", "d": "succeeded"}
    [ended] = [row for row in world.tape.jobs if row.job == "a"]
    assert ended.finish == 8.0
    assert 8.0 <= starts_of(world)["b"] <= 9.0
    kills = [(row.job, row.reason) for row in world.tape.decisions if row.answer == "kill"]
    assert kills == [("a", "over its requested time of 5.0 s")] * 4


def test_a_job_whose_reduces_run_too_long_is_killed_as_well() -> None:
    world = World(build_policy("slurm-fcfs:limit_check=1s"), [node("n1", maps=2), node("n2", maps=2)])
    world.lasts = lambda attempt, name: 100_000 if "_r_" in attempt else 1000
    world.submit(job("a", 2, reduces=1, submit_s=0.1, requested_s=5.0)).run()
    assert world.ended_jobs() == {"a": "timeout"}


def test_only_a_running_job_can_be_killed() -> None:
    class Twice:
        def preempt(self, view: View) -> list[TimeOut]:
            """Kill each job twice."""
            return [TimeOut(each, "away") for each in view.jobs.values() for _ in range(2)]

        def decide(self, view: View, node: NodeView, kind: TaskKind) -> None:
            """Start nothing."""

    world = World(Twice(), [node("n1")]).submit(job("a", 1))
    with pytest.raises(PolicyError, match="a is timeout, it cannot time out"):
        world.run()


def test_the_compiled_loop_leaves_policies_that_end_jobs_alone() -> None:
    assert why_not_policy(build_policy("slurm-fcfs"), contention=False) == "the policy may end jobs"
    assert why_not_policy(build_policy("slurm-fcfs:limit_check=off"), contention=False) is None


def test_the_presets_are_easy_with_other_defaults() -> None:
    assert {parameter.name for parameter in POLICIES["slurm-backfill"].parameters} == {
        parameter.name for parameter in POLICIES["easy"].parameters
    }
    defaults = {parameter.name: parameter.default for parameter in POLICIES["slurm-backfill"].parameters}
    assert (defaults["reserve"], defaults["interval"], defaults["depth"]) == ("nodes", "30s", "500")

"""The policy MRCP by hand: plans with few late jobs, how slots follow the plan, and behavior without
OR-Tools.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from schedbed.scheduler.models.task_times import StageTimes
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node

pytest.importorskip("ortools", reason="needs schedbed[mrcp]")

from schedbed.scheduler.models.late_jobs import (
    JobDue,
    LatePlan,
    LeftStage,
    TaskBatch,
    batches,
    few_late_first,
    plan_late_jobs,
)

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
NONE = LeftStage(0, 1.0)


def plan(*jobs: JobDue, maps: int = 1, reduces: int = 1, most: int = 6) -> LatePlan:
    found = plan_late_jobs(jobs, maps, reduces, bound=0.5, most=most, seed=3)
    assert found is not None
    return found


def test_one_late_job_instead_of_two_by_hand() -> None:
    """The plan for one slot has one late job, where the order by deadlines has two.

    Job a takes 10 s and is due at 10 s, b 6 s and 11 s, c 5 s and 12 s. By deadlines a ends in time, and b
    and c are late. Without a, jobs b and c end in time in either order. The order c (5 s), b (11 s) has the
    smaller sum of ends. Job a follows from 11 to 21 s.
    """
    times = {"a": (10.0, 10.0), "b": (6.0, 11.0), "c": (5.0, 12.0)}
    found = plan(*(JobDue(name, due_s, LeftStage(1, s), NONE) for name, (s, due_s) in times.items()))
    assert {name: each.starts[MAP] for name, each in found.jobs.items()} == {
        "a": ((11.0, 1),),
        "b": ((5.0, 1),),
        "c": ((0.0, 1),),
    }
    assert [name for name, each in found.jobs.items() if each.late] == ["a"] and found.proven


def test_reduces_start_after_all_maps_and_slots_are_never_overbooked_by_hand() -> None:
    """A running map occupies one of two map slots for 4 s.

    Three maps of 5 s start at 0, 4 and 5 s and end by 10 s. The reduce of 2 s runs from 10 to 12 s, so a
    deadline of 12 s is met and one of 11.9 s is not.
    """
    stage = LeftStage(3, 5.0, (4.0,))
    met, missed = (plan(JobDue("a", due_s, stage, LeftStage(1, 2.0)), maps=2) for due_s in (12.0, 11.9))
    assert met.jobs["a"].starts == {MAP: ((0.0, 1), (4.0, 1), (5.0, 1)), REDUCE: ((10.0, 1),)}
    assert not met.jobs["a"].late and missed.jobs["a"].late


def test_the_search_begins_with_moore_and_hodgsons_order_by_hand() -> None:
    """Moore and Hodgson's order has few late jobs: b and c end at 6 and 11 s, in time.

    Job a (10 s) would make b late and is moved back, and d would end at 18 s but is due at 17 s.
    """
    times = {"a": (10.0, 10.0), "b": (6.0, 11.0), "c": (5.0, 12.0), "d": (7.0, 17.0)}
    jobs = [JobDue(name, due_s, LeftStage(1, s), NONE) for name, (s, due_s) in times.items()]
    assert [job.job for job in few_late_first(jobs, 1, 1)] == ["b", "c", "a", "d"]


def test_many_tasks_are_planned_in_batches() -> None:
    """Tasks are planned as a limited number of batches.

    For 10 tasks in at most 4 batches on 4 slots: three batches of 3 parallel tasks and one task. On 2 slots a
    batch runs in several rounds.
    """
    assert batches(10, 7, 4, 4) == [TaskBatch(3, 7, 3)] * 3 + [TaskBatch(1, 7, 1)]
    assert batches(10, 7, 2, 3) == [TaskBatch(2, 14, 4)] * 2 + [TaskBatch(2, 7, 2)]
    assert batches(2, 7, 4, 4) == [TaskBatch(1, 7, 1)] * 2
    assert batches(0, 7, 4, 4) == []


def simulated(monkeypatch: pytest.MonkeyPatch, policy: str = "mrcp") -> World:
    """Return a world that has run maps of 5 s on one slot.

    After a first map follow job a with 3 maps, due at 20.5 s, b and c with 1 map each, due at 21 and 22 s,
    and z without a deadline.
    """
    monkeypatch.setattr(StageTimes, "task_s", lambda *about: 5.0)
    world = World(build_policy(policy), [node("n1")], task_ms=5_000)
    world.submit(job("first", 1))
    world.submit(job("z", 1, submit_s=1.0))
    for name, maps, due_s in (("a", 3, 20.5), ("b", 1, 21.0), ("c", 1, 22.0)):
        world.submit(job(name, maps, deadline_s=due_s, submit_s=1.0))
    world.run()
    return world


def test_slots_follow_the_plan_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order by deadlines would make b and c late.

    In the plan only a is late, and job z without a deadline is last.
    """
    world = simulated(monkeypatch)
    launches = [row for row in world.tape.decisions if row.answer == "launch"]
    names = [row.job for row in launches]
    assert (names[0], sorted(names[1:3]), names[3:]) == ("first", ["b", "c"], ["a", "a", "a", "z"])
    assert "to end in time; 1 of 3 jobs late, proven best" in launches[1].reason
    assert "to end late; 1 of 2 jobs late" in launches[3].reason
    assert launches[-1].reason.endswith("spare slot, no deadline")


def test_the_same_seed_gives_the_same_rows_under_a_bound_that_ends_the_search() -> None:
    """The search for a plan of 40 jobs stops at its limit of work.

    Two searches with the same seed return the same plan.
    """
    jobs = [
        JobDue(f"j{i}", 20.0 + 7 * i % 90, LeftStage(5 + i % 4, 3.0 + i % 5), LeftStage(2, 4.0 + i % 3))
        for i in range(40)
    ]
    found = [plan_late_jobs(jobs, 6, 3, bound=0.2, most=6, seed=7) for _ in range(2)]
    assert found[0] is not None and not found[0].proven
    assert found[0] == found[1]


def test_without_or_tools_the_policy_is_not_listed_and_the_refusal_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['ortools'] = None\n"
        "import importlib.util as u; old = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'ortools' else old(name, package)\n"
        "from schedbed.scheduler.registry.registry import AXES, POLICIES, build_policy\n"
        "assert 'mrcp' not in POLICIES and 'mrcp' not in AXES['order']\n"
        "for spec in ('mrcp', 'order=mrcp'):\n"
        "    try: build_policy(spec)\n"
        "    except Exception as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == [
        "policy 'mrcp' is unknown without ortools: pip install 'schedbed[mrcp]'",
        "policy: order 'mrcp' is unknown without ortools: pip install 'schedbed[mrcp]'",
    ], ran.stderr

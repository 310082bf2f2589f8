"""MRCP by hand: plans with few late jobs, how slots follow them, and what happens without OR-Tools."""

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
    """A slot: a 10 s, due at 10; b 6 s, due at 11; c 5 s, due at 12. By deadline a ends at 10, b and c are late.

    Without a both are in time in either order: c at 5 and b at 11 have the lesser sum of ends. a follows from 11 to 21.
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
    """Two map slots, one of which a running map holds for 4 s more: maps of 5 s start at 0, 4 and 5 and end at 10.

    The reduce of 2 s starts then, and ends at 12: a deadline of 12 s is met, one of 11.9 s is not.
    """
    stage = LeftStage(3, 5.0, (4.0,))
    met, missed = (plan(JobDue("a", due_s, stage, LeftStage(1, 2.0)), maps=2) for due_s in (12.0, 11.9))
    assert met.jobs["a"].starts == {MAP: ((0.0, 1), (4.0, 1), (5.0, 1)), REDUCE: ((10.0, 1),)}
    assert not met.jobs["a"].late and missed.jobs["a"].late


def test_the_search_begins_with_moore_and_hodgsons_order_by_hand() -> None:
    """b ends late behind a, so a (10 s) goes behind; b and c end at 6 and 11 s; d would end at 18 s, due at 17."""
    times = {"a": (10.0, 10.0), "b": (6.0, 11.0), "c": (5.0, 12.0), "d": (7.0, 17.0)}
    jobs = [JobDue(name, due_s, LeftStage(1, s), NONE) for name, (s, due_s) in times.items()]
    assert [job.job for job in few_late_first(jobs, 1, 1)] == ["b", "c", "a", "d"]


def test_many_tasks_are_planned_in_batches() -> None:
    """10 tasks in at most 4 batches of 4 slots: three batches of 3 side by side and one task; on 2 slots in rounds."""
    assert batches(10, 7, 4, 4) == [TaskBatch(3, 7, 3)] * 3 + [TaskBatch(1, 7, 1)]
    assert batches(10, 7, 2, 3) == [TaskBatch(2, 14, 4)] * 2 + [TaskBatch(2, 7, 2)]
    assert batches(2, 7, 4, 4) == [TaskBatch(1, 7, 1)] * 2
    assert batches(0, 7, 4, 4) == []


def simulated(monkeypatch: pytest.MonkeyPatch, policy: str = "mrcp") -> World:
    """Maps of 5 s on one slot behind one that runs: a has 3, due at 20.5 s; b and c have 1, due at 21 and 22 s."""
    monkeypatch.setattr(StageTimes, "task_s", lambda *about: 5.0)
    world = World(build_policy(policy), [node("n1")], task_ms=5_000)
    world.submit(job("first", 1))
    world.submit(job("z", 1, submit_s=1.0))
    for name, maps, due_s in (("a", 3, 20.5), ("b", 1, 21.0), ("c", 1, 22.0)):
        world.submit(job(name, maps, deadline_s=due_s, submit_s=1.0))
    world.run()
    return world


def test_slots_follow_the_plan_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By deadline a would end at 20 s and b and c be late. The plan has only a late; z without a deadline is last."""
    world = simulated(monkeypatch)
    launches = [row for row in world.tape.decisions if row.answer == "launch"]
    names = [row.job for row in launches]
    assert (names[0], sorted(names[1:3]), names[3:]) == ("first", ["b", "c"], ["a", "a", "a", "z"])
    assert "to end in time; 1 of 3 jobs late, proven best" in launches[1].reason
    assert "to end late; 1 of 2 jobs late" in launches[3].reason
    assert launches[-1].reason.endswith("spare slot, no deadline")


def test_the_same_seed_gives_the_same_rows_under_a_bound_that_ends_the_search() -> None:
    """40 jobs that cannot be planned to the end within the bound: the plan is a function of the jobs and the seed."""
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

"""Speculation: the attempts that the policy LATE copies, the nodes for the copies, and that two attempts of a
task do no harm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedbed.cluster.faults import PlannedFault
from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.models.time_left import percentile, time_left_s
from schedbed.scheduler.policies.late import Late
from schedbed.scheduler.policy import PolicyError
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import make_speculation, with_speculation
from schedbed.scheduler.simulate.setup import Stragglers
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness import simulation as scenes
from tests.harness.world import World, job, node
from tests.scheduler.core.test_properties import Story, run_story, stories


class Eager:
    """A speculation that copies every attempt that runs on another node.

    If `again` is true, a task may be copied repeatedly.
    """

    def __init__(self, again: bool = False) -> None:
        self._again = again
        self._copied: set[str] = set()

    def copy(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        for each in view.jobs.values():
            stage = each.stage(kind)
            waits = kind is TaskKind.REDUCE and each.maps.done < each.maps.total
            if waits or view.avoids(each, node, kind) or not view.fits(node, stage):
                continue
            for task in stage.tasks:
                runs = len(task.attempts) == 1 and task.attempts[0].state == "running"
                if runs and task.attempts[0].node is not node and task.task not in self._copied:
                    if not self._again:
                        self._copied.add(task.task)
                    return Proposal(task, "eager", speculative=True)
        return None

    def ended(self, view: Any, attempt: Any) -> None: ...
    def finished(self, view: Any, job: Any) -> None: ...
    def tick(self, view: Any) -> None: ...


def eager(policy: Any, again: bool = False) -> Any:
    made: Any = build_policy(policy)
    made.speculation = Eager(again)
    return made


few = settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@few
@given(story=stories(), again=st.booleans(), policy=st.sampled_from(["fair", "dtss:node_wait=1s"]))
def test_copies_of_everything_do_no_harm(story: Story, again: bool, policy: str):
    """With copies of all attempts no task commits twice and the core's tables stay consistent, whatever is
    lost or fails.
    """
    world = run_story(eager(policy, again), story, audit=True)
    assert set(world.ended_jobs().values()) <= ({"succeeded", "failed"} if story.failures else {"succeeded"})
    good = [row.task for row in world.tape.attempts if row.state == "succeeded" and row.kind == "reduce"]
    assert len(good) == len(set(good))
    assert not any(row.speculative and row.attempt.endswith("_0") for row in world.tape.attempts)


def two(lasts: dict[str, int], **changes: Any) -> World:
    """Return a world with a job of one map on two nodes, in which each attempt is copied to the other node.

    `lasts` is a dictionary from attempt to milliseconds.
    """
    world = World(eager("fifo"), [node("n1"), node("n2")], task_ms=10_000)
    world.lasts = lambda attempt, where: lasts.get(attempt)
    return world.submit(job("job_0001", 1, **changes))


def states(world: World) -> dict[str, tuple[str, bool]]:
    return {row.attempt[-8:]: (row.state, row.speculative) for row in world.tape.attempts}


@pytest.mark.parametrize("reduces", [0, 1])
def test_the_first_to_finish_counts_and_the_other_is_killed(reduces: int):
    world = two({"job_0001_m_000000_0": 20_000, "job_0001_m_000000_1": 3_000}, reduces=reduces).run()
    ends = {row.attempt: row for row in world.tape.attempts}
    assert ends["job_0001_m_000000_1"].state == "succeeded" and ends["job_0001_m_000000_1"].speculative
    loser = ends["job_0001_m_000000_0"]
    assert (loser.state, loser.reason, loser.speculative) == ("killed", "superseded", False)


def test_both_finish_in_one_moment():
    """Both attempts of a map report success together. One succeeds, the other is recorded as killed."""
    world = two({"job_0001_m_000000_0": 4_000, "job_0001_m_000000_1": 3_503}, reduces=1).run()
    maps = sorted(row.state for row in world.tape.attempts if row.kind == "map")
    assert maps == ["killed", "succeeded"]


def test_a_copy_that_fails_leaves_the_first_alone():
    world = two({})
    world.failing = lambda attempt, where: "bad luck" if attempt.endswith("_1") else None
    world.run()
    assert states(world) == {"000000_0": ("succeeded", False), "000000_1": ("failed", True)}


def test_the_copy_goes_on_when_the_first_is_lost():
    world = two({}).at(2, lambda: world.crash("n1"))
    world.run()
    assert states(world) == {"000000_0": ("lost", False), "000000_1": ("succeeded", True)}


def test_a_winner_whose_node_is_lost_is_run_again():
    """The copy on n2 succeeds after 3 s, but n2 crashes before the reduce has read its output.

    The map succeeds again.
    """
    world = two({"job_0001_m_000000_0": 20_000, "job_0001_m_000000_1": 3_000}, reduces=1)
    world.at(4, lambda: world.crash("n2")).run()
    maps = [(row.attempt[-1], row.state) for row in world.tape.attempts if row.kind == "map"]
    assert ("1", "succeeded") in maps and ("2", "succeeded") in maps
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_a_copy_beside_its_first_is_refused():
    class Beside(Eager):
        def copy(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
            tasks = [a.task for a in node.attempts.values() if a.task.kind is kind]
            return Proposal(tasks[0], "", speculative=True) if tasks else None

    policy: Any = build_policy("fifo")
    policy.speculation = Beside()
    world = World(policy, [node("n1", maps=2)]).submit(job("job_0001", 1))
    with pytest.raises(PolicyError, match="it runs there already"):
        world.run()


# ----------------------------------------------------------------------- LATE


def test_arithmetic():
    """Progress of 0.2 in 10 s leaves 40 s.

    The 25th percentile of four values is three quarters of the way from the first to the second.
    """
    assert time_left_s(0.2, 10) == pytest.approx(40) and time_left_s(0.0, 10) == float("inf")
    assert percentile([1, 2, 3, 10], 25) == 1.75 and percentile([7], 25) == 7


LATE = {"late": {"min_runtime": "3s", "cap": 0.2}}


def simulated(speculation: Any, *, check: Any = None, **changes: Any) -> scenes.Tape:
    """Return the rows of a simulation with speculation: six nodes, one of them at a tenth of its speed,
    twelve maps of 10 s in one wave, then two reduces.

    `check` is called during the simulation.
    """
    slow = PlannedFault(at_s=1.0, kind="slow", nodes=("n2",), cpu=0.1)
    given = scenes.setup([scenes.job("job_0001", [10.0] * 12, reduces=[5.0] * 2)], 6, policy="fair")
    policy = given.policy
    given = replace(given, policy=lambda: with_speculation(policy(), speculation), faults=[slow])
    return scenes.simulate(replace(given, **changes), check)


def finish_s(tape: scenes.Tape) -> float:
    return max(row[7] for row in tape.rows["job"])


def test_late_gains_where_a_node_is_slow():
    """Without copies the two maps on the slow node n2 take 91 s.

    Under LATE copies on other nodes start after 10 s, when the other maps have ended.
    """
    without, with_ = simulated("none"), simulated(LATE)
    assert finish_s(without) > 90 and finish_s(with_) < 40
    copies: list[Any] = [row for row in with_.rows["attempt"] if row.speculative]  # type: ignore[attr-defined]
    assert len(copies) >= 2
    assert all(row.node != "n2" for row in copies)
    assert all("left" in row.reason for row in with_.rows["decision"] if "copy of" in row.reason)  # type: ignore


def test_a_node_that_never_ends_anything_is_remembered_as_slow():
    """Copies succeed before any map on n2 ends.

    So n2 is judged by the progress of its killed attempts, and remains slow.
    """
    seen: list[tuple[bool, bool]] = []

    def check(simulation: Any) -> None:
        node = simulation.core.ledger.nodes.get("n2")
        slow = simulation.master.policy.speculation._slow
        seen.append((simulation.now_s > 6 and not node.attempts, "n2" in slow))

    simulated(LATE, check=check)
    idle = [slow for empty, slow in seen if empty]
    assert idle and all(idle)


def test_late_copies_stragglers_within_its_cap():
    """A fifth of all attempts takes eight times as long.

    With 12 slots and a cap of 0.2 at most two copies run at once.
    """
    given = scenes.setup([scenes.job(f"job_000{i}", [5.0] * 24) for i in range(2)], 6, policy="fair")
    given = replace(given, stragglers=Stragglers(share=0.2, factor=8.0), seed=3)
    policy = given.policy
    live: list[int] = []

    def check(simulation: Any) -> None:
        attempts = [a for n in simulation.core.ledger.nodes.values() for a in n.attempts.values()]
        live.append(sum(attempt.speculative for attempt in attempts))

    late = scenes.simulate(replace(given, policy=lambda: with_speculation(policy(), LATE)), check)
    assert max(live) == 2
    assert finish_s(late) < finish_s(scenes.simulate(given))
    rows: list[Any] = late.rows["attempt"]
    tasks = [row.task for row in rows if row.speculative]
    assert len(tasks) == len(set(tasks))


def test_nothing_is_judged_before_its_time():
    tape = simulated({"late": {"min_runtime": "500s"}})
    assert tape.text("decision", "attempt") == simulated("none", process_all_heartbeats=True).text(
        "decision", "attempt"
    )


def test_late_survives_a_crash_of_the_jobtracker():
    """The JobTracker crashes and replays its journal, which contains copies. The job still ends early."""
    crash = PlannedFault(at_s=14.0, kind="crash_jobtracker", until_s=16.0)
    slow = PlannedFault(at_s=1.0, kind="slow", nodes=("n2",), cpu=0.1)
    tape = simulated(LATE, faults=[slow, crash])
    assert finish_s(tape) < 60 and any(row.speculative for row in tape.rows["attempt"])  # type: ignore


def test_parameters():
    assert make_speculation("none") is None and isinstance(make_speculation("late", 0.1), Late)
    made: Any = make_speculation({"late": {"min_runtime": "10s", "slow_node": 0}}, 0.5)
    assert made is not None and (made._min_runtime_s, made._slow_node) == (5.0, 0.0)
    for raw, line in [
        ("soon", "'soon' is not one of none, late"),
        ({"late": {"cap": 3}}, "cap: 3 is not a share"),
        ({"late": {"slow_task": 101}}, "slow_task: 101 is not a percentile"),
        ({"late": {"pace": 1}}, "parameter 'pace' is unknown"),
    ]:
        with pytest.raises(BadInput, match=line):
            make_speculation(raw)

"""A user's policy survives crashes of the JobTracker: its answers are in the journal, and its random draws
repeat.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.cluster.faults import PlannedFault
from schedbed.scheduler.core.rows import AttemptRow, JobRow
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import SpecifiedCosts, Tape, cluster, random_jobs

FILE = """
import random
from schedbed.policy import Kill, Proposal, TaskKind


class ShortestFirst:
    def decide(self, view, node, kind):
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        job = min(ready, key=lambda job: (job.stage(kind).unstarted, job.serial), default=None)
        if job is None:
            return None
        task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
        return Proposal(task, "nearest task of the shortest job")


class Chance:
    def luck(self, view):
        return view.random

    def decide(self, view, node, kind):
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        if not ready or self.luck(view).random() < 0.2:
            return None
        job = self.luck(view).choice(ready)
        return Proposal(job.any_reduce() if kind is TaskKind.REDUCE else job.any_map(), "by chance")

    def preempt(self, view):
        live = [a for job in view.jobs.values() for a in job.attempts.values() if a.state in ("assigned", "running")]
        return [Kill(self.luck(view).choice(live), "by chance")] if live and self.luck(view).random() < 0.02 else []


class Unseeded(Chance):
    def luck(self, view):
        return random
"""
CRASHES = tuple(PlannedFault(at_s=at_s, kind="crash_jobtracker", until_s=at_s + 2) for at_s in (4, 12, 20))


def simulated(
    folder: Path, name: str, seed: int, faults: tuple[PlannedFault, ...] = CRASHES, speculation: str = "none"
) -> tuple[Simulation, Tape]:
    path = folder / "mine.py"
    path.write_text(FILE)
    jobs, files = random_jobs(seed, 3)
    setup = Setup(
        cluster=cluster(3),
        costs=SpecifiedCosts(),
        contention=False,
        jobs=jobs,
        files=files,
        seed=seed,
        policy=lambda: with_speculation(build_policy(f"{path}:{name}"), speculation),
        faults=faults,
        heartbeat_rows=False,
        process_all_heartbeats=True,
    )
    tape = Tape()
    simulation = Simulation(setup, tape)
    simulation.run()
    return simulation, tape


def ends(tape: Tape) -> list[tuple[str, str, int]]:
    """Return a sorted list with each job's id, final state and bytes of output."""
    jobs = [JobRow(*row) for row in tape.rows["job"]]
    return sorted((row.job, row.state, row.output_bytes) for row in jobs)


@pytest.mark.parametrize(("name", "seeds"), [("ShortestFirst", 20), ("Chance", 20), ("Unseeded", 8)])
def test_three_crashes_lose_nothing(tmp_path: Path, name: str, seeds: int) -> None:
    for seed in range(seeds):
        simulation, tape = simulated(tmp_path, name, seed)
        assert ends(tape) == ends(simulated(tmp_path, name, seed, ())[1])
        assert {state for _, state, _ in ends(tape)} == {"succeeded"}
        attempts = [AttemptRow(*row) for row in tape.rows["attempt"]]
        assert not [row for row in attempts if row.state == "lost"]
        assert len({row.attempt for row in attempts}) == len(attempts)
        if name != "Unseeded":
            assert simulation.master.report() == {}


def test_a_policy_that_answers_otherwise_is_told(tmp_path: Path) -> None:
    told = simulated(tmp_path, "Unseeded", 1)[0].master.report()["replay"]
    assert (
        "answers otherwise than before the JobTracker's restart (mine.py, line " in told and "\n" not in told
    )


def test_the_same_seed_gives_the_same_draws_with_and_without_crashes_and_copies(tmp_path: Path) -> None:
    for faults in ((), CRASHES):
        first, again = (simulated(tmp_path, "Chance", 3, faults, "late")[1].text() for _ in range(2))
        assert first == again

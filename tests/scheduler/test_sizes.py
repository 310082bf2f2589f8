"""Task sizes that a scenario replaces by estimates or hides: what users' policies read, live and simulated,
and which policies read sizes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.studies.policy_check import STORIES
from schedbed.deploy.whole_run import tell_who_reads_sizes
from schedbed.scheduler.guard.guarded_policy import GuardedPolicy
from schedbed.scheduler.policy import PolicyFailed
from schedbed.scheduler.registry.registry import (
    AXES,
    COSTS,
    INPUTS,
    POLICIES,
    PROFILES,
    build_policy,
    sizes_read_by,
)
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.sizes import Sizes, make_sizes
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost
from tests.harness.simulation import Tape, job, setup
from tests.harness.world import World
from tests.harness.world import job as world_job
from tests.harness.world import node as world_node

FILE = """
from schedbed.policy import Proposal, TaskKind


class Reader:
    def __init__(self):
        self.seen = {}

    def submitted(self, view, job):
        self.seen[job.job] = view.sizes, [cost.duration_s for cost in job.spec.map_costs]

    def decide(self, view, node, kind):
        for job in view.jobs.values():
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, "first")
        return None
"""
SIZES = ["true", "hidden", {"estimated": {"error": 0.5}}]


def reader(folder: Path) -> str:
    path = folder / "mine.py"
    path.write_text(FILE)
    return f"{path}:Reader"


def seen(policy: str, sizes: Sizes, seed: int = 3) -> tuple[dict[str, Any], str]:
    """Simulate jobs under a user's policy.

    Return the sizes that the policy read, by job, and the text of all rows.
    """
    jobs = [job(f"job_{number:04d}", [4.0, 2.0], submit_s=float(number)) for number in range(1, 6)]
    tape = Tape()
    simulated = Simulation(replace(setup(jobs, policy=policy), sizes=sizes, seed=seed), tape)
    simulated.run()
    own: Any = simulated.master.policy
    assert isinstance(own, GuardedPolicy)
    return own.own.seen, tape.text()


def test_estimates_are_off_by_one_factor_a_job_that_the_seed_decides(tmp_path: Path) -> None:
    policy = reader(tmp_path)
    true, rows = seen(policy, make_sizes(True))
    assert true["job_0001"] == ("true", [4.0, 2.0])
    guessed, same_rows = seen(policy, make_sizes(SIZES[2]))
    assert same_rows == rows  # this policy does not decide by them, and nobody else sees them
    assert guessed == seen(policy, make_sizes(SIZES[2]))[0] != seen(policy, make_sizes(SIZES[2]), seed=4)[0]
    factors = {name: costs[0] / 4.0 for name, (_, costs) in guessed.items()}
    assert len(set(factors.values())) == len(factors)
    for name, (kind, costs) in guessed.items():
        assert kind == "estimated"
        assert costs == pytest.approx([4.0 * factors[name], 2.0 * factors[name]])


def test_the_error_is_the_deviation_of_the_logarithms() -> None:
    spec = replace(world_job("job_0001", 1), map_costs=(Cost(cpu_s=1.0, read_bytes=1000),))
    sizes = Sizes("estimated", 0.5)
    made = [sizes.shown(replace(spec, job=f"job_{number:04d}"), 1).map_costs[0] for number in range(2000)]
    logs = [log(cost.cpu_s) for cost in made]
    assert abs(mean(logs)) < 0.05 and pstdev(logs) == pytest.approx(0.5, rel=0.05)
    assert all(cost.read_bytes == round(1000 * cost.cpu_s) for cost in made)
    assert Sizes("estimated", 0.0).shown(spec, 1) == spec


def test_hidden_costs_are_refused_with_the_policys_line(tmp_path: Path) -> None:
    with pytest.raises(PolicyFailed) as caught:
        seen(reader(tmp_path), make_sizes("hidden"))
    assert str(caught.value) == (
        "TypeError: job.spec.map_costs is hidden by the scenario (sizes: hidden): ask view.sizes before "
        "(mine.py, line 10)"
    )


def test_what_else_a_job_says_stays_when_costs_are_hidden() -> None:
    spec = replace(world_job("job_0001", 1, reduces=1), params={"x": 1}, reduce_costs=(Cost(cpu_s=2.0),))
    hidden = Sizes("hidden").shown(spec, 1)
    assert (hidden.maps, hidden.reduces, hidden.params, hidden.splits) == (1, 1, {"x": 1}, spec.splits)
    assert "costs hidden" in repr(hidden) and hidden == hidden and hidden != spec
    with pytest.raises(TypeError, match="hidden by the scenario"):
        _ = hidden.reduce_costs


def test_the_jobtracker_of_a_live_run_shows_the_same_estimates(tmp_path: Path) -> None:
    """The core that the JobTracker uses in live runs shows a policy the same estimates as the simulator."""
    sizes = make_sizes(SIZES[2])
    policy: Any = build_policy(reader(tmp_path))
    world = World(policy, [world_node("n1")], sizes=sizes)
    world.submit(
        replace(world_job("job_0001", 2), map_costs=(Cost(duration_s=4.0), Cost(duration_s=2.0)))
    ).run()
    assert policy.own.seen["job_0001"] == seen(reader(tmp_path), sizes, seed=0)[0]["job_0001"]


def scenario(sizes: Any) -> ResolvedScenario:
    return resolve({**STORIES["a small cluster"], "sizes": sizes})


@pytest.mark.parametrize("sizes", [*SIZES, True, "estimated"])
def test_a_scenario_says_which_sizes(sizes: Any) -> None:
    resolved = scenario(sizes)
    assert ResolvedScenario.from_json(json.loads(json.dumps(resolved.to_json()))) == resolved
    made = setup_of(resolved, resolved.policies[0], 0, costs_of(resolved), Latencies())
    assert made.sizes == make_sizes(sizes)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ("guessed", "'guessed' is not one of true, hidden, estimated"),
        (False, "False is not one of true"),
        ({"estimated": {"error": -1}}, "the error -1 is not a number from 0 to 5"),
        ({"estimated": {"errors": 1}}, "is not one of true"),
        ({"estimated": {"error": float("nan")}}, "the error nan is not a number from 0 to 5"),
    ],
)
def test_other_sizes_are_bad_input(sizes: Any, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        scenario(sizes)
    assert why in str(caught.value) and "sizes" in str(caught.value)


def test_no_shipped_policy_reads_the_costs_of_tasks(tmp_path: Path) -> None:
    """No shipped policy reads task costs. Shipped policies bypass the guard, which applies `sizes`."""
    specs = [*POLICIES, *(f"{axis}={name}" for axis, names in AXES.items() for name in names)]
    read = {spec: list(sizes_read_by(spec)) for spec in specs}
    assert not [spec for spec, kinds in read.items() if COSTS in kinds]
    assert read["aria"] == [INPUTS, PROFILES] and read["dtss"] == [INPUTS] and read["fifo"] == []
    assert sizes_read_by(reader(tmp_path)) == {COSTS: "job.spec.map_costs, mine.py, line 10"}


def test_the_note_at_the_start_names_who_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_who_reads_sizes(scenario("true"))
    assert capsys.readouterr().out == ""
    own = replace(scenario("hidden"), policies=policies_of([reader(tmp_path), "fifo"]))
    tell_who_reads_sizes(own)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("Sizes: costs of tasks are hidden; ")
    assert line.endswith("mine.py:Reader reads them (job.spec.map_costs, mine.py, line 10)")

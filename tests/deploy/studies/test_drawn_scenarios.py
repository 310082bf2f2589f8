"""Drawn scenarios: valid, bounded, a function of their seed; and what they say together, from figures by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from schedbed.deploy.cli.main import app
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.compare import Agreement, Pair
from schedbed.deploy.studies.drawn_scenarios import BUSY_S, HOST_SHARE, draw, together
from schedbed.deploy.studies.judging import Winner


@given(seed=st.integers(0, 10**6), number=st.integers(1, 1000), cores=st.integers(1, 64))
def test_a_drawn_scenario_is_valid_and_fits_the_host(seed: int, number: int, cores: int) -> None:
    values = draw(seed, number, cores)
    assert values == draw(seed, number, cores)
    scenario = resolve(values)
    declared = sum(node.cores * node.core_speed for node in scenario.cluster.nodes)
    fastest = all(node.core_speed == 1 for node in scenario.cluster.nodes)
    assert declared == pytest.approx(HOST_SHARE * cores, rel=0.1) or (
        fastest and declared < HOST_SHARE * cores
    )
    slots = sum(min(node.map_slots, node.cores) for node in scenario.cluster.nodes)
    synthetic = [job for job in values["workload"]["jobs"] if job["app"] == "synthetic"]
    computing_s = sum(job["maps"] * float(job["map"]["cpu"][:-1]) for job in synthetic) * values["scale"]
    assert not synthetic or computing_s == pytest.approx(slots * BUSY_S, rel=0.1)


def test_other_numbers_and_seeds_draw_other_scenarios() -> None:
    drawn = [str(draw(seed, number, 2) | {"name": ""}) for seed in range(5) for number in range(5)]
    assert len(set(drawn)) == len(drawn)


def agreed(*errors: float) -> Agreement:
    one = Pair(live=(1.0,), simulated=(1.0,))
    jobs = {str(i): Pair(live=(10.0,), simulated=(10.0 * (1 + error),)) for i, error in enumerate(errors)}
    return Agreement(
        policy="fifo", makespan_s=one, completion_s=one, locality=one, order=1.0, order_live=None, jobs=jobs
    )


def test_errors_of_all_jobs_count_alike_and_signs_do_not_cancel() -> None:
    found = together([((agreed(0.05, -0.3),), None, 0), ((agreed(-0.07),), None, 2), ((), None, 1)])
    assert (found.scenarios, found.judged, found.jobs, found.left_out) == (3, 2, 3, 3)
    assert found.job_error == pytest.approx(0.07)
    assert found.outside == []
    assert together([((agreed(0.2, -0.3),), None, 0)]).outside == ["median error of a job 25.0% (bound 10%)"]


def test_only_winners_that_live_runs_tell_apart_count() -> None:
    same, other = Winner("fair", "fair", True), Winner("fair", "fifo", True)
    unknown = Winner("fair", "fifo", False)
    parts = [((agreed(0.0),), winner, 0) for winner in (*[same] * 9, other, unknown)]
    found = together(parts)
    assert (found.told_apart, found.same_winner, found.outside) == (10, 9, [])
    assert together(parts[1:]).outside == ["same winner in 8 of 9 (bound 90%)"]


def test_nothing_to_judge_on_is_outside() -> None:
    assert together([((), None, 3)]).outside == ["no scenario has a trusted live run to be judged on"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--drawn", "2", "quickstart"], "--drawn 2: does not go with SCENARIO"),
        (["--drawn", "2", "--phases"], "--drawn 2: does not go with --phases"),
        (["quickstart", "--seed", "3"], "--seed 3: only goes with --drawn"),
        ([], "expected a SCENARIO"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["validate", *arguments])
    assert done.exit_code == 2
    assert words in done.output and done.output.count("\n") == 1

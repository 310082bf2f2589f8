"""Tests drawn scenarios: each is valid, bounded and determined by its seed.

Their summary is checked by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from schedbed.deploy.cli.main import app
from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.compare import Agreement, Pair, Winner
from schedbed.deploy.studies.drawn_scenarios import BUSY_S, HOST_SHARE, draw, together, validate_drawn
from schedbed.tasks.errors import BadInput


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


def report(*errors: float, winner: Winner | None = None, left_out: int = 0) -> dict[str, Any]:
    one = Pair(live=(1.0,), simulated=(1.0,))
    jobs = {str(i): Pair(live=(10.0,), simulated=(10.0 * (1 + error),)) for i, error in enumerate(errors)}
    agreed = Agreement(
        policy="fifo", makespan_s=one, completion_s=one, locality=one, order=1.0, order_live=None, jobs=jobs
    )
    return {
        "policies": [agreed.to_json()] if errors else [],
        "winner": None if winner is None else winner.to_json(),
        "left_out": ["fifo, repeat 1: saturated"] * left_out,
    }


SAME, OTHER = Winner("fair", "fair", True), Winner("fair", "fifo", True)


def test_errors_of_all_jobs_count_alike_and_signs_do_not_cancel() -> None:
    found = together([report(0.05, -0.3, winner=SAME), report(-0.07, left_out=2), report(left_out=1)])
    assert (found.scenarios, found.judged, found.jobs, found.left_out) == (3, 2, 3, 3)
    assert found.job_error == pytest.approx(0.07)
    assert found.outside == []
    assert together([report(0.2, -0.3, winner=SAME)]).outside == ["median error of a job 25.0% (bound 10%)"]


def test_only_winners_that_live_runs_tell_apart_count() -> None:
    unknown = Winner("fair", "fifo", False)
    reports = [report(0.0, winner=winner) for winner in (*[SAME] * 9, OTHER, unknown)]
    found = together(reports)
    assert (found.told_apart, found.same_winner, found.outside) == (10, 9, [])
    assert together(reports[1:]).outside == ["same winner in 8 of 9 (bound 90%)"]
    assert together(reports[10:]).outside == ["no scenario whose live runs tell the best two policies apart"]


def test_nothing_to_judge_on_is_outside() -> None:
    found = together([report(left_out=3)])
    assert found.outside[0] == "no scenario has a trusted live run to be judged on"


def test_scenarios_that_were_judged_are_not_run_again(tmp_path: Path) -> None:
    """A command that continues after Ctrl-C reads the reports of the two scenarios that are complete.

    It would run a third scenario live.
    """
    for number in (1, 2):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        asked = draw(1, number, 2) | {"repeats": 4}
        (folder / "scenario.yaml").write_text(yaml.safe_dump(asked, sort_keys=False))
        (folder / "validate.json").write_text(json.dumps(report(0.04 * number, winner=SAME)))
    said: list[str] = []
    found = validate_drawn(2, 1, 4, 2, RunOptions(out=tmp_path, live=False), say=said.append)
    assert (found.judged, found.job_error) == (2, pytest.approx(0.06))
    written = json.loads((tmp_path / "drawn.json").read_text())
    assert [each["policies"]["fifo"]["job_error"] for each in written["each"]] == pytest.approx([0.04, 0.08])
    assert "fifo: makespan +0.0%, median error of a job 8.0%" in said
    with pytest.raises(BadInput, match="holds other scenarios"):
        validate_drawn(2, 1, 5, 2, RunOptions(out=tmp_path, live=False), say=said.append)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--drawn", "2", "quickstart"], "--drawn 2: does not go with SCENARIO"),
        (["--drawn", "2", "--phases"], "--drawn 2: does not go with --phases"),
        (["--drawn", "2", "--repeats", "2"], "--repeats 2: tells no two policies apart, expected at least 3"),
        (["quickstart", "--seed", "3"], "--seed 3: only goes with --drawn"),
        ([], "expected a SCENARIO"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["validate", *arguments])
    assert done.exit_code == 2
    assert words in done.output and done.output.count("\n") == 1

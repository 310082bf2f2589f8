"""Tests `schedbed plan`: the least number of nodes for deadlines that can be computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schedbed.deploy.cli.main import app
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.plan import LeastNodes, plan
from schedbed.tasks.errors import BadInput

BURN = {"name": "burn", "app": "synthetic", "maps": 40, "map": {"cpu": "10s"}, "deadline": "60s"}


def scenario(*jobs: Any, **more: Any) -> dict[str, Any]:
    """Return a scenario of nodes with two map slots, on which n nodes run 40 maps in 20 / n rounds of 10 s."""
    return {
        "cluster": {"nodes": 6, "heartbeat": "500ms", "node": {"cores": 2, "map_slots": 2}},
        "blocks": {"replication": 1},
        "workload": {"jobs": list(jobs or [BURN])},
        "policies": ["fifo"],
        **more,
    }


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def sizes(found: LeastNodes) -> list[tuple[int, int]]:
    return [(each.nodes, each.late) for each in found.tried]


def test_five_rounds_end_in_time_and_seven_do_not() -> None:
    (found,) = plan(resolve(scenario()), most=100)
    assert found.least is not None and found.least.nodes == 4
    assert sizes(found) == [(3, 1), (4, 0), (6, 0)]
    assert found.least.worst == "burn (job_0001)"
    assert 50 / 60 < (found.least.used or 0) < 1 and (found.tried[0].used or 0) > 70 / 60


def test_the_size_grows_until_the_deadlines_hold() -> None:
    (found,) = plan(
        resolve(scenario({**BURN, "deadline": "35s"}, cluster={"nodes": 1, "node": {"map_slots": 2}})),
        most=100,
    )
    assert found.least is not None and found.least.nodes == 7
    assert [nodes for nodes, _ in sizes(found)] == [1, 2, 4, 6, 7, 8]


def test_each_policy_has_its_own_least_and_all_repeats_count() -> None:
    first = {**BURN, "name": "first", "deadline": "1h"}
    urgent = {**BURN, "name": "urgent", "maps": 8, "deadline": "15s", "user": "bo"}
    drawn = {"map": {"cpu": "10s", "variance": 0.05}}
    jobs = ({**first, **drawn}, {**urgent, **drawn, "priority": "very_high"})
    fifo, fair = plan(resolve(scenario(*jobs, policies=["fifo", "fair"], repeats=2)), most=40)
    assert fifo.least is not None and fair.least is not None
    assert (fifo.least.nodes, fair.least.nodes) == (4, 8)


def test_replicas_are_the_least_that_is_tried() -> None:
    (found,) = plan(resolve(scenario({**BURN, "deadline": "1h"}, blocks={"replication": 3})), most=100)
    assert found.least is not None and found.least.nodes == 3


def test_a_deadline_that_no_size_meets_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario({**BURN, "deadline": "5s"})))
    finished = call("plan", path, "--most", "9")
    assert finished.exit_code == 1
    assert "fifo: more than 9 nodes" in finished.output
    assert "the deadlines do not hold on 9 nodes under fifo" in finished.output


def test_the_answer_is_text_or_json(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario()))
    assert "fifo: 4 nodes (with 3, 1 late)" in call("plan", path).output
    finished = call("plan", path, "--json")
    (found,) = json.loads(finished.stdout)
    assert (found["policy"], found["least"]["nodes"], finished.exit_code) == ("fifo", 4, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


@pytest.mark.parametrize(
    ("job", "most", "line"),
    [
        ({"deadline": None}, 9, "no job has a deadline, expected workload.jobs"),
        ({}, 0, "--most 0: 1 replicas of a block need as many nodes"),
    ],
)
def test_what_cannot_be_planned_is_refused(job: Any, most: int, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        plan(resolve(scenario({**BURN, **job})), most=most)


def test_a_policy_that_fails_is_no_late_job(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("class Broken:\n    def decide(self, view, node, kind):\n        raise KeyError('x')\n")
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario(policies=[f"{mine}:Broken"])))
    finished = call("plan", path)
    assert finished.exit_code == 1
    assert "KeyError" in finished.output and "late" not in finished.output

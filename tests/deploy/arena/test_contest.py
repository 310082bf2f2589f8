"""Tests the arena's rows: equal in parallel and one by one, kept after an interrupt, and safe from hostile
policies.
"""

import json

import fastparquet
import pytest
from typer.testing import CliRunner

from schedbed.deploy.arena.contest import PAGE, ROWS, TABLE, Contest, hold
from schedbed.deploy.arena.courses import Course, choose
from schedbed.deploy.cli.main import app
from schedbed.deploy.worker_fork import WorkBounds
from schedbed.deploy.workspace import base_folder, owned
from schedbed.tasks.errors import BadInput

BOUNDS = WorkBounds(300.0, 4 << 30)
HOSTILE = "import os\nclass Bad:\n    def decide(self, view, node, kind):\n        os.kill(os.getpid(), 9)\n"
SMALL = """
name: small
cluster: {nodes: 3, racks: 1, node: {map_slots: 2, reduce_slots: 1}}
blocks: {replication: 2}
workload:
  jobs:
    - {name: a, app: synthetic, maps: 8, map: {cpu: 10s, read: 16MiB}, user: ana}
    - {name: b, app: synthetic, maps: 2, map: {cpu: 5s}, user: bo, submit: 5s}
"""


@pytest.fixture
def small(tmp_path):
    """Write a scenario that is simulated quickly; return its path."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def contest(small, *policies, jobs=2) -> Contest:
    """Return a contest of the policies on one workload with two seeds, in up to `jobs` processes."""
    courses = tuple(choose([], [small], quick=True))
    return Contest(policies=policies, courses=courses, seeds=2, jobs=jobs, bounds=BOUNDS)


def quiet(_: str) -> None:
    """Ignore a line of progress."""


def test_one_and_two_jobs_give_the_same_table(small, tmp_path):
    for jobs in (1, 2):
        hold(contest(small, "fifo", "fair", jobs=jobs), tmp_path / str(jobs), quiet)
    one, two = (tmp_path / str(jobs) / TABLE for jobs in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    with one.open("rb") as file:
        rows = fastparquet.ParquetFile(file).to_pandas()
    assert len(rows) == 4 and (rows["state"] == "succeeded").all() and (rows["slowdown_mean"] >= 1).all()


def test_goes_on_where_it_stopped(small, tmp_path):
    said: list[str] = []
    hold(contest(small, "fifo"), tmp_path / "out", quiet)
    rows = tmp_path / "out" / ROWS
    first, second = rows.read_text().splitlines()
    rows.write_text(first + "\n" + second[:40])  # killed while it wrote the last row
    hold(contest(small, "fifo"), tmp_path / "out", said.append)
    assert said[0] == "2 cells, 1 of them played before"
    hold(contest(small, "fifo"), tmp_path / "out", said.append)
    assert said[-1] == "2 cells, 2 of them played before"


def test_a_hostile_policy_loses_its_own_cells(small, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(HOSTILE)
    found = hold(contest(small, "fifo", f"{bad}:Bad", "fair"), tmp_path / "out", quiet)
    lost = {policy: each["lost_cells"] for policy, each in found["policies"].items()}
    assert lost == {"fifo": 0, "fair": 0, f"{bad}:Bad": 2}
    assert "bad.py" in found["cells"][f"{bad}:Bad"]["small"]["why"]
    assert (tmp_path / "out" / PAGE).read_text().count("lost</td>") == 1


def test_the_page_escapes_what_users_name(small, tmp_path):
    (tmp_path / "<b>x.yaml").write_text(SMALL)
    hold(contest(tmp_path / "<b>x.yaml", "fifo"), tmp_path / "out", quiet)
    page = (tmp_path / "out" / PAGE).read_text()
    assert "<b>x" not in page and "&lt;b&gt;x" in page and "http" not in page


def test_a_cell_that_takes_too_long_is_lost(small, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nclass Slow:\n    def decide(self, view, node, kind):\n        time.sleep(0.5)\n"
    )
    said = CliRunner().invoke(
        app,
        ["arena", "--score", "--policy", f"{slow}:Slow", "--workload", str(small), "--time-limit", "3"],
    )
    assert said.exit_code == 1
    line = json.loads(said.stdout)
    assert line["score"] is None and line["note"]
    assert not list(base_folder().glob(f"{owned('arena-')}*")), (
        "its process was killed: its folder went with it"
    )


def test_score_is_one_line(small):
    said = CliRunner().invoke(app, ["arena", "--score", "--policy", "fair", "--workload", str(small)])
    assert said.exit_code == 0, said.output
    line = json.loads(said.stdout)
    assert line["score"] == -line["slowdown_mean"] <= -1 and line["workloads"] == {"small": -line["score"]}


def test_drawn_courses_can_be_asked_for_by_name():
    assert len(choose(["drawn"], [], quick=False)) == 24
    assert all(isinstance(course, Course) for course in choose([], [], quick=True))
    with pytest.raises(BadInput, match="--workloads nothing: no such workload"):
        choose(["nothing"], [], quick=True)


@pytest.mark.parametrize(
    "options", [["--policies", "nope"], ["--workloads", "nope"], ["--workload", "nope.yaml"], ["--score"]]
)
def test_bad_input_is_a_line(options, tmp_path):
    said = CliRunner().invoke(app, ["arena", "--out", str(tmp_path / "out"), *options])
    assert said.exit_code == 2
    assert said.output.startswith("schedbed: ") and said.output.count("\n") == 1

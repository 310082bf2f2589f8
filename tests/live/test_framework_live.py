"""Frameworks in live runs: attempts wait for their ApplicationMasters, files and JVMs, and jobs for their set-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.framework import HADOOP1
from schedbed.scheduler.history import read_tables
from tests.harness.command import start_run, write_scenario

JOBS = [
    {"name": "one", "app": "synthetic", "maps": 6, "map": {"cpu": "1s", "memory": "64MiB"}, "reduces": 1},
    {"name": "two", "app": "synthetic", "maps": 3, "map": {"cpu": "1s", "memory": "64MiB"}, "submit": "1s"},
]
FRAMEWORKS = {"yarn-bare": 0.0, "yarn": 3.9}
"""Seconds until a job's AM has registered, before which no attempt starts."""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_jobs_of_yarn_end_and_their_attempts_wait(tmp_path: Path, framework: str) -> None:
    path = write_scenario(
        tmp_path,
        workload={"jobs": JOBS},
        framework=framework,
        policies=["yarn-capacity"],
        profiles={"store": "none"},
    )
    command, out = start_run(tmp_path, path)
    assert command.wait() == 0, command.text()
    assert command.left_behind() == []
    tables = read_tables(out)
    assert set(tables["jobs"]["state"].astype(str)) == {"succeeded"}
    done = tables["attempts"][tables["attempts"]["state"].astype(str) == "succeeded"]
    assert done.groupby("job").size().tolist() == [7, 3]
    assert (done["start"] >= done["assigned"]).all()
    assert (done["start"] > done["assigned"] + 0.2).any()  # The AM's heartbeats are 1 s apart.
    starts = done.groupby("job")["start"].min() - tables["jobs"].set_index("job")["submit"]
    assert (starts >= FRAMEWORKS[framework]).all()


def test_jobs_of_hadoop_1_take_as_long_as_simulated(tmp_path: Path) -> None:
    """Half of the makespan is the framework's: set-up, files, JVMs, heartbeats that start one map, and clean-up."""
    path = write_scenario(
        tmp_path,
        workload={"jobs": JOBS},
        framework="hadoop1",
        policies=["fifo"],
        profiles={"store": "none"},
    )
    command, out = start_run(tmp_path, path)
    assert command.wait() == 0, command.text()
    simulated = run_scenario(resolve(path), RunOptions(machines="sim", out=tmp_path / "sim", report=False))
    ends_s = []
    for folder in (out, simulated):
        tables = read_tables(folder)
        first = tables["attempts"].groupby("job")["assigned"].min().to_numpy()
        submits = tables["jobs"].sort_values("job")["submit"].to_numpy()
        assert (first >= submits + HADOOP1.init_s + HADOOP1.localize_s + HADOOP1.setup_s).all()
        last = tables["attempts"].groupby("job")["end"].max().to_numpy()
        assert (tables["jobs"].sort_values("job")["finish"].to_numpy() >= last + HADOOP1.cleanup_s).all()
        ends_s.append(tables["jobs"]["finish"].max())
    assert 0.8 < ends_s[0] / ends_s[1] < 1.5

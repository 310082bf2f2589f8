"""Jobs of MapReduce on YARN in live runs: attempts wait for their ApplicationMasters, which hold room."""

from __future__ import annotations

from pathlib import Path

import pytest

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

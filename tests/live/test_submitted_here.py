"""A live run on this host that a submitted Ray job starts: its workers have the job's environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.harness.command import start_run

pytestmark = pytest.mark.live

VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The variable in which `ray job submit` passes the environment to the command that it starts."""


def test_a_run_inside_a_submitted_job_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"runtime_env": {"env_vars": {"SUBMITTED": "1"}}}))
    burn = {"app": "synthetic", "maps": 2, "map": {"cpu": "100ms"}}
    scenario = {"name": "tiny", "cluster": {"nodes": 1}, "workload": {"jobs": [burn]}, "policies": ["fifo"]}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(scenario))
    command, _ = start_run(tmp_path, tmp_path / "tiny.yaml")
    assert command.wait() == 0, command.text()
    assert command.left_behind() == []

"""The files around the code agree with it: the version, the workflow, the hooks, the forms for issues."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from schedbed import __version__

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"


def test_all_say_the_same_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    releases = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert __version__ in releases[:2] and releases[0] in ("Unreleased", __version__)


def test_the_workflow_does_what_a_change_must_pass() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert ".ci/run" in [step.get("run") for step in steps] and (ROOT / ".ci" / "run").is_file()
    [python] = [step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={python}"


def test_the_hooks_run_tools_and_files_that_are_there() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    named = [word for hook in local["hooks"] for word in hook["entry"].split() if word.startswith("tests/")]
    assert named and all((ROOT / name).is_file() for name in named)
    assert all(hook["entry"].startswith(".venv/bin/") for hook in local["hooks"])


def test_forms_for_issues_ask_something() -> None:
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.stem != "config":
            asked = [part["attributes"]["label"] for part in form["body"]]
            assert form["name"] and form["description"] and len(set(asked)) == len(asked) > 1, path.name

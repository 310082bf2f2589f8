"""Every block of README and docs that can run is run, in the order of its page and in one folder for each
page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import schedbed
from schedbed.deploy.cli.main import app
from schedbed.deploy.scenario.models import Scenario
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated import own_costs
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node
from tests.pages.blocks import FRAGMENTS, LANGUAGES, NOT_RUN, PAGES, ROOT, Block, blocks_of, why_not_run

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SHELL = [block for block in BLOCKS if block.language in ("sh", "console")]
WITH_COMMANDS = sorted({block.page for block in SHELL if not all(map(why_not_run, block.commands))})
READ_FIRST = ("README.md", "tutorial.md", "tutorial-policy.md")
"""The pages whose commands each change runs. Those of the others run before a release, with `-m slow`."""
LONGER = re.compile(r" --repeats \d+| --keep-outputs")
"""Options that only make a run longer."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_each_block_says_what_it_is() -> None:
    assert {
        (name_of(block.page), block.language) for block in BLOCKS if block.language not in LANGUAGES
    } == set()


def test_each_reason_not_to_run_something_is_needed() -> None:
    commands = [command for block in SHELL for command in block.commands]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, each) for each in commands)] == []
    pythons = [block.text for block in BLOCKS if block.language == "python"]
    assert [part for part in FRAGMENTS if not any(part in text for text in pythons)] == []


@pytest.mark.long  # it runs some fifty simulations
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name in READ_FIRST else pytest.mark.slow) for page in WITH_COMMANDS],
    ids=name_of,
)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of `console` blocks print the lines below them.

    Runs in `sh` blocks are simulated at a small scale.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEDBED_PROFILES", str(tmp_path / "profiles.sqlite"))
    monkeypatch.setattr(own_costs, "SAMPLE_BYTES", 100_000)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in blocks_of(page):
        if block.file and block.language in ("python", "yaml"):
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for part in block.text.split("$ ")[1:]:
                command, *shown = part.splitlines()
                printed = {" ".join(line.split()) for line in _run(command).splitlines()}
                assert [line for line in shown if " ".join(line.split()) not in printed] == [], command
        elif block.language == "sh":
            for command in block.commands:
                if not why_not_run(command):
                    _run(_shorter(command))


def _shorter(command: str) -> str:
    """Return a `schedbed run` command that simulates, without its longer options and at a scale of 0.01."""
    if not command.startswith("schedbed run "):
        return command
    simulated = "" if "--machines" in command else " --machines sim"
    return f"{LONGER.sub('', command)}{simulated} --scale 0.01"


def _run(command: str) -> str:
    """Run a command. Return what it prints."""
    if not command.startswith("schedbed "):
        return subprocess.run(["bash", "-ec", command], check=True, capture_output=True, text=True).stdout
    words = shlex.split(command)[1:]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, f"{command}\n{ran.output}"
    return ran.stdout


PYTHON = [block for block in BLOCKS if block.language == "python" and block.page.name != "README.md"]
"""Those of the README are run by tests/house/test_readme.py."""


@pytest.mark.parametrize(
    "block", PYTHON, ids=lambda block: f"{block.page.name}-{block.text.split(maxsplit=2)[1]}"
)
def test_a_python_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy schedules two jobs, an application is accepted in a job, and a program runs as a reader would
    run it.
    """
    code = compile(block.text, name_of(block.page), "exec")
    if any(part in block.text for part in FRAGMENTS):
        return
    monkeypatch.chdir(tmp_path)
    file = Path(block.file or "nothing.py")
    if "def decide(" in block.text:
        file.write_text(block.text, encoding="utf-8")
        [name] = re.findall(r"^class (\w+)", block.text, re.MULTILINE)
        world = World(build_policy(f"{file}:{name}"), nodes=[node("n1"), node("n2")])
        world.submit(job("job_0001", maps=6, reduces=1))
        world.submit(job("job_0002", maps=2))
        world.run()
        assert world.core.all_ended()
    elif "def map(" in block.text:
        file.write_text(block.text, encoding="utf-8")
        [name] = re.findall(r"^class (\w+)", block.text, re.MULTILINE)
        read = resolve(
            {"workload": {"jobs": [{"app": f"{file}:{name}", "input": {"generate": "text", "size": "1MiB"}}]}}
        )
        assert read.jobs[0].app.endswith(name)
    else:
        others = [each for each in blocks_of(block.page) if each.language == "python" and each.file]
        for each in others:
            Path(str(each.file)).write_text(each.text, encoding="utf-8")
        exec(code, {"schedbed": schedbed, "__name__": "__main__"})


YAML = [block for block in BLOCKS if block.language == "yaml"]
NO_SCENARIO = {"metrics.md": "scrape_configs", "experiments.md": "fig3", "applications.md": "costs"}
"""Blocks that are no part of a scenario's top level: Prometheus' file, a paper.yaml, a key of a job."""


@pytest.mark.parametrize("block", YAML, ids=lambda block: f"{block.page.name}-{block.text.split()[0]}")
def test_a_yaml_block_is_part_of_a_scenario(block: Block) -> None:
    said = yaml.safe_load(block.text)
    if list(said) != [NO_SCENARIO.get(block.page.name)]:
        Scenario.model_validate(said)

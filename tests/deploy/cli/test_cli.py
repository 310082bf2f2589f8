"""Tests the command: its help, its exit codes, and that bad input gives one line and never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from schedbed.deploy.cli import main
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput


def commands(group: Any, before: str = "") -> Iterator[str]:
    """Yield the full name of each command in a group, such as `policy check`; `before` is the prefix."""
    for name, command in group.commands.items():
        yield from commands(command, f"{name} ") if hasattr(command, "commands") else (before + name,)


COMMANDS = [*commands(typer.main.get_command(main.app))]
SWIM = "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t0\t432269\n"


def call(*arguments: str | Path):
    """Run the command in this process; return its result."""
    return CliRunner().invoke(main.app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Example: schedbed " + command in result.output


def test_help_needs_neither_ray_nor_pandas():
    code = (
        "import sys\nfrom schedbed.__main__ import main\nsys.argv = ['schedbed', '--help']\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'ray', 'pandas', 'numpy', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (BadInput("x: wrong"), 2, "schedbed: x: wrong\n"),
        (BadInput("x: wrong\ny: too"), 2, "x: wrong\ny: too\n"),
        (RunFailed("job_0001 failed"), 1, "schedbed: job_0001 failed\n"),
        (KeyboardInterrupt(), 130, "schedbed: interrupted\n"),
    ],
)
def test_endings_become_exit_codes(monkeypatch, error, code, told):
    def fail(name: str | None) -> None:
        raise error

    monkeypatch.setattr("schedbed.deploy.cli.lists.show_apps", fail)
    result = call("apps")
    assert (result.exit_code, result.stderr) == (code, told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nosuch"], "schedbed: No such command 'nosuch'. (see schedbed --help)"),
        (["run"], "schedbed: Missing argument"),
        (["run", "x.yaml", "--nodes", "six"], "schedbed: Invalid value for '--nodes'"),
        (["run", "x.yaml", "--nosuch"], "schedbed: No such option: --nosuch"),
        (["trace", "describe"], "(see schedbed trace describe --help)"),
    ],
)
def test_a_wrong_call_is_told_in_a_line(arguments, told):
    result = call(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["run"],
        ["run", "nope.yaml"],
        ["run", "nope.yaml", "--machines", "docker"],
        ["run", "nope.yaml", "--nodes", "many"],
        ["run", "quickstrat"],
        ["validate", "quickstrat"],
        ["profile", "quickstrat", "--app", "pi"],
        ["doctor", "quickstrat"],
        ["up", "quickstrat"],
        ["init", "no/name"],
        ["policies", "nosuch"],
        ["apps", "wordcunt"],
        ["trace", "describe", "nope.tsv"],
        ["trace", "describe", "."],
        ["trace", "describe", "README.md", "--format", "sls"],
        ["trace", "convert", "nope.tsv", "out.yaml"],
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(arguments):
    result = call(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1 or result.stderr.startswith("Usage:")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["quickstart"], "--address: only simulations go to other hosts, expected --against DIR beside it"),
        (["--drawn", "2"], "--address: only simulations go to other hosts, expected --against DIR beside it"),
        (["t.json", "--recorded", "--against", "d"], "--address: does not go with --recorded"),
    ],
)
def test_validate_sends_no_live_runs_to_other_hosts(arguments, told):
    result = call("validate", *arguments, "--address", "auto")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"schedbed: {told}")


def test_lists_show_parameters_and_defaults():
    assert "node_wait" in call("policies", "delay").output
    everything = call("policies").output
    assert all(name in everything for name in ("fifo", "fair", "delay"))
    assert "samples" in call("apps", "pi").output


def test_describe_and_convert_a_trace(tmp_path):
    trace, out = tmp_path / "t.tsv", tmp_path / "out.yaml"
    trace.write_text(SWIM)
    described = call("trace", "describe", trace)
    assert described.exit_code == 0
    assert "2 (1 map-only)" in described.output
    converted = call("trace", "convert", trace, out)
    assert converted.exit_code == 0
    assert out.read_text().startswith("# Made from the swim trace t.tsv")
    resolved = resolve(out)
    assert [(job.name, job.maps, job.reduces) for job in resolved.jobs] == [("job0", 1, 1), ("job1", 1, 0)]
    assert resolved.jobs[0].map_costs[0].read_bytes == round(740773 * 0.02)
    assert yaml.safe_load(out.read_text())["workload"]["jobs"][1]["submit"] == "52.000s"


def test_convert_says_when_it_cannot_write(tmp_path):
    trace = tmp_path / "t.tsv"
    trace.write_text(SWIM)
    result = call("trace", "convert", trace, tmp_path / "no" / "out.yaml")
    assert (result.exit_code, "cannot write: No such file" in result.stderr) == (2, True)


def test_convert_never_replaces_a_file(tmp_path):
    trace = tmp_path / "t.tsv"
    trace.write_text(SWIM)
    result = call("trace", "convert", trace, trace)
    assert (result.exit_code, trace.read_text()) == (2, SWIM)
    assert result.stderr == f"schedbed: {trace}: is there already, expected the path of a new file\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["run", "quickstart", "--machines", "sim", "--out", ""], "--out"),
        (["run", "quickstart", "--machines", "sim", "--out="], "--out"),
        (["up", "quickstart", "--name", ""], "--name"),
        (["report", ""], "report"),
        (["policy", "check", ""], "check"),
    ],
)
def test_an_empty_value_is_bad_input(tmp_path, monkeypatch, arguments, what):
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"schedbed: {what}: has no value, expected one\n")
    assert list(tmp_path.iterdir()) == []


def test_run_hands_over_what_the_options_say(tmp_path, monkeypatch):
    taken = []
    monkeypatch.setattr(
        "schedbed.deploy.whole_run.run_scenario", lambda scenario, options: taken.append((scenario, options))
    )
    path = tmp_path / "s.yaml"
    path.write_text("workload: {jobs: [{app: pi}]}\n")
    options = [
        "--policy",
        "fair",
        "--policy",
        "delay:node_wait=1s",
        "--nodes",
        "3",
        "--scale",
        "0.5",
        "--seed",
        "9",
    ]
    result = call("run", path, *options, "--set", "cluster.racks=2", "--out", tmp_path / "o", "--no-live")
    assert result.exit_code == 0, result.output
    ((scenario, given),) = taken
    assert [choice.spec for choice in scenario.policies] == ["fair", "delay:node_wait=1s"]
    assert (len(scenario.cluster.nodes), scenario.scale, scenario.seed) == (3, 0.5, 9)
    assert (given.out, given.live, given.keep_outputs) == (tmp_path / "o", False, False)
    assert json.loads(json.dumps(scenario.to_json()))["given"]["cluster"]["racks"] == 2


def test_the_list_of_commands_begins_with_run() -> None:
    shown = call("--help").output.partition("Commands")[2].split()
    commands: Any = typer.main.get_command(main.app)
    names = [word for word in shown if word in commands.commands]
    assert names[0] == "run"

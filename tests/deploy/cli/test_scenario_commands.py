"""Tests scenarios by name, `init`, `schema`, the version, shell completion, and signals that end commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

import schedbed
from schedbed.deploy.cli import main
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.shipped import FOLDER, shipped

COMMAND = [sys.executable, "-m", "schedbed"]
WITH_TRACES = {"fb2009", "fb2010", "gridmix", "mumak"}
PATIENCE_S = 120.0
MAIN = "from schedbed.__main__ import main; main()"
WITHOUT_PLOTS = [
    *(sys.executable, "-c"),
    f"from schedbed.deploy.results import plots; plots.write = lambda *_: []; {MAIN}",
]


def call(*arguments: str | Path):
    """Run the command in this process; return its result."""
    return CliRunner().invoke(main.app, [str(argument) for argument in arguments])


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_scenario_has_a_name_in_any_folder(name: str, elsewhere: Path) -> None:
    """Shipped scenarios are found by name from any folder.

    Those that need a trace look in the working folder.
    """
    if name in WITH_TRACES:
        with pytest.raises(
            schedbed.BadInput, match=f"{name}.yaml:[0-9]+: .*looked for {elsewhere}/"
        ) as error:
            resolve(name)
        assert "give its path with --set " in str(error.value)
    else:
        assert resolve(name.replace("_", "-")).given == resolve(FOLDER / f"{name}.yaml").given


def test_a_trace_in_the_working_folder_is_found(elsewhere: Path) -> None:
    (elsewhere / "my.tsv").write_text("job0\t49\t49\t740773\t2339561\t627471\n")
    assert len(resolve("fb2009", sets=["workload.trace=my.tsv"]).jobs) == 1


def test_a_file_wins_over_a_name(elsewhere: Path) -> None:
    (elsewhere / "mixed").write_text("workload: {jobs: [{app: pi}]}\n")
    (elsewhere / "straggler").mkdir()  # such as the folder of an earlier run
    assert len(resolve("mixed").jobs) == 1
    assert resolve("straggler").name == "straggler"


def test_an_unknown_name_is_told_with_those_that_there_are(elsewhere: Path) -> None:
    result = call("run", "quickstrat")
    assert result.exit_code == 2
    assert result.stderr == (
        f"schedbed: quickstrat: no such scenario, expected a file or one of {', '.join(shipped())}\n"
    )


@pytest.mark.long  # seconds
def test_init_writes_a_scenario_that_runs(elsewhere: Path) -> None:
    assert call("init", "lab").exit_code == 0
    assert sorted(path.name for path in elsewhere.iterdir()) == ["lab.yaml", "lab_policy.py"]
    (elsewhere / "sub").mkdir()
    os.chdir("sub")  # the policy lies beside the scenario, wherever the command is given
    result = call("run", "../lab.yaml", "--machines", "sim", "--no-live", "--out", "out")
    assert result.exit_code == 0, result.output
    policies = json.loads(Path("out/summary.json").read_text())["policies"]
    assert list(policies)[-1] == "lab_policy.py:ShortestFirst"
    assert all(policy["jobs"]["succeeded"]["mean"] == 3 for policy in policies.values())


def test_init_overwrites_nothing(elsewhere: Path) -> None:
    (elsewhere / "experiment_policy.py").write_text("mine")
    result = call("init")
    assert (result.exit_code, "experiment_policy.py is there already" in result.stderr) == (2, True)
    assert [path.name for path in elsewhere.iterdir()] == ["experiment_policy.py"]


def test_the_schema_takes_what_is_shipped_and_refuses_what_is_wrong(elsewhere: Path) -> None:
    schema = json.loads(call("schema").output)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    call("init", "lab")
    for path in (*shipped().values(), elsewhere / "lab.yaml"):
        validator.validate(yaml.safe_load(path.read_text()))
    for wrong in ({"nodes": 3}, {"cluster": {"nodes": 0}}, {"scale": 0}, {"cluster": {"node": {"disk": []}}}):
        assert not validator.is_valid(wrong), wrong


def test_the_version_is_printed() -> None:
    assert call("--version").output == f"schedbed {schedbed.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run qu", {"quickstart"}),
        ("validate my", {"my.yaml"}),
        ("up sub/", {"sub/own.yaml"}),
        ("sche", {"schema"}),
    ],
)
def test_the_shell_completes_commands_and_scenarios(typed: str, offered: set[str], elsewhere: Path) -> None:
    (elsewhere / "my.yaml").write_text("")
    (elsewhere / "sub").mkdir()
    (elsewhere / "sub" / "own.yaml").write_text("")
    words = f"schedbed {typed}"
    asked = {"_SCHEDBED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(COMMAND, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == offered


def heed_signals() -> None:
    """Reset signals to their defaults: nohup or a shell's background job may have them ignored, which a
    command keeps.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("act", ["{}", 'exec("{}")'])
def test_a_signal_while_the_program_is_imported_is_one_line_too(act: str) -> None:
    code = (
        "import signal, sys\nclass Finder:\n    def find_spec(self, name, *_):\n"
        f"        if name.endswith('cli.main'): {act.format('signal.raise_signal(signal.SIGTERM)')}\n"
        f"sys.meta_path.insert(0, Finder())\n{MAIN}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (143, "schedbed: interrupted\n")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_a_run_in_order(number: signal.Signals, code: int, elsewhere: Path) -> None:
    """A signal ends the second policy, which would take hours.

    The results of the first, finished policy are kept.
    """
    policy = (
        "import time\n\n\nclass Stops:\n"
        "    def decide(self, view, node, kind):\n        print('stands', flush=True)\n        time.sleep(3600)\n"
    )
    (elsewhere / "stops.py").write_text(policy)
    scenario = {"workload": {"jobs": [{"app": "pi"}]}, "policies": ["fifo", "stops.py:Stops"]}
    (elsewhere / "s.yaml").write_text(yaml.safe_dump(scenario))
    arguments = ["run", "s.yaml", "--machines", "sim", "--jobs", "1", "--no-live", "--out", "out"]
    with ExitStack() as stack:
        command = stack.enter_context(
            subprocess.Popen(
                [*WITHOUT_PLOTS, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=heed_signals,
            )
        )
        stack.callback(command.kill)
        assert command.stdout is not None and command.stderr is not None
        for line in command.stdout:
            if b"stands" in line:
                break
        command.send_signal(number)
        printed, said = command.stdout.read().decode(), command.stderr.read().decode()
        assert command.wait(PATIENCE_S) == code
    assert "schedbed: interrupted" in said
    assert [line.partition(":")[0] for line in printed.splitlines() if "interrupted" in line] == ["stops.py"]
    assert "Stops, repeat 1: interrupted, so the values are those of a part of the run" in printed
    kept = json.loads(Path("out/run.json").read_text())["runs"]
    assert [run["state"] for run in kept] == ["succeeded", "interrupted"]
    assert (
        json.loads(Path("out/summary.json").read_text())["policies"]["fifo"]["jobs"]["succeeded"]["mean"] == 1
    )


def test_the_schema_describes_each_key_and_names_the_units() -> None:
    schema = json.loads(call("schema").output)
    models = {"Scenario": schema, **schema["$defs"]}
    bare = [
        f"{name}.{key}"
        for name, model in models.items()
        for key, value in model.get("properties", {}).items()
        if not value.get("description")
    ]
    assert bare == []
    node = models["NodeDefaults"]["properties"]
    assert (node["memory"]["unit"], node["disk"]["unit"]) == ("bytes", "bytes per second")
    assert (node["core_speed"]["minimum"], node["core_speed"]["maximum"]) == (1e-4, 1)

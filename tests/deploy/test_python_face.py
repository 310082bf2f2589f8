"""Tests the interface for Python programs: `schedbed.run`, its result, and policies given as classes and
objects.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import schedbed
from schedbed.deploy.results import plots
from schedbed.policy import NodeView, Proposal, TaskKind, View
from schedbed.scheduler.history import COLUMNS

JOB = {"app": "synthetic", "maps": 6, "map": {"cpu": "5s", "write": "1MiB"}, "reduces": 1}
SCENARIO: dict[str, Any] = {
    "name": "small",
    "cluster": {"nodes": 2},
    "workload": {"jobs": [{**JOB, "name": "old"}, {**JOB, "name": "young", "submit": "1s"}]},
    "policies": ["fifo"],
}


class YoungestFirst:
    """A policy that starts the youngest job first.

    It numbers its decisions, so that a second use would be noticed.
    """

    def __init__(self) -> None:
        self.count = 0

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        for job in reversed(list(view.jobs.values())):
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                self.count += 1
                return Proposal(task, f"youngest, decision {self.count}")
        return None


@dataclass
class Worded:
    """A policy that proposes any task that can start, with `words`, repeated `times` times, as the reason."""

    words: str
    times: int = 1

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        for job in view.jobs.values():
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, self.words * self.times)
        return None


def simulate(**options: Any) -> schedbed.Result:
    return schedbed.run(SCENARIO, machines="sim", **options)


def launches(result: schedbed.Result, policy: str, repeat: int = 0) -> list[str]:
    rows = result.decisions.query("answer == 'launch' and policy == @policy and repeat == @repeat")
    return list(rows["reason"])


def test_a_result_has_a_property_for_each_table(tmp_path: Path) -> None:
    result = simulate(out=tmp_path / "out", policies=["fifo", "fair"], repeats=2, nodes=3, sets=["seed=5"])
    for table, columns in COLUMNS.items():
        assert list(getattr(result, table).columns) == ["policy", "repeat", *columns]
    assert len(result.jobs) == 2 * 2 * 2 and set(result.heartbeats["node"]) == {"n1", "n2", "n3"}
    assert result.jobs is result.jobs
    assert list(result.summary["policies"]) == ["fifo", "fair"]
    assert result.trusted is True and result.folder == tmp_path / "out"
    assert json.loads((result.folder / "run.json").read_text())["seed"] == 5


def test_a_result_shows_itself(capsys: pytest.CaptureFixture[str]) -> None:
    result = simulate(policies=["fifo", "fair"])
    assert capsys.readouterr().out == ""
    assert repr(result) == f"<schedbed.Result of small under fifo, fair, in {result.folder}>"
    makespan = next(line for line in str(result).splitlines() if line.startswith("makespan [s]"))
    assert len(makespan.split()) == 4
    pyplot = sys.modules.get("matplotlib.pyplot")
    html = result._repr_html_()
    assert "<th>makespan [s]</th>" in html and ">fair</th>" in html
    (picture,) = re.findall('<img alt="lanes of slots" src="data:image/png;base64,([^"]+)">', html)
    assert base64.b64decode(picture).startswith(b"\x89PNG") and "more policies" not in html
    assert sys.modules.get("matplotlib.pyplot") is pyplot  # plots of the notebook stay as they are


@pytest.mark.long  # seconds
def test_a_report_is_made_when_asked_for(draw: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = simulate()
    monkeypatch.setattr(plots, "write", draw)
    assert not (result.folder / "plots").exists()
    (result.folder / "report.html").unlink()
    report = result.report()
    assert report == result.folder / "report.html"
    assert "<html" in report.read_text() and any((result.folder / "plots").iterdir())


def test_a_temporary_folder_goes_with_its_result() -> None:
    result = simulate()
    folder = result.folder
    assert len(result.jobs) == 2 and (folder / "jobs.parquet").is_file()
    del result
    gc.collect()
    assert not folder.exists()


def test_the_folder_of_a_killed_program_goes_with_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / simulate().folder.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-")
    left.mkdir()
    result = simulate()
    assert list(tmp_path.iterdir()) == [result.folder] and str(os.getpid()) in result.folder.name


def test_a_failed_run_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Broken:
        def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
            raise ValueError("no such pool")

    with pytest.raises(
        schedbed.RunFailed, match=r"Broken: ValueError: no such pool \(test_python_face.py, line"
    ):
        simulate(policies=[Broken])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long  # seconds
def test_classes_and_objects_are_policies(tmp_path: Path) -> None:
    words = Worded("on ")
    result = simulate(
        policies=["fair", YoungestFirst, words, Worded("off", 2), YoungestFirst()], out=tmp_path, repeats=2
    )
    named = ["fair", "YoungestFirst", "Worded", "Worded-2", "YoungestFirst-2"]
    assert list(result.summary["policies"]) == named
    assert set(launches(result, "Worded")) == {"on "} and set(launches(result, "Worded-2")) == {"offoff"}
    for name in ("YoungestFirst", "YoungestFirst-2"):
        for repeat in (0, 1):  # each run got a fresh policy
            reasons = launches(result, name, repeat)
            assert reasons[0] == "youngest, decision 1" and len(reasons) == 14
    launched = result.decisions.query("answer == 'launch' and policy == 'YoungestFirst' and repeat == 0")
    maps = launched[launched["task"].str.contains("_m_")].merge(
        result.jobs.drop_duplicates("job")[["job", "name"]]
    )
    assert list(maps["name"]) == ["old"] * 4 + ["young"] * 6 + ["old"] * 2
    kept = json.loads((tmp_path / "run.json").read_text())["scenario"]["policies"]
    assert kept[1] == {"spec": "YoungestFirst", "given": f"{__file__}:YoungestFirst"}
    assert kept[3]["given"] == {f"{__file__}:Worded": {"words": "off", "times": 2}}


def test_a_class_decides_as_its_file_does() -> None:
    result = simulate(policies=[YoungestFirst, f"{__file__}:YoungestFirst"])
    other = f"{__file__}:YoungestFirst"
    assert launches(result, "YoungestFirst") == launches(result, other) != []


def test_a_shipped_scenario_is_run_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = schedbed.run("straggler", policies=["fair"], machines="sim", scale=0.02, nodes=4)
    assert result.summary["scenario"] == "straggler" and len(result.jobs) == 1


class NoPolicy:
    """A class without the method `decide`, so no policy."""


class Picky:
    """A policy class that needs an argument and is no dataclass."""

    def __init__(self, wait: float) -> None:
        self.wait = wait

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        return None


@pytest.mark.parametrize(
    ("policy", "machines", "told"),
    [
        (NoPolicy, "sim", "expected a SPEC, a class with a decide method"),
        (7, "sim", "policy 7: expected a SPEC"),
        (Picky, "sim", "policy Picky: cannot be made without arguments (TypeError"),
        (Picky(1.0), "process", "policy Picky: a live run cannot take this object to another process"),
        (
            Worded("5s"),
            "process",
            "policy Worded: a live run cannot take this object",
        ),  # a SPEC's 5s is a time
        (Worded("a", times=[1]), "process", "policy Worded: a live run cannot"),  # type: ignore[arg-type]
        ("fifo", "simulated", "machines='simulated': unknown kind of machine"),
    ],
)
def test_what_is_no_policy_is_bad_input(policy: Any, machines: Any, told: str) -> None:
    with pytest.raises(schedbed.BadInput) as error:
        schedbed.run(SCENARIO, machines=machines, policies=[policy])
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_live_run_says_that_it_cannot_see_a_notebook(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(
        "import schedbed\nclass Mine:\n    def decide(self, view, node, kind): return None\n"
        f"schedbed.run({SCENARIO!r}, policies=[Mine])\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "schedbed.tasks.errors.BadInput: policy Mine: a live run loads the policy in another process, which cannot see"
        " this program: put the class at the top of a file of its own and import the class"
    )


def test_the_package_loads_a_name_at_its_first_use() -> None:
    code = (
        "import sys, schedbed\n"
        "assert sorted(n for n in sys.modules if n.startswith('schedbed')) == ['schedbed']\n"
        "assert schedbed.__version__ and set(schedbed.__all__) <= set(dir(schedbed))\n"
        "assert all(getattr(schedbed, name) for name in schedbed.__all__)\n"
        "assert schedbed.policy.Proposal and callable(schedbed.run) and callable(schedbed.connect)\n"
        "assert not {'ray', 'pandas', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

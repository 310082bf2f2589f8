"""Tests users' applications in scenarios: found, checked with one line per mistake, and never run by the
driver.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.program import files_of

CODE = '''raise SystemExit("the driver ran this")
import helper
class Words:
    """Counts words."""
    costs = {"map_s_per_mb": 0.5, "map_output": 0.25}
    def __init__(self, least=1, word=None): ...
    def map(self, line): ...
    def reduce(self, key, values): ...
'''
SCENARIO = """scale: 0.5
cluster: {{nodes: 2}}
blocks: {{replication: 1}}
workload:
  jobs:
    - {{{job}, input: {{generate: text, size: 2MiB}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/words.py").write_text(CODE)
    (tmp_path / "apps/helper.py").write_text("")
    (tmp_path / "apps/stop.txt").write_text("the\n")
    (tmp_path / "map.py").write_text("import tools\n")
    (tmp_path / "tools.py").write_text("x = 1\n")
    return tmp_path


def resolved(folder: Path, job: str) -> ResolvedScenario:
    (folder / "s.yaml").write_text(SCENARIO.format(job=job))
    return resolve(folder / "s.yaml")


def test_a_class_is_found_beside_the_scenario(folder: Path) -> None:
    found = resolved(folder, "app: apps/words.py:Words, files: [apps/stop.txt], params: {least: 3}")
    [job] = found.jobs
    assert (job.name, job.app, job.reduces) == ("Words", "apps/words.py:Words", 1)
    assert job.params["least"] == 3 and job.params["task_timeout"] == 300.0  # ten minutes at this scale
    assert [file.name for file in files_of(job.params)] == ["words.py", "helper.py", "stop.txt"]
    assert [file.path for file in found.inputs if not file.is_program] == [job.input]
    assert set(job.reads) == {file.path for file in found.inputs}  # an empty file needs no block
    app = app_of(job)
    assert app.summary == "Counts words." and app.costs is not None
    assert (app.costs.map_cpu_s, app.costs.map_output.of(100)) == (0.5e-6, 25.0)
    again = ResolvedScenario.from_json(found.to_json())
    assert again.jobs == found.jobs and again.inputs == found.inputs


def test_scripts_that_commands_name_travel_with_what_they_import(folder: Path) -> None:
    found = resolved(folder, "app: streaming, mapper: python3 map.py, params: {reducer: cat}, reduces: 3")
    [job] = found.jobs
    assert (job.params["mapper"], job.params["reducer"], job.reduces) == ("python3 map.py", "cat", 3)
    assert [file.name for file in files_of(job.params)] == ["map.py", "tools.py"]
    [alone] = resolved(folder, "app: streaming, mapper: cat").jobs
    assert alone.reduces == 0 and app_of(alone).reduces == "never"


def test_a_scenario_of_a_program_finds_it_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    job = {"app": "apps/words.py:Words", "input": {"generate": "text", "size": "1MiB"}}
    values = {
        "cluster": {"nodes": 3},
        "workload": {"jobs": [job, {**job, "app": "words.py:Words", "folder": "apps"}]},
    }
    assert [each.name for each in resolve(values).jobs] == ["Words", "Words"]


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ("app: words.py:Words", ".app: there is no file words.py that can be read: No such file or directory"),
        ("app: apps/words.py", ".app: 'apps/words.py': expected path/to/app.py:NAME"),
        (
            "app: apps/words.py:Wrds",
            ".app: apps/words.py: there is no class 'Wrds', did you mean 'Words'?",
        ),
        ("app: apps/words.py:Words, params: {leest: 1}", ".params.leest: unknown parameter of apps/words.py:Words, "
         "did you mean 'least'?"),
        ("app: apps/words.py:Words, params: {least: x}", ".params.least: 'x' is not a whole number"),
        ("app: apps/words.py:Words, reduces: 0", ".reduces: apps/words.py:Words needs at least 1 reduce"),
        ("app: apps/words.py:Words, mapper: cat", ".mapper: only streaming has a mapper; apps/words.py:Words is a "
         "class"),
        ("app: apps/words.py:Words, costs: {cpu: 3}", ".costs: 'cpu' is unknown, expected one of map_start_s, "
         "map_s_per_mb, map_output, reduce_start_s, reduce_s_per_mb, output"),
        ("app: apps/words.py:Words, costs: {output: -1}", ".costs: output: -1 is not a number of 0 or more"),
        ("app: apps/words.py:Words, files: [no.txt]", ".files[0]: 'no.txt' is no file that can be read (looked for "
         "no.txt)"),
        ("app: apps/words.py:Words, folder: nowhere", ".folder: 'nowhere' is no folder (looked for nowhere)"),
        ("app: apps/words.py:Words, params: {task_timeout: 0s}", ".params.task_timeout: 0.0 s is not above 0"),
        ("app: streaming", ".params: streaming needs the parameter mapper: command that reads the lines of a split"),
        ("app: streaming, mapper: \"awk '{\"", ".mapper: \"awk '{\" is no command: no closing quotation"),
        ("app: streaming, mapper: cat, params: {mapper: cat}", ".params.mapper: mapper is given twice"),
        ("app: streaming, mapper: cat, combiner: cat", ".combiner: there is no reducer that it could combine for"),
        ("app: streaming, mapper: cat, reduces: 2", ".reduces: streaming without a reducer has none: reducer: cat "
         "gives the sorted lines"),
        ("app: wordcount, mapper: cat", ".mapper: only an own application has mapper, not wordcount"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(folder: Path, job: str, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolved(folder, job)
    said = str(caught.value).replace(f"{folder}/", "")
    assert said == f"s.yaml:6: workload.jobs[0]{line}"

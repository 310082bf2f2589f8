"""Tests the examples as they are: each scenario is simulated, and its code gives the described output on real
records.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import schedbed
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated import own_costs
from schedbed.tasks.own.class_source import class_of
from schedbed.tasks.own.judge import judge
from tests.harness.own_apps import OwnJob

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/scenario.yaml"))
LINES = b"The cat and the dog\nthe cat sat\na dog and the cat\n"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_simulated(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDBED_PROFILES", str(tmp_path / "profiles.sqlite"))
    monkeypatch.setattr(own_costs, "SAMPLE_BYTES", 100_000)
    monkeypatch.setattr(own_costs, "_known", {})
    result = schedbed.run(EXAMPLES / name / "scenario.yaml", machines="sim", scale=0.01)
    assert set(result.jobs["state"]) == {"succeeded"}
    assert (tmp_path / "profiles.sqlite").exists() == (name != "longest_lines")  # its costs are declared


def run(name: str, folder: Path, data: bytes) -> tuple[OwnJob, list[bytes]]:
    """Run the job of the example `name` on the lines in `data`, with the files and parameters of its
    scenario.

    Return the job and the parts of its output.
    """
    [job] = resolve(EXAMPLES / name / "scenario.yaml").jobs
    shutil.copytree(EXAMPLES / name, folder / name)
    own = OwnJob(folder, data, **{key: value for key, value in job.params.items() if key != "files"})
    own.app = job.app
    own.ship(*(folder / name / file["name"] for file in job.params["files"]))
    return own, own.run(reduces=job.reduces, cuts=(25,))


def test_word_pairs_counts_and_checks_itself(tmp_path: Path) -> None:
    own, parts = run("word_pairs", tmp_path, LINES)
    assert sorted(b"".join(parts).splitlines()) == [b"the cat\t3"]
    for number, part in enumerate(parts):
        (tmp_path / f"part-{number}").write_bytes(part)
    (tmp_path / "data").write_bytes(LINES)
    source = class_of(own.params)
    assert source is not None
    files = [tmp_path / f"part-{number}" for number in range(len(parts))]
    assert judge(source, own.params, tmp_path / "word_pairs", tmp_path / "data", files) is None
    assert judge(source, own.params, tmp_path / "word_pairs", tmp_path / "data", files[1:]) is not None


def test_status_codes_and_longest_lines(tmp_path: Path) -> None:
    log = b"".join(b'h - - [t z] "GET / HTTP/1.1" %d %d\n' % pair for pair in [(200, 5), (404, 7), (200, 6)])
    [part] = run("status_codes", tmp_path, log)[1]
    assert sorted(part.splitlines()) == [b"200\t2 requests, 11 bytes", b"404\t1 requests, 7 bytes"]
    (tmp_path / "longest").mkdir()
    assert run("longest_lines", tmp_path / "longest", LINES)[1] == [b"T\t19\na\t17\nt\t11\n"]

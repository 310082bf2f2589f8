"""Tests that files without an end, and ones that are much larger than they look, are one line or read in pieces."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from schedbed.deploy.scenario.yaml_file import load_text
from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file
from schedbed.tasks.traces import text
from tests.harness.damaged_runs import call

KERNEL = "/proc/version"  # Ends, unlike /proc/kmsg, which the old code would read for ever.
SIM = ("--machines", "sim")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", KERNEL, *SIM),
        ("trace", "describe", KERNEL),
        ("run", "quickstart", "--policy", "{py}:X", *SIM),
        ("run", "quickstart", "--set", f"workload={{trace: {KERNEL}}}", *SIM),
        ("run", "quickstart", "--set", f"workload={{jobs: [{{app: wordcount, input: {KERNEL}}}]}}", *SIM),
        ("run", "quickstart", "--set", "workload={{jobs: [{{app: '{py}:X'}}]}}", *SIM),
    ],
)
def test_a_file_of_the_kernel_is_bad_input(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    link = tmp_path / "mine.py"
    link.symlink_to(KERNEL)
    code, said = call(*(each.format(py=link) if "{py}" in each else each for each in arguments))
    assert code == 2 and len(said.splitlines()) == 1, said
    assert any(words in said for words in ("not a regular file", "no file", "there is no file")), said


def test_plain_files_are_told_from_others(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert is_plain_file(tmp_path / "file")
    assert not any(is_plain_file(Path(path)) for path in (KERNEL, "/dev/null", tmp_path, tmp_path / "no"))


@pytest.mark.parametrize("content", ["a: [" + "1," * 300_000 + "1]", "- 1\n" * 300_000])
def test_too_many_values_are_told_while_they_are_parsed(content: str) -> None:
    with pytest.raises(BadInput, match="not YAML: more than 200,000 values"):
        load_text(content, "x.yaml")


def test_a_large_packed_trace_is_read_in_pieces_and_says_how_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(text, "TOLD_EVERY_S", -1.0)
    path = tmp_path / "t.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"#\n" * (2 << 20))
    assert max(map(len, text.pieces(path))) <= 1 << 20
    assert capsys.readouterr().err.splitlines()[-1] == f"{path}: 4 MiB read so far"

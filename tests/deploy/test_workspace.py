"""Tests result folders, their locks, and scratch folders, which are removed with their run."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schedbed.deploy.workspace import PREFIX, locked, result_folder, scratch, sweep
from schedbed.tasks.errors import BadInput

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "out", "x", NOON)
    assert folder.is_dir()
    (folder / "run.json").write_text("{}")
    with pytest.raises(BadInput, match="holds a run already"):
        result_folder(tmp_path / "out", "x", NOON)


def test_runs_of_one_second_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [result_folder(None, "x", NOON, private=private) for private in (False, True, False)]
    assert [folder.name for folder in made] == [
        "x-20260102-120000",
        "x-20260102-120000-2",
        "x-20260102-120000-3",
    ]
    assert [folder.stat().st_mode & 0o077 == 0 for folder in made] == [False, True, False]


def test_a_default_folder_that_cannot_be_made_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").write_text("")
    with pytest.raises(BadInput, match=r"--out runs/x-.*expected a folder"):
        result_folder(None, "x", NOON)


def test_a_private_folder_lets_nobody_else_in(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for name in ("new", "there"):
            (tmp_path / "there").mkdir(exist_ok=True)
            folder = result_folder(tmp_path / name, "x", NOON, private=True)
            assert folder.stat().st_mode & 0o777 == 0o700
        assert result_folder(tmp_path / "other", "x", NOON).stat().st_mode & 0o777 != 0o700
    finally:
        os.umask(before)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"--out .*file/out: .*expected a folder"):
        result_folder(tmp_path / "file" / "out", "x", NOON)


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BadInput, match="another run"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_scratch_goes_with_its_run_and_that_of_a_dead_one_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    left = tmp_path / f"{PREFIX}{dead.pid}-abc"
    mine = tmp_path / f"{PREFIX}{os.getpid()}-abc"
    other = tmp_path / "unrelated"
    for folder in (left, mine, other):
        folder.mkdir()
    assert sweep(tmp_path) == [left]
    assert mine.exists() and other.exists()
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    with scratch() as folder:
        assert folder.is_dir()
    assert not folder.exists()

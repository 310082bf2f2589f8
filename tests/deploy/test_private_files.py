"""Tests `--private`: only the owner can read the results, including a report that is made later."""

from __future__ import annotations

import os
from pathlib import Path

import schedbed
from schedbed.deploy.results.html_report import rebuild
from schedbed.deploy.workspace import is_private, stay_private


def modes(folder: Path) -> set[int]:
    """Return the permission bits of all files and folders in a folder."""
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_a_private_run_is_private_also_when_its_report_is_made_again(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        out = tmp_path / "out"
        schedbed.run("quickstart", policies=["fifo"], machines="sim", out=out, private=True)
        assert is_private(out) and 0o600 in modes(out) <= {0o700, 0o600}
        (out / "report.html").chmod(0o644)
        rebuild(out)
        assert 0o600 in modes(out) <= {0o700, 0o600}
    finally:
        os.umask(before)


def test_a_folder_that_others_may_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("")
    (tmp_path / "inner" / "file").chmod(0o644)
    (tmp_path / "outside").write_text("")
    (tmp_path / "outside").chmod(0o644)
    folder = tmp_path / "inner"
    folder.chmod(0o755)
    stay_private(folder)
    assert modes(folder) == {0o644}
    (folder / "link").symlink_to(tmp_path / "outside")
    folder.chmod(0o700)
    stay_private(folder)
    assert (folder / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o644, "a link is not followed"

"""MkDocs builds the documentation without a warning, and links out of docs/ point to the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages.site_links import outward

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    index = (tmp_path / "site" / "index.html").read_text()
    assert "tutorial-policy.html" in index and "/blob/main/CHANGELOG.md" in index


@pytest.mark.parametrize(
    ("page", "written", "read"),
    [
        ("a.md", "[x](b.md#c)", "[x](b.md#c)"),
        ("reference/a.md", "[x](../b.md)", "[x](../b.md)"),
        ("a.md", "[x](../CHANGELOG.md#b)", "[x](R/blob/main/CHANGELOG.md#b)"),
        ("reference/a.md", "[x](../../README.md)", "[x](R/blob/main/README.md)"),
        ("results/papers/a.md", "[x](../../../README.md)", "[x](R/blob/main/README.md)"),
        ("a.md", "[x](https://a.b/../c)", "[x](https://a.b/../c)"),
    ],
)
def test_a_link_out_of_docs_leads_to_the_repository(page: str, written: str, read: str) -> None:
    assert outward(written, page, "R") == read

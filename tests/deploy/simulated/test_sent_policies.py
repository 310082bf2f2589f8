"""Tests that a user's policy file is sent with exactly the files beside it that it imports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.simulated.sent_runs import contents_of, file_of, moved_to


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("a/mine.py:Mine", "{there}/mine.py:Mine"),
        (" a/mine.py:Mine:wait=5s,other=a ", "{there}/mine.py:Mine:wait=5s,other=a"),
        ({"a/mine.py:Mine": {"wait": 5}}, {"{there}/mine.py:Mine": {"wait": 5}}),
    ],
)
def test_a_policy_keeps_its_class_and_parameters_in_another_folder(
    given: Any, moved: Any, tmp_path: Path
) -> None:
    assert file_of(given) == Path("a/mine.py")
    found = moved_to(tmp_path, given, {"mine.py": ""})
    assert json.loads(json.dumps(found).replace(str(tmp_path), "{there}")) == moved


@pytest.mark.parametrize(
    "given", ["fifo", "delay:node_wait=5s", {"delay": {"node_wait": "5s"}}, "order=fair,locality=delay"]
)
def test_a_shipped_policy_has_no_file(given: Any) -> None:
    assert file_of(given) is None


def test_files_that_are_imported_go_along_unchanged(tmp_path: Path) -> None:
    sources = {
        "mine.py": "import os, near.deep\nfrom twice import x\ndef f():\n    from . import late\n",
        "near/__init__.py": "",
        "near/deep.py": "import json\n",
        "twice.py": "import mine, broken\n",
        "late.py": "# -*- coding: latin-1 -*-\nNAME = 'é'\n",
        "broken.py": "def\n",
        "json.py": "",
        "unused.py": "",
        "data.csv": "",
    }
    here, there = tmp_path / "here", tmp_path / "there"
    for name, text in sources.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(text.encode("latin-1"))
    moved_to(there, f"{here}/mine.py:Mine", contents_of(here / "mine.py"))
    sent = {str(path.relative_to(there)) for path in there.rglob("*.*")}
    assert sent == set(sources) - {"unused.py", "data.csv"}
    assert all((there / name).read_bytes() == (here / name).read_bytes() for name in sent)

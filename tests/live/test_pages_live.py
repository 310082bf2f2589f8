"""The examples in docs/cluster.md that keep a cluster up run unchanged on a cluster of three nodes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import schedbed
from schedbed.scheduler.history import read_tables
from tests.harness.command import Command
from tests.pages.blocks import ROOT, blocks_of

pytestmark = pytest.mark.live

SMALL = ("--nodes", "3", "--scale", "0.02", "--metrics", "0", "--web", "0", "--out", "out")
"""So that the block's cluster starts in seconds; with the options of docs/metrics.md and docs/live-page.md."""


def test_the_cluster_of_the_page_takes_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the shell example up to `down`, then the Python example, whose `down` ends the cluster."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("books.txt").write_text("the cat and the dog\n" * 20_000)
    Path("jobs.yaml").write_text("jobs:\n- {app: pi, maps: 2, reduces: 1}\n")
    blocks = list(blocks_of(ROOT / "docs" / "cluster.md"))
    shell = next(block for block in blocks if block.language == "sh")
    python = next(block for block in blocks if "schedbed.connect(" in block.text)
    for command in shell.commands:
        words = shlex.split(command)[1:]
        if words[0] == "down":
            break
        ran = Command(tmp_path, *words, *(SMALL if words[0] == "up" else ()))
        assert ran.wait() == 0, f"{command}\n{ran.text()}"
        if words[0] == "up":
            assert "lab" in ran.text() and re.search(r"127\.0\.0\.1:\d+", ran.text())
    exec(compile(python.text, "cluster.md", "exec"), {"schedbed": schedbed})
    jobs = read_tables(tmp_path / "out")["jobs"]
    assert set(jobs["state"]) == {"succeeded"} and len(jobs) == 3

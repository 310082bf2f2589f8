"""Tests that lines from native libraries go to a file, while Python's lines go to standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from schedbed.cluster.own_python import module_environment

PROGRAM = """
import os, sys
from pathlib import Path
from schedbed.deploy.live.live_runs import native_lines_in
try:
    with native_lines_in(Path(sys.argv[1])):
        print("before", file=sys.stderr)
        {act}
        print("after", file=sys.stderr)
        raise SystemExit(3)
finally:
    os.write(2, b"native again\\n")
"""


def run(path: Path, act: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(act=act), str(path)],
        stderr=subprocess.PIPE,
        env=module_environment(),
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


def test_native_lines_are_kept_in_the_file_and_told_of(tmp_path: Path) -> None:
    path = tmp_path / "ray.log"
    code, said = run(path, "os.write(2, b'[raylet] trouble\\n[raylet] more\\n')")
    note = f"note: Ray wrote 2 lines about itself, kept in {path}"
    assert (code, said) == (3, ["before", "after", note, "native again"])
    assert path.read_text() == "[raylet] trouble\n[raylet] more\n"


def test_without_such_lines_there_is_no_file(tmp_path: Path) -> None:
    assert run(tmp_path / "ray.log", "pass") == (3, ["before", "after", "native again"])
    assert list(tmp_path.iterdir()) == []

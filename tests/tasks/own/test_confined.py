"""Tests that a user's code in a child process of the driver has neither network nor capabilities."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.tasks.own.child import CONFINED, ask

CODE = """
import ctypes, json, os, socket, sys
from pathlib import Path
lines = Path("/proc/self/status").read_text().splitlines()
held = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("Cap", "NoNew"))}
libc = ctypes.CDLL(None)
mounted = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
try:
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 3).close()
    reached = True
except OSError:
    reached = False
with os.fdopen(int(sys.argv[1]), "w") as out:
    json.dump({**held, "mounted": mounted, "reached": reached, "uid": os.getuid()}, out)
"""


def test_user_code_has_no_network_and_no_capability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    (tmp_path / "mine_confined.py").write_text(CODE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PORT", str(server.getsockname()[1]))
        said = ask("mine_confined", {}, 60.0)
    assert said["mounted"] == -1 and said["uid"] == os.getuid()
    assert said["NoNewPrivs"] == "1"
    assert {said[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    if os.geteuid() == 0:  # Others need user namespaces, which some kernels refuse.
        assert not said["reached"]


def test_errors_and_arguments_are_those_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "mine_argv.py").write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    done = subprocess.run(
        [sys.executable, "-P", "-m", CONFINED, "mine_argv", "a"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "['a']\n")

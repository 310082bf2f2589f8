"""Tests that a user's code in a child process of the driver reaches nothing outside, or is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.own import confined
from schedbed.tasks.own.child import CONFINED, TRUST, ask, how_code_runs

ROOT = os.geteuid() == 0
CODE = """
import ctypes, json, os, socket, sys
from pathlib import Path
asked = json.load(sys.stdin)
lines = Path("/proc/self/status").read_text().splitlines()
held = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("Cap", "NoNew"))}
libc = ctypes.CDLL(None)
mounted = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
try:
    socket.create_connection(("127.0.0.1", asked["port"]), 3).close()
    reached = True
except OSError:
    reached = False
written = []
for path in asked["paths"]:
    try:
        Path(path).write_text("x")
        written.append(path)
    except OSError:
        pass
others = [name for name in os.listdir("/proc") if name.isdigit()]
with os.fdopen(int(sys.argv[1]), "w") as out:
    json.dump({**held, "mounted": mounted, "reached": reached, "uid": os.getuid(), "written": written,
               "others": others, "home": os.environ["HOME"], "shown": Path("shown").exists()}, out)
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what a program finds and can write: here, beside schedbed, and in /tmp."""
    tmp_path.chmod(0o755)
    (tmp_path / "mine_confined.py").write_text(CODE)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    paths = [
        str(tmp_path / "open" / "x"),
        "/tmp/schedbed-test",
        f"{Path(confined.__file__).parent}/x",
        "/etc/x",
    ]
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = ask(
            "mine_confined", {"port": server.getsockname()[1], "paths": paths}, 60.0, tmp_path / "open"
        )
    assert not any(Path(path).exists() for path in paths)
    return answer


def confined_here() -> bool:
    try:
        how_code_runs("it", "")
    except BadInput:
        return False
    return True


@pytest.mark.skipif("not confined_here()", reason="this kernel lets nothing be confined")
def test_user_code_has_no_network_no_capability_and_writes_only_to_a_tmp_of_its_own(
    said: dict[str, Any],
) -> None:
    assert said["mounted"] == -1 and said["uid"] == (confined.NOBODY if ROOT else os.getuid())
    assert said["NoNewPrivs"] == "1"
    assert {said[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert not said["reached"]
    assert said["written"] == ["/tmp/schedbed-test"]
    assert (said["others"], said["home"]) == (["1"], "/tmp")


@pytest.mark.skipif(not ROOT, reason="without capabilities, only root may make no user namespace here")
def test_what_cannot_be_confined_is_refused_unless_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = """
from schedbed.tasks.own import child, confined
confined.drop_capabilities()
print(child.how_code_runs("app.py:A", "declare costs"))
"""
    assert said_by(bare).endswith(
        "BadInput: app.py:A cannot be confined on this host (unshare: Operation not permitted), expected "
        "--trust-code, which lets it run as your user; declare costs\n"
    )
    monkeypatch.setenv(TRUST, "1")
    assert said_by(bare) == "on this host, as your user, with your files\n"


def said_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


@pytest.mark.parametrize("trusted", ["0", "1"])
def test_errors_and_arguments_are_those_of_the_module(tmp_path: Path, trusted: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "mine_argv.py").write_text("import sys; print(sys.argv[1:]); sys.stdout.flush(); sys.exit(7)")
    done = subprocess.run(
        [sys.executable, "-P", "-m", CONFINED, "mine_argv", "1", trusted],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if trusted == "1" or confined_here():
        assert (done.returncode, done.stdout) == (7, "['1']\n")
